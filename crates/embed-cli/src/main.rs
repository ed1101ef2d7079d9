//! `embed`: texts and files to embedding vectors. Parse, run, print the error, exit.

mod cli;
mod commands;
mod console;
mod exit_code;
mod interrupt;
mod memory;
mod model;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::of_this_program();
    let console = console::Console::new(&cli.global);
    exit_code::of(commands::run(&cli, console))
}
