//! The commands, one a file.

mod bench;
mod doctor;
mod files;
mod model;
mod serve;
mod similarity;
mod text;

use anyhow::Result;
use embed_core::RowInfo;

use crate::cli::{Cli, Command};
use crate::console::{Console, count};
use crate::exit_code::Outcome;

pub(crate) fn run(cli: &Cli, console: Console) -> Result<Outcome> {
    match &cli.command {
        Command::Text(args) => text::run(args, &cli.global, console),
        Command::Files(args) => files::run(args, &cli.global, console),
        Command::Similarity(args) => similarity::run(args, &cli.global, console),
        Command::Model(command) => model::run(command, &cli.global, console),
        Command::Bench(args) => bench::run(args, &cli.global, console),
        Command::Serve(args) => serve::run(args, &cli.global, console),
        Command::Doctor => doctor::run(),
    }
}

/// Warns, once, when the model knows little of the text that it was given.
fn warn_if_unknown(rows: u64, zero_rows: u64, tokens: u64, unknown_tokens: u64, console: Console) {
    if zero_rows * 10 > rows || unknown_tokens * 2 > tokens {
        console.warn(&format!(
            "{zero_rows} of {rows} vectors are zero and {unknown_tokens} of {tokens} tokens are unknown: \
             the model knows little of this text, unless it is blank. The built-in model is English; \
             choose a multilingual one with --model"
        ));
    }
}

/// [`warn_if_unknown`] for texts with their row infos, and a word about texts that were cut.
fn warn_about(info: &[RowInfo], console: Console) {
    let sum = |number: fn(&RowInfo) -> usize| info.iter().map(|info| number(info) as u64).sum();
    let zero_rows = sum(|info| usize::from(info.kept == 0));
    let (tokens, unknown) = (sum(|info| info.tokens), sum(|info| info.unknown));
    warn_if_unknown(info.len() as u64, zero_rows, tokens, unknown, console);
    let truncated: u64 = sum(|info| usize::from(info.truncated));
    if truncated > 0 {
        console
            .warn(&format!("{} cut to the token limit: see --max-length", were(truncated, "text")));
    }
}

/// "1 text was", "2 texts were".
fn were(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "was" } else { "were" })
}
