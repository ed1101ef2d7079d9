//! The document: how it was made, the table of targets, and what is told beside them.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::Result;

use super::machine;
use super::spread::Spread;

/// What a figure has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// As many times as the other, or more.
    TimesAtLeast { floor: f64, stretch: f64 },
    /// A share or a number of times, or less.
    TimesAtMost { floor: f64, stretch: f64 },
    /// So many units, or less.
    AtMost { floor: f64, stretch: f64, unit: &'static str },
    /// Told, not judged.
    None,
}

impl Target {
    fn goals(self) -> Option<(String, String)> {
        match self {
            Self::TimesAtLeast { floor, stretch } => {
                Some((format!("≥ {floor}x"), format!("≥ {stretch}x")))
            }
            Self::TimesAtMost { floor, stretch } => {
                Some((format!("≤ {floor}x"), format!("≤ {stretch}x")))
            }
            Self::AtMost { floor, stretch, unit } => {
                Some((format!("≤ {floor:.3} {unit}"), format!("≤ {stretch:.3} {unit}")))
            }
            Self::None => None,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::AtMost { unit, .. } => unit,
            _ => "x",
        }
    }

    /// By the median: a spread that reaches over the target does not meet it.
    pub(super) fn verdict(self, figure: &Spread) -> &'static str {
        let (floor, stretch) = match self {
            Self::TimesAtLeast { floor, stretch } => {
                (figure.median() >= floor, figure.median() >= stretch)
            }
            Self::TimesAtMost { floor, stretch } | Self::AtMost { floor, stretch, .. } => {
                (figure.median() <= floor, figure.median() <= stretch)
            }
            Self::None => return "",
        };
        match (floor, stretch) {
            (_, true) => "stretch met",
            (true, false) => "floor met",
            (false, false) => "**missed**",
        }
    }
}

/// One row of the table of targets.
pub(super) struct Row {
    /// Number in the table of targets.
    pub(super) number: u8,
    pub(super) what: String,
    pub(super) ours: String,
    /// The best of the others, with its name.
    pub(super) theirs: String,
    /// What is judged.
    pub(super) figure: Spread,
    pub(super) target: Target,
}

impl Row {
    fn line(&self) -> String {
        let Self { number, what, ours, theirs, figure, target } = self;
        let (floor, stretch) = target.goals().unwrap_or_default();
        let (unit, verdict) = (target.unit(), target.verdict(figure));
        let blank = if unit == "x" { "" } else { " " };
        format!(
            "| {number} | {what} | {ours} | {theirs} | {figure}{blank}{unit} | {floor} | {stretch} | {verdict} |\n"
        )
    }
}

/// What was found so far.
pub(super) struct Report {
    command: String,
    rounds: NonZeroUsize,
    rows: Vec<Row>,
    left_out: Vec<String>,
    sections: Vec<String>,
}

const READING: &str = "\
## How to read it

- Every measurement is a process of its own. In each turn every contender runs once, one after the other. A figure
  is the median of the turns, with the least and the greatest in brackets; a ratio is taken within each turn, so
  that both sides met the same machine. The verdict goes by the median.
- A process passes over its corpus once, and this first pass is told apart; then up to five times more, of which it
  gives the median. MB are 10^6 bytes of text without line ends. Texts are cut as each library cuts them by
  default, at 512 tokens in both.
- `embed` and `model2vec-rs` use one thread, unless a row says two. Of the two ways to call `model2vec-rs`,
  `encode_flat` with 1,024 texts a call and a loop of `encode_single`, the faster one counts. `embed` gets 1,024
  texts a call and writes into a buffer that is used again; `model2vec-rs` has no such call. It runs with the
  regular expressions that it has by default (oniguruma).
- Tokenizing alone is without limit and without special tokens; all contenders must give the same number of ids.
- A query is one call with one text, the clock is read around each (which costs about 20 ns and is not taken off), and
  1,000 queries of 5 to 20 words, cut from all over the corpus, take turns.
- Ready after load is the time from a fresh process' first step to its first row, with files in the system's cache:
  work that a library puts off until the first text counts. Resident memory is read then, program included.
";

impl Report {
    pub(super) fn new(command: String, rounds: NonZeroUsize) -> Self {
        Self { command, rounds, rows: Vec::new(), left_out: Vec::new(), sections: Vec::new() }
    }

    pub(super) fn row(&mut self, row: Row) {
        eprint!("{}", row.line());
        self.rows.push(row);
    }

    /// A row that cannot be measured with what was given.
    pub(super) fn leave_out(&mut self, number: u8, what: &str, missing: &str) {
        self.left_out.push(format!("- {number}, {what}: {missing} was not given.\n"));
    }

    /// A part of the document below the table, in Markdown.
    pub(super) fn section(&mut self, text: String) {
        self.sections.push(text);
    }

    pub(super) fn document(&mut self) -> Result<String> {
        self.rows.sort_by_key(|row| row.number);
        let mut text = format!(
            "# The CPU path beside others\n\n```sh\n{}\n```\n\n\
             The tables are what the command writes, with names of files in place of paths. Measured on {}; {}. \
             Figures are medians of {} turns, with the least and the greatest in brackets.\n\n",
            self.command,
            machine::describe(),
            machine::versions()?,
            self.rounds,
        );
        text += "## Targets\n\n\
                 | # | what | embed | the best other | figure | floor | stretch | verdict |\n\
                 | --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for row in &self.rows {
            text += &row.line();
        }
        if !self.left_out.is_empty() {
            let _ = write!(text, "\nLeft out:\n\n{}", self.left_out.concat());
        }
        for section in &self.sections {
            let _ = write!(text, "\n{section}");
        }
        let _ = write!(text, "\n{READING}");
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: Target, median: f64, expected: &str) {
        assert_eq!(target.verdict(&Spread::new(vec![median])), expected);
    }

    #[test]
    fn verdicts_go_by_the_median() {
        let faster = Target::TimesAtLeast { floor: 2.5, stretch: 3.0 };
        check(faster, 3.0, "stretch met");
        check(faster, 2.6, "floor met");
        check(faster, 2.4, "**missed**");
        let shorter = Target::TimesAtMost { floor: 0.9, stretch: 0.5 };
        check(shorter, 0.5, "stretch met");
        check(shorter, 0.9, "floor met");
        check(shorter, 0.91, "**missed**");
        check(Target::None, 1.0, "");
        let spread = Spread::new(vec![1.0, 2.6, 9.0]);
        assert_eq!(faster.verdict(&spread), "floor met");
    }

    #[test]
    fn a_row_names_both_sides_and_the_goals() {
        let row = Row {
            number: 4,
            what: "ready after load".to_owned(),
            ours: "2 ms".to_owned(),
            theirs: "60 ms".to_owned(),
            figure: Spread::new(vec![2.0]),
            target: Target::AtMost { floor: 8.0, stretch: 3.0, unit: "ms" },
        };
        let expected = "| 4 | ready after load | 2 ms | 60 ms | 2.00 (2.00 to 2.00) ms | ≤ 8.000 ms | ≤ 3.000 ms | stretch met |\n";
        assert_eq!(row.line(), expected);
    }

    #[test]
    fn what_was_left_out_is_said() -> Result<()> {
        let mut report = Report::new("cargo xtask bench".to_owned(), NonZeroUsize::MIN);
        report.leave_out(6, "byte-level BPE", "a BPE model");
        let document = report.document()?;
        assert!(document.contains("- 6, byte-level BPE: a BPE model was not given.\n"));
        assert!(document.ends_with('\n') && !document.ends_with("\n\n"));
        Ok(())
    }
}
