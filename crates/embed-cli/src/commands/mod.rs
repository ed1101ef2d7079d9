//! The commands, one a file.

mod files;
mod model;
mod similarity;
mod text;

use anyhow::Result;

use crate::cli::{Cli, Command};
use crate::console::Console;
use crate::exit_code::Outcome;

pub(crate) fn run(cli: &Cli, console: Console) -> Result<Outcome> {
    match &cli.command {
        Command::Text(args) => text::run(args, &cli.global, console),
        Command::Files(args) => files::run(args, &cli.global, console),
        Command::Similarity(args) => similarity::run(args, &cli.global, console),
        Command::Model(command) => model::run(command, &cli.global, console),
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
