//! The rows of the table of targets: who is measured against whom, and what counts as enough.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::ci::target_folder;

use super::chains::Chains;
use super::inputs::{Corpus, Inputs, Kind, Model};
use super::peers::{Call, Peers};
use super::report::{Report, Row, Target};
use super::spread::Spread;

/// Both ways to call the incumbent.
const INCUMBENTS: [&str; 2] = ["model2vec-rs-flat", "model2vec-rs-single"];

/// How much longer a byte of an unkind text may take than a byte of prose.
const STEEPEST: f64 = 20.0;

/// Measures with what was given, and writes into the report.
pub(super) struct Measurements<'a> {
    peers: &'a Peers,
    inputs: &'a Inputs,
    rounds: usize,
    report: &'a mut Report,
}

/// Rates of one contender, turn by turn.
struct Rates {
    contender: &'static str,
    megabytes: Spread,
    texts: Spread,
    first: Spread,
}

impl Rates {
    fn new(contender: &'static str, results: &[Value]) -> Result<Self> {
        let warm = spread(results, |result| {
            let seconds = result["seconds"].as_array()?.iter().filter_map(Value::as_f64).collect();
            Some(Spread::new(seconds).median())
        })?;
        let bytes = field(results, "bytes")?;
        Ok(Self {
            contender,
            megabytes: bytes.over(&warm).map(|rate| rate / 1e6),
            texts: field(results, "texts")?.over(&warm).map(|rate| rate / 1e3),
            first: bytes.over(&field(results, "first_seconds")?).map(|rate| rate / 1e6),
        })
    }

    fn cell(&self) -> String {
        format!(
            "{:.1} MB/s, {:.0} k texts/s; first pass {:.1}",
            self.megabytes,
            self.texts.median(),
            self.first.median()
        )
    }

    fn named_cell(&self) -> String {
        format!("{}: {}", self.contender, self.cell())
    }
}

/// One number of each result.
fn spread(results: &[Value], number: impl Fn(&Value) -> Option<f64>) -> Result<Spread> {
    let numbers: Option<Vec<f64>> = results.iter().map(number).collect();
    Ok(Spread::new(numbers.context("a result lacks a number")?))
}

fn field(results: &[Value], name: &str) -> Result<Spread> {
    spread(results, |result| result[name].as_f64())
}

impl<'a> Measurements<'a> {
    pub(super) fn new(
        peers: &'a Peers,
        inputs: &'a Inputs,
        rounds: NonZeroUsize,
        report: &'a mut Report,
    ) -> Self {
        Self { peers, inputs, rounds: rounds.get(), report }
    }

    /// Row 1: all texts to rows.
    pub(super) fn bulk(&mut self) -> Result<()> {
        for (kind, floor, stretch) in
            [(Kind::F32, 2.5, 3.0), (Kind::Int8Row, 3.0, 4.0), (Kind::Int8, 3.5, 5.0)]
        {
            let corpus = self.inputs.english();
            self.whole(1, kind, corpus, Target::TimesAtLeast { floor, stretch })?;
        }
        Ok(())
    }

    /// Row 2, its second half: texts beyond ASCII.
    pub(super) fn multilingual(&mut self) -> Result<()> {
        let corpus = self.inputs.multilingual();
        self.whole(2, Kind::F32, corpus, Target::TimesAtLeast { floor: 1.5, stretch: 2.5 })
    }

    /// Row 6: tokenizers that are not WordPiece, with every corpus.
    pub(super) fn other_tokenizers(&mut self) -> Result<()> {
        for (kind, floor, stretch) in
            [(Kind::Unigram, 6.0, 15.0), (Kind::UnigramFaked, 4.0, 8.0), (Kind::Bpe, 6.0, 15.0)]
        {
            let target = Target::TimesAtLeast { floor, stretch };
            if self.inputs.model(kind).is_none() {
                self.whole(6, kind, None, target)?;
                continue;
            }
            for corpus in &self.inputs.corpora {
                self.whole(6, kind, Some(corpus), target)?;
            }
        }
        Ok(())
    }

    /// Texts to rows, against the better way to call the incumbent.
    fn whole(
        &mut self,
        number: u8,
        kind: Kind,
        corpus: Option<&'a Corpus>,
        target: Target,
    ) -> Result<()> {
        let Some(model) = self.inputs.model(kind) else {
            self.report.leave_out(number, "texts to rows", kind.name());
            return Ok(());
        };
        let Some(corpus) = corpus else {
            self.report.leave_out(number, "texts to rows", "a corpus for it");
            return Ok(());
        };
        let mut rates =
            self.rates(&["embed", INCUMBENTS[0], INCUMBENTS[1]], "bulk", model, corpus)?;
        let ours = rates.remove(0);
        let best = best(&rates);
        self.report.row(Row {
            number,
            what: format!("bulk, {}, {}", model.name, corpus.name),
            ours: ours.cell(),
            theirs: best.named_cell(),
            figure: ours.megabytes.over(&best.megabytes),
            target,
        });
        Ok(())
    }

