//! `cargo xtask load`: a server that is ended under load, one that is asked for twice what it can do, and
//! one whose model panics.
//!
//! Each part says what it saw in a table and fails the task when a promise was broken: no request that was
//! sent goes without an answer, no status above 500 but 503, nothing is left behind.

mod overload;
mod panics;
mod terminate;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::serve::process::{Server, on_cores};
use crate::serve::programs;

/// What to load, and for how long.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program `embed` [default: the release build, made when it is missing or old]
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// The example `faulty` of the server crate [default: the release build]
    #[arg(long, value_name = "PATH")]
    faulty: Option<PathBuf>,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// How often the server is ended under load
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    /// Seconds of overload
    #[arg(long, value_name = "N", default_value_t = 120)]
    seconds: u64,
    /// Where random numbers begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Settings of the server, after `--`
    #[arg(last = true, value_name = "SETTING")]
    settings: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// SIGTERM under load
    Terminate,
    /// Twice the capacity, with clients that leave
    Overload,
    /// A model that panics
    Panics,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let wants = |part| args.only.is_none_or(|only| only == part);
    let mut passed = true;
    if wants(Part::Terminate) {
        let program = programs::embed(args.bin.as_deref())?;
        passed &= terminate::run(&program, &args.settings, args.rounds)?;
    }
    if wants(Part::Panics) || wants(Part::Overload) {
        let program = programs::faulty(args.faulty.as_deref())?;
        if wants(Part::Panics) {
            passed &= panics::run(&program, &args.settings)?;
        }
        if wants(Part::Overload) {
            passed &= overload::run(&program, &args.settings, args.seconds, args.seed)?;
        }
    }
    println!("\n{}", if passed { "All passed." } else { "NOT all passed." });
    Ok(passed)
}

/// The example whose model takes a millisecond for each text.
fn slowed(program: &Path, cores: Option<&str>, settings: &[String]) -> Result<Server> {
    let mut command = on_cores(cores, program);
    command.args(["--text-micros", "1000", "--listen", "127.0.0.1:0"]).args(settings);
    Server::start(command)
}
