//! `cargo xtask bench-server`: the server beside its own trivial route, and beside servers that are made of
//! other libraries.
//!
//! What HTTP and the operating system cost is in `GET /healthz` of the same server; what embedding adds is
//! the difference, so that the two take turns. Beside it, the same requests go to an endpoint of FastAPI and
//! Python model2vec, and to one of axum and model2vec-rs (`benches/servers`). The contenders take turns, and
//! a ratio is taken within a turn. The document says how to read it.

mod closed;
mod compare;
mod contenders;
mod open;
mod report;
mod targets;

use std::fmt::Write as _;
use std::fs;
use std::num::{NonZero, NonZeroUsize};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::ci::workspace_folder;
use crate::serve::process::move_to_cores;
use crate::serve::programs;

use contenders::Contender;
use report::Report;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of the model that all serve
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Python with the packages of benches/servers/requirements.txt; without it, no FastAPI
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// The program `embed` [default: the release build, made when it is missing or old]
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Turns of each measurement
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: NonZeroUsize,
    /// Seconds of each measurement in a turn
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    seconds: f64,
    /// Cores of the servers, as taskset names them, or `all` [default: all but the last]
    #[arg(long, value_name = "CORES")]
    server_cores: Option<String>,
    /// Cores of the generator, or `all` [default: the last]
    #[arg(long, value_name = "CORES")]
    generator_cores: Option<String>,
    /// Leave the other servers out
    #[arg(long)]
    alone: bool,
    /// Measure one target only, and print it instead of writing the document
    #[arg(long, value_name = "TARGET")]
    only: Option<Part>,
    /// Where the document goes, from the root of the repository
    #[arg(long, value_name = "FILE", default_value = "docs/bench-server.md")]
    out: PathBuf,
}

/// What a target is about.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Idle,
    Latency,
    Throughput,
    Flood,
}

/// Who runs where; nothing is anywhere.
struct Cores {
    server: Option<String>,
    generator: Option<String>,
}

impl Cores {
    fn new(args: &Args) -> Self {
        let number = thread::available_parallelism().map_or(1, NonZero::get);
        let (server, generator) = match number {
            1 => (None, None),
            2 => (Some("0".to_owned()), Some("1".to_owned())),
            _ => (Some(format!("0-{}", number - 2)), Some((number - 1).to_string())),
        };
        let choose = |given: &Option<String>, default| match given.as_deref() {
            Some("all") => None,
            Some(cores) => Some(cores.to_owned()),
            None => default,
        };
        Self {
            server: choose(&args.server_cores, server),
            generator: choose(&args.generator_cores, generator),
        }
    }

    fn describe(&self) -> String {
        let name = |cores: &Option<String>| match cores {
            Some(cores) => format!("cores {cores}"),
            None => "any core".to_owned(),
        };
        format!(
            "Servers ran on {}, the generator on {}.",
            name(&self.server),
            name(&self.generator)
        )
    }
}

impl Args {
    fn command(&self, cores: &Cores) -> String {
        let name = self.model.file_name().unwrap_or(self.model.as_os_str()).display();
        let mut command = format!(
            "cargo xtask bench-server --model {name} --rounds {} --seconds {}",
            self.rounds, self.seconds
        );
        if self.python.is_some() && !self.alone {
            command += " --python python3";
        }
        for (flag, cores) in [("server", &cores.server), ("generator", &cores.generator)] {
            let cores = cores.as_deref().unwrap_or("all");
            let _ = write!(command, " --{flag}-cores {cores}");
        }
        if self.alone {
            command += " --alone";
        }
        command
    }
}

/// How long and how often.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    time: Duration,
}

/// Measures and reports. A missed target is no failure of the task: the document says so.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let cores = Cores::new(args);
    let plan = Plan { rounds: args.rounds.get(), time: Duration::from_secs_f64(args.seconds) };
    let program = programs::embed(args.bin.as_deref())?;
    let mut report = Report::new(args.command(&cores), cores.describe());
    let others = if args.alone || args.only.is_some() { None } else { Some(contenders::build()?) };
    if let Some(cores) = &cores.generator {
        move_to_cores(cores)?;
    }
    let embed = Contender::embed(&program, &args.model, cores.server.as_deref())?;
    let is_wanted = |part| args.only.is_none_or(|only| only == part);
    if is_wanted(Part::Idle) {
        targets::idle(&embed, &mut report)?;
    }
    if is_wanted(Part::Latency) {
        targets::latency(&embed, plan, &mut report)?;
    }
    if is_wanted(Part::Throughput) {
        targets::throughput(&embed, plan, &mut report)?;
    }
    if is_wanted(Part::Flood) {
        targets::flood(&embed, plan, &mut report)?;
    }
    let mut contenders = vec![embed];
    if args.only.is_some() {
        println!("{}", report.document(&contenders));
        return Ok(true);
    }
    if let Some(others) = &others {
        let cores = cores.server.as_deref();
        contenders.push(Contender::axum(others, &args.model, cores)?);
        if let Some(python) = &args.python {
            contenders.push(Contender::fastapi(python, &args.model, cores)?);
        }
        compare::answers(&contenders)?;
    }
    compare::closed_loop(&contenders, plan, &mut report)?;
    compare::open_loop(&contenders, plan, &mut report)?;
    let document = report.document(&contenders);
    println!("{document}");
    let out = workspace_folder().join(&args.out);
    fs::write(&out, document).with_context(|| format!("writing {}", out.display()))?;
    Ok(true)
}