    fn rates(
        &self,
        contenders: &[&'static str],
        task: &'static str,
        model: &'a Model,
        corpus: &'a Corpus,
    ) -> Result<Vec<Rates>> {
        let results = self.turns(contenders, task, Some(model), Some(corpus))?;
        contenders.iter().zip(&results).map(|(name, results)| Rates::new(name, results)).collect()
    }

    fn turns(
        &self,
        contenders: &[&'static str],
        task: &'static str,
        model: Option<&Model>,
        corpus: Option<&Corpus>,
    ) -> Result<Vec<Vec<Value>>> {
        let call = |contender: &&'static str| Call { contender, task, model, corpus, threads: 1 };
        let calls: Vec<Call<'_>> = contenders.iter().map(call).collect();
        self.peers.turns(&calls, self.rounds)
    }

    /// Row 2, its first half: texts to ids.
    pub(super) fn tokenizing(&mut self) -> Result<()> {
        let what = "tokenizing alone";
        let Some(model) = self.inputs.model(Kind::F32) else {
            self.report.leave_out(2, what, Kind::F32.name());
            return Ok(());
        };
        let Some(corpus) = self.inputs.english() else {
            self.report.leave_out(2, what, "a corpus of English");
            return Ok(());
        };
        let contenders = ["embed", "tokie", "tokenizers"];
        let results = self.turns(&contenders, "tokenize", Some(model), Some(corpus))?;
        let ids: Vec<&Value> = results.iter().map(|results| &results[0]["ids"]).collect();
        let same = ids.iter().all(|number| *number == ids[0]);
        ensure!(same, "{contenders:?} give different numbers of ids: {ids:?}");
        let mut rates = Vec::new();
        for (name, results) in contenders.iter().zip(&results) {
            rates.push(Rates::new(name, results)?);
        }
        let targets = [Target::TimesAtLeast { floor: 3.5, stretch: 5.0 }, Target::None];
        for (other, target) in rates[1..].iter().zip(targets) {
            self.report.row(Row {
                number: 2,
                what: format!("{what}, {}, {}, {} ids", model.name, corpus.name, ids[0]),
                ours: rates[0].cell(),
                theirs: other.named_cell(),
                figure: rates[0].megabytes.over(&other.megabytes),
                target,
            });
        }
        Ok(())
    }

    /// Row 3: one text a call.
    pub(super) fn query(&mut self) -> Result<()> {
        let (Some(model), Some(corpus)) = (self.inputs.model(Kind::F32), self.inputs.english())
        else {
            self.report.leave_out(3, "one query", "an f32 WordPiece model or a corpus of English");
            return Ok(());
        };
        let results = self.turns(&["embed", INCUMBENTS[1]], "query", Some(model), Some(corpus))?;
        let micros = |results: &[Value], name: &str| {
            Ok::<_, anyhow::Error>(field(results, name)?.map(|nanoseconds| nanoseconds / 1e3))
        };
        let cell = |results: &[Value]| {
            let p99 = micros(results, "p99_ns")?.median();
            Ok::<_, anyhow::Error>(format!("{} µs, p99 {p99:.2}", micros(results, "p50_ns")?))
        };
        self.report.row(Row {
            number: 3,
            what: format!("one query, p50, {}, {}", model.name, corpus.name),
            ours: cell(&results[0])?,
            theirs: format!("{}: {}", INCUMBENTS[1], cell(&results[1])?),
            figure: field(&results[0], "p50_ns")?.over(&field(&results[1], "p50_ns")?),
            target: Target::TimesAtMost { floor: 0.9, stretch: 0.5 },
        });
        Ok(())
    }

    /// Rows 4 and 7: from nothing to the first row, and the memory that this takes.
    pub(super) fn loading(&mut self, times: bool, memory: bool) -> Result<()> {
        let built_in = Model::built_in()?;
        let others = self.inputs.models.iter().map(|model| (model, Some(model)));
        for (model, given) in [(&built_in, None)].into_iter().chain(others) {
            let incumbent = INCUMBENTS[1];
            let calls = [
                Call { contender: "embed", task: "load", model: given, corpus: None, threads: 1 },
                Call {
                    contender: incumbent,
                    task: "load",
                    model: Some(model),
                    corpus: None,
                    threads: 1,
                },
            ];
            let results = self.peers.turns(&calls, self.rounds)?;
            let name = match given {
                None => format!("{}, built in", model.name),
                Some(_) => model.name.clone(),
            };
            let scaled = |name: &str, unit: f64| -> Result<(Spread, Spread)> {
                let of = |results: &[Value]| {
                    Ok::<_, anyhow::Error>(field(results, name)?.map(|value| value / unit))
                };
                Ok((of(&results[0])?, of(&results[1])?))
            };
            if times {
                let (ours, theirs) = scaled("ready_seconds", 1e-3)?;
                let (figure, target) = match (given, model.kind) {
                    (None, _) => (ours.clone(), milliseconds(8.0, 3.0)),
                    (_, Kind::F32) => (ours.clone(), milliseconds(12.0, 5.0)),
                    (_, Kind::Unigram) => {
                        (theirs.over(&ours), Target::TimesAtLeast { floor: 20.0, stretch: 30.0 })
                    }
                    _ => (theirs.over(&ours), Target::None),
                };
                self.report.row(Row {
                    number: 4,
                    what: format!("ready after load, {name}"),
                    ours: format!("{ours} ms"),
                    theirs: format!("model2vec-rs: {theirs} ms"),
                    figure,
                    target,
                });
            }
            if memory {
                let (ours, theirs) = scaled("resident_bytes", 1e6)?;
                let files = model.file_bytes as f64 / 1e6;
                self.report.row(Row {
                    number: 7,
                    what: format!("resident after load, {name}, files of {files:.1} MB"),
                    ours: format!("{ours:.1} MB"),
                    theirs: format!("model2vec-rs: {theirs:.1} MB"),
                    figure: ours,
                    target: Target::AtMost {
                        floor: files * 1.3 + 15.0,
                        stretch: files * 1.1 + 8.0,
                        unit: "MB",
                    },
                });
            }
        }
        Ok(())
    }

    /// Row 5: what two threads give, and what the machine itself gives two processes that share nothing.
    pub(super) fn at_once(&mut self) -> Result<()> {
        let (Some(model), Some(corpus)) = (self.inputs.model(Kind::F32), self.inputs.english())
        else {
            self.report.leave_out(
                5,
                "two at once",
                "an f32 WordPiece model or a corpus of English",
            );
            return Ok(());
        };
        for contender in ["embed", INCUMBENTS[1]] {
            let call = Call {
                contender,
                task: "bulk",
                model: Some(model),
                corpus: Some(corpus),
                threads: 1,
            };
            let threaded = (contender == "embed").then(|| Call { threads: 2, ..call.clone() });
            let (mut alone, mut together, mut threads) = (Vec::new(), Vec::new(), Vec::new());
            for round in 1..=self.rounds {
                eprintln!("{round}/{}: one and two at once: {}", self.rounds, call.name());
                alone.push(self.rate_at_once(&call, 1)?);
                together.push(self.rate_at_once(&call, 2)?);
                if let Some(call) = &threaded {
                    threads.push(self.rate_at_once(call, 1)?);
                }
            }
            let (alone, together) = (Spread::new(alone), Spread::new(together));
            let figure = together.over(&alone);
            let name = format!("{}, {}", model.name, corpus.name);
            let cell = format!("one {alone:.1} MB/s, two {together:.1} MB/s");
            if threaded.is_some() {
                let threads = Spread::new(threads);
                self.report.row(Row {
                    number: 5,
                    what: format!(
                        "two threads over one, as a share of two processes over one, {name}"
                    ),
                    ours: format!("two threads {threads:.1} MB/s; processes: {cell}"),
                    theirs: String::new(),
                    figure: threads.over(&alone).over(&figure),
                    target: Target::TimesAtLeast { floor: 0.85, stretch: 0.95 },
                });
            }
            let what = format!("two processes at once over one, {name}");
            let (ours, theirs) = match contender {
                "embed" => (cell, String::new()),
                other => (String::new(), format!("{other}: {cell}")),
            };
            self.report.row(Row { number: 5, what, ours, theirs, figure, target: Target::None });
        }
        Ok(())
    }

    /// Megabytes a second of all processes of a call that run at the same time.
    fn rate_at_once(&self, call: &Call<'_>, processes: usize) -> Result<f64> {
        let results = self.peers.at_once(call, processes)?;
        let rate = |result: &Value| {
            let rates = Rates::new(call.contender, std::slice::from_ref(result))?;
            Ok(rates.megabytes.median())
        };
        results.iter().map(rate).sum()
    }

    /// Texts whose cost might grow faster than they do, relative to prose of the same size.
    pub(super) fn adversarial(&mut self) -> Result<()> {
        let corpus = self.inputs.corpora.first().context("there is at least one corpus")?;
        let mut table = format!(
            "## Unkind texts\n\nA megabyte in one text without limit, beside plain prose of the same size, of the same \
             tokenizer. Each must stay below {STEEPEST} times the time of a byte of prose.\n\n\
             | model | text | ns a byte | times prose | verdict |\n| --- | --- | --- | --- | --- |\n"
        );
        for kind in [Kind::F32, Kind::Int8Row, Kind::Unigram, Kind::UnigramFaked, Kind::Bpe] {
            let Some(model) = self.inputs.model(kind) else { continue };
            let results = self.turns(&["embed"], "adversarial", Some(model), Some(corpus))?;
            let number = |case: usize, name: &'static str| {
                spread(&results[0], move |result| result["cases"][case][name].as_f64())
            };
            let cases = results[0][0]["cases"].as_array().context("a result lacks its cases")?;
            let a_byte = |case: usize| {
                let seconds = number(case, "best_seconds")?;
                Ok::<_, anyhow::Error>(seconds.over(&number(case, "bytes")?).map(|time| time * 1e9))
            };
            let prose = a_byte(0)?;
            for (index, case) in cases.iter().enumerate() {
                let time = a_byte(index)?;
                let times = time.over(&prose);
                let verdict = if times.median() <= STEEPEST { "linear" } else { "**a cliff**" };
                let name = case["name"].as_str().unwrap_or_default();
                let _ =
                    writeln!(table, "| {} | {name} | {time} | {times} | {verdict} |", model.name);
            }
        }
        let chains = Chains::write(&target_folder().join("bench").join("chains"))?;
        let call = |model, corpus| Call {
            contender: "embed",
            task: "unlimited",
            model,
            corpus: Some(corpus),
            threads: 1,
        };
        let calls = [call(None, corpus), call(Some(&chains.model), &chains.corpus)];
        let results = self.peers.turns(&calls, self.rounds)?;
        let a_byte = |results: &[Value]| {
            let rates = Rates::new("embed", results)?;
            Ok::<_, anyhow::Error>(rates.megabytes.map(|rate| 1e3 / rate))
        };
        let (prose, time) = (a_byte(&results[0])?, a_byte(&results[1])?);
        let _ = writeln!(table, "{}", chains_line(&prose, &time));
        self.report.section(table);
        Ok(())
    }
}

/// A vocabulary of chains beside the texts of the corpus and the built-in model.
fn chains_line(prose: &Spread, time: &Spread) -> String {
    let times = time.over(prose);
    let verdict = if times.median() <= STEEPEST { "linear" } else { "**a cliff**" };
    format!(
        "| a vocabulary of chains of one letter | words that follow a chain and break off; prose is that of \
         the built-in model, {prose} | {time} | {times} | {verdict} |"
    )
}

fn milliseconds(floor: f64, stretch: f64) -> Target {
    Target::AtMost { floor, stretch, unit: "ms" }
}

/// The one with the greatest median.
fn best(rates: &[Rates]) -> &Rates {
    let median = |rates: &&Rates| rates.megabytes.median();
    rates
        .iter()
        .max_by(|a, b| median(a).total_cmp(&median(b)))
        .expect("there is at least one contender")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_the_median_pass_and_tells_the_first_apart() -> Result<()> {
        let result = serde_json::json!({
            "bytes": 2_000_000, "texts": 4000, "first_seconds": 4.0, "seconds": [1.0, 2.0, 9.0],
        });
        let rates = Rates::new("embed", &[result])?;
        assert_eq!(rates.cell(), "1.0 (1.0 to 1.0) MB/s, 2 k texts/s; first pass 0.5");
        Ok(())
    }

    #[test]
    fn the_better_way_counts() -> Result<()> {
        let rates = |name, seconds: f64| {
            let result = serde_json::json!({
                "bytes": 1, "texts": 1, "first_seconds": 1.0, "seconds": [seconds],
            });
            Rates::new(name, &[result])
        };
        assert_eq!(best(&[rates("slow", 2.0)?, rates("fast", 1.0)?]).contender, "fast");
        Ok(())
    }

    #[test]
    fn a_result_without_its_numbers_is_an_error() {
        assert!(Rates::new("embed", &[serde_json::json!({ "bytes": 1 })]).is_err());
    }
}
