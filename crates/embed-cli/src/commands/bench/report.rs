//! What `embed bench` prints: a table for people, or one JSON object with the same facts.
//!
//! Field names of the JSON object are stable. A rate counts the bytes of the lines without their ends;
//! a megabyte is 10^6 bytes.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::console::{count, size};

use super::measure::{Passes, rank};

/// All figures of one run.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) model: String,
    pub(super) id: String,
    pub(super) dimensions: usize,
    /// Kind of the tokenizer and what runs it.
    pub(super) tokenizer: &'static str,
    /// The instructions that rows are pooled with.
    pub(super) kernel: &'static str,
    pub(super) device: String,
    /// That embed the lines together.
    pub(super) threads: usize,
    pub(super) cores: usize,
    pub(super) corpus: CorpusFacts,
    pub(super) batch_texts: usize,
    /// Passes after the first.
    pub(super) rounds: usize,
    pub(super) tokenize: Rate,
    pub(super) embed: Rate,
    pub(super) query: Query,
    pub(super) load: Load,
    pub(super) resident_bytes_after_load: Option<u64>,
}

/// What the text is like, without which no rate means anything.
#[derive(Serialize)]
pub(super) struct CorpusFacts {
    path: String,
    lines: usize,
    /// Of all lines, without their ends.
    bytes: usize,
    median_line_bytes: usize,
    p99_line_bytes: usize,
    /// Within the limit of each line, unknown ones included.
    tokens: usize,
    /// Lines of which only the beginning is read; all their bytes count in the rates.
    truncated_lines: usize,
    /// Lines with a character beyond ASCII, from 0 to 1.
    non_ascii_share: f64,
}

impl CorpusFacts {
    /// The facts of a corpus of at least one line.
    pub(super) fn new(path: &Path, lines: &[&str], tokens: usize, truncated_lines: usize) -> Self {
        let mut lengths: Vec<usize> = lines.iter().map(|line| line.len()).collect();
        lengths.sort_unstable();
        let non_ascii = lines.iter().filter(|line| !line.is_ascii()).count();
        Self {
            path: path.display().to_string(),
            lines: lines.len(),
            bytes: lengths.iter().sum(),
            median_line_bytes: rank(&lengths, 50),
            p99_line_bytes: rank(&lengths, 99),
            tokens,
            truncated_lines,
            non_ascii_share: non_ascii as f64 / lines.len() as f64,
        }
    }
}

/// Passes over the corpus.
#[derive(Serialize)]
pub(super) struct Rate {
    first_pass_seconds: f64,
    first_pass_mb_per_second: f64,
    best_mb_per_second: f64,
    median_mb_per_second: f64,
    best_texts_per_second: f64,
    median_texts_per_second: f64,
}

impl Rate {
    pub(super) fn new(bytes: usize, texts: usize, passes: &Passes) -> Self {
        let megabytes = bytes as f64 / 1e6;
        let texts = texts as f64;
        Self {
            first_pass_seconds: passes.first,
            first_pass_mb_per_second: megabytes / passes.first,
            best_mb_per_second: megabytes / passes.best(),
            median_mb_per_second: megabytes / passes.median(),
            best_texts_per_second: texts / passes.best(),
            median_texts_per_second: texts / passes.median(),
        }
    }
}

/// The time of one query among many.
#[derive(Serialize)]
pub(super) struct Query {
    /// Different ones.
    pub(super) queries: usize,
    pub(super) p50_nanoseconds: u64,
    pub(super) p99_nanoseconds: u64,
}

/// The time of a load.
#[derive(Serialize)]
pub(super) struct Load {
    pub(super) best_seconds: f64,
    pub(super) median_seconds: f64,
}

impl Report {
    /// One line.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain fields") + "\n"
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let corpus = &self.corpus;
        writeln!(f, "model: {}, {} dimensions", self.model, self.dimensions)?;
        writeln!(f, "tokenizer: {}; kernel: {}", self.tokenizer, self.kernel)?;
        let threads = match self.threads {
            1 => "one thread".to_owned(),
            more => format!("{more} threads"),
        };
        writeln!(f, "device: {}, {threads}; {}", self.device, count(self.cores as u64, "core"))?;
        writeln!(
            f,
            "corpus: {}, {}, {}, {}; {:.1} % of lines are not ASCII",
            corpus.path,
            count(corpus.lines as u64, "line"),
            size(corpus.bytes as u64),
            count(corpus.tokens as u64, "token"),
            corpus.non_ascii_share * 100.0,
        )?;
        if corpus.truncated_lines > 0 {
            writeln!(
                f,
                "{} of them cut at the token limit: what was not read counts in MB/s (see --max-length)",
                corpus.truncated_lines
            )?;
        }
        writeln!(
            f,
            "a line: {} bytes in the median, {} in the 99th percentile\n",
            corpus.median_line_bytes, corpus.p99_line_bytes
        )?;
        writeln!(
            f,
            "{:10}{:>12}{:>14}{:>16}{:>16}{:>18}",
            "", "best MB/s", "median MB/s", "first pass MB/s", "best texts/s", "median texts/s"
        )?;
        for (name, rate) in [("tokenize", &self.tokenize), ("embed", &self.embed)] {
            writeln!(
                f,
                "{name:10}{:>12.2}{:>14.2}{:>16.2}{:>16.0}{:>18.0}",
                rate.best_mb_per_second,
                rate.median_mb_per_second,
                rate.first_pass_mb_per_second,
                rate.best_texts_per_second,
                rate.median_texts_per_second,
            )?;
        }
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        writeln!(
            f,
            "\none query: {:.2} µs in the median, {:.2} µs in the 99th percentile",
            micros(self.query.p50_nanoseconds),
            micros(self.query.p99_nanoseconds),
        )?;
        writeln!(
            f,
            "load: {:.2} ms at best, {:.2} ms in the median",
            self.load.best_seconds * 1e3,
            self.load.median_seconds * 1e3,
        )?;
        let resident = self.resident_bytes_after_load;
        let resident = resident.map_or_else(|| "not known here".to_owned(), size);
        writeln!(f, "resident after load: {resident}\n")?;
        writeln!(
            f,
            "{} after the first, {} texts a call, MB = 10^6 bytes",
            if self.rounds == 1 { "1 pass".to_owned() } else { format!("{} passes", self.rounds) },
            self.batch_texts,
        )
    }
}
