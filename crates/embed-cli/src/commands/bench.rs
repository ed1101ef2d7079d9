//! `embed bench`: how fast this machine embeds a corpus of the user's.
//!
//! It measures and never judges: comparisons with other libraries are the project's own task. What is
//! slow only once is told apart from what is slow always: the first pass, on a model that has just been
//! loaded, does not count among the others.
//!
//! | figure | is |
//! | --- | --- |
//! | tokenize | every line to ids, into one vector that is used again |
//! | embed | every line to a row, [`BATCH_TEXTS`] lines a call, into one buffer, on the threads asked for |
//! | query | one line a call: 1,000 queries of 5 to 20 words in a row, cut from all over the corpus |
//! | load | the model from its files, which are in the system's cache by then |
//! | resident | memory in RAM after the first load, before the corpus is read |

mod corpus;
mod measure;
mod report;

use std::num::NonZero;
use std::thread;

use anyhow::{Context as _, Result};
use embed_core::{Embedder as _, EncodeOptions, Input, RowInfo, Tokens as _};
use embed_files::output::Destination;
use embed_model2vec::{ModelOptions, StaticModel};

use crate::cli::{BenchArgs, GlobalArgs};
use crate::console::Console;
use crate::exit_code::Outcome;
use crate::{interrupt, model};

use corpus::{Corpus, QUERIES};
use measure::{Passes, nanoseconds_of, passes};
use report::{CorpusFacts, Load, Query, Rate, Report};

/// Lines in one call, so that the rows take a megabyte or so, whatever the corpus takes.
const BATCH_TEXTS: usize = 1024;

pub(crate) fn run(args: &BenchArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    // There is nothing to clean up: a signal ends the process at once.
    let _no_files = interrupt::clean_up_on_signal()?;
    let path = args
        .corpus
        .as_deref()
        .context("nothing to measure with: give a file of texts, one a line, with --corpus FILE")?;
    Corpus::check(path)?;
    let options = global.encode_options();
    let model_options = ModelOptions::default().with_threads(args.threads);
    let load = |console| model::open_with(None, model_options.clone(), global, console);

    let first = load(console)?;
    let resident_bytes_after_load = measure::resident_bytes();
    let corpus = Corpus::read(path)?;
    let lines = corpus.lines();
    console.detail(&format!("measuring with {} lines, {} passes", lines.len(), args.rounds));

    let (mut tokens, mut truncated_lines) = (0, 0);
    let mut ids = Vec::new();
    let tokenized = passes(args.rounds, || {
        (tokens, truncated_lines) = tokenize(&first, &lines, &options, &mut ids)?;
        Ok(())
    })?;
    console.detail("tokenizing is measured");

    // A model that has seen no text yet.
    let fresh = load(Console::SILENT)?;
    let mut buffers = Buffers::new(lines.len(), fresh.output_dim(&options)?);
    let embedded = passes(args.rounds, || embed(&fresh, &lines, &options, &mut buffers))?;
    console.detail("embedding is measured");

    let latencies = query(&fresh, &corpus.queries(), args.rounds, &options)?;
    let loads = passes(args.rounds, || load(Console::SILENT).map(drop))?;

    let description = first.description();
    let report = Report {
        model: description.origin,
        id: first.model_id().to_owned(),
        dimensions: first.output_dim(&options)?,
        tokenizer: description.tokenizer,
        kernel: description.kernel,
        device: fresh.device_name().unwrap_or("cpu").to_owned(),
        threads: args.threads.get(),
        cores: thread::available_parallelism().map_or(1, NonZero::get),
        corpus: CorpusFacts::new(path, &lines, tokens, truncated_lines),
        batch_texts: BATCH_TEXTS,
        rounds: args.rounds.get(),
        tokenize: rate(&corpus, &lines, &tokenized),
        embed: rate(&corpus, &lines, &embedded),
        query: latencies,
        load: Load { best_seconds: loads.best(), median_seconds: loads.median() },
        resident_bytes_after_load,
    };
    let mut out = Destination::stdout()?;
    let text = if args.json { report.json() } else { report.to_string() };
    out.write(text.as_bytes())?;
    out.commit()?;
    Ok(Outcome::Done)
}

/// Every line to ids; the number of tokens within the limit, and of lines that were cut there.
fn tokenize(
    model: &StaticModel,
    lines: &[&str],
    options: &EncodeOptions,
    ids: &mut Vec<u32>,
) -> Result<(usize, usize)> {
    let (mut tokens, mut truncated) = (0, 0);
    for (index, line) in lines.iter().enumerate() {
        ids.clear();
        let info = model.token_ids(line, options, ids);
        let info = info.with_context(|| format!("line {}", index + 1))?;
        tokens += info.tokens;
        truncated += usize::from(info.truncated);
    }
    Ok((tokens, truncated))
}

/// Where rows go, made once: a measurement of embedding is none of getting memory.
struct Buffers {
    rows: Vec<f32>,
    info: Vec<RowInfo>,
}

impl Buffers {
    fn new(lines: usize, dim: usize) -> Self {
        let texts = lines.min(BATCH_TEXTS);
        Self { rows: vec![0.0; texts * dim], info: vec![RowInfo::default(); texts] }
    }
}

/// Every line to a row.
fn embed(
    model: &StaticModel,
    lines: &[&str],
    options: &EncodeOptions,
    buffers: &mut Buffers,
) -> Result<()> {
    let dim = model.output_dim(options)?;
    let mut inputs = Vec::with_capacity(lines.len().min(BATCH_TEXTS));
    for (index, lines) in lines.chunks(BATCH_TEXTS).enumerate() {
        inputs.clear();
        inputs.extend(lines.iter().map(|line| Input::Text(line)));
        let rows = &mut buffers.rows[..lines.len() * dim];
        let info = &mut buffers.info[..lines.len()];
        model.embed_into(&inputs, options, rows, info).with_context(|| {
            format!("among the {BATCH_TEXTS} lines after line {}", index * BATCH_TEXTS)
        })?;
    }
    Ok(())
}

/// The time of each query: one pass over them that does not count, and as many as asked for that do.
fn query(
    model: &StaticModel,
    queries: &[String],
    rounds: NonZero<usize>,
    options: &EncodeOptions,
) -> Result<Query> {
    let mut row = vec![0.0; model.output_dim(options)?];
    let mut info = [RowInfo::default()];
    let mut durations = Vec::with_capacity(queries.len() * rounds.get());
    for round in 0..=rounds.get() {
        for query in queries {
            let inputs = [Input::Text(query)];
            let (result, nanoseconds) =
                nanoseconds_of(|| model.embed_into(&inputs, options, &mut row, &mut info));
            result?;
            if round > 0 {
                durations.push(nanoseconds);
            }
        }
    }
    durations.sort_unstable();
    let p50_nanoseconds = measure::rank(&durations, 50);
    Ok(Query { queries: QUERIES, p50_nanoseconds, p99_nanoseconds: measure::rank(&durations, 99) })
}

fn rate(corpus: &Corpus, lines: &[&str], passes: &Passes) -> Rate {
    Rate::new(corpus.text_bytes(), lines.len(), passes)
}
