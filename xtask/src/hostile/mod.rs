//! `cargo xtask hostile`: what no client should send, against the release program.
//!
//! Each case has a set of answers that are right, a time within which they must come, and a bound for the
//! memory that the server may take for it. No case may be answered with a status of 500 or above except
//! 503, and no error may have another body than that of the API. Limits are met below, at and above. The
//! whole list is played with default settings and again without a limit on the tokens of a text; what is
//! about time is played with settings that make the times short.

mod case;
mod crowds;
mod json;
mod sizes;
mod slow;
mod texts;
mod wire;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::serve::http::once;
use crate::serve::metrics::Metrics;
use crate::serve::process::{Server, on_cores};
use crate::serve::{bodies, now, programs};

use case::{CANARY, Case, Stage, faults, summary};

/// How to be hostile.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program `embed` [default: the release build, made when it is missing or old]
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Play each list so many times: memory that grows each time is never given back
    #[arg(long, value_name = "N", default_value = "1")]
    times: NonZeroUsize,
}

/// Bytes by which a case may raise the server's memory.
const MEMORY: u64 = 128_000_000;

/// Whether the tokens of a text are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// To the first 512, which is the default.
    Limited,
    Unlimited,
}

/// A server with its cases.
struct Act {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Files that the server may have open, if not as many as this process.
    files: Option<usize>,
    cases: Vec<Case>,
}

fn acts() -> Vec<Act> {
    let all = |length| {
        let mut cases = texts::cases(length);
        cases.extend(json::cases());
        cases.extend(sizes::cases(length));
        cases.extend(wire::cases());
        cases.extend(crowds::cases());
        cases
    };
    vec![
        Act { name: "default settings", arguments: &[], files: None, cases: all(Length::Limited) },
        Act {
            name: "--max-length none",
            arguments: &["--max-length", "none"],
            files: None,
            cases: all(Length::Unlimited),
        },
        Act { name: "short times", arguments: slow::SETTINGS, files: None, cases: slow::cases() },
        Act {
            name: "64 open files",
            arguments: &[],
            files: Some(64),
            cases: crowds::cases_of_few_files(),
        },
    ]
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let program = programs::embed(args.bin.as_deref())?;
    let mut passed = true;
    let mut played = 0;
    for mut act in acts() {
        if let Some(only) = &args.only {
            act.cases.retain(|case| case.name.contains(only.as_str()));
        }
        if !act.cases.is_empty() {
            played += act.cases.len();
            passed &= act.play(&program, args.times.get())?;
        }
    }
    println!("{played} cases, {}", if passed { "all passed" } else { "NOT all passed" });
    Ok(passed && played > 0)
}

impl Act {
    fn play(&self, program: &Path, times: usize) -> Result<bool> {
        println!("\n## {}\n", self.name);
        println!("| case | expected | seen | seconds | memory, MB | verdict |");
        println!("| --- | --- | --- | --- | --- | --- |");
        let mut server = self.start(program)?;
        let stage = Stage::new(server.address)?;
        // What is allocated once is allocated before.
        stage.serves();
        let at_first = server.resident()?;
        let mut passed = true;
        for case in (0..times).flat_map(|_| &self.cases) {
            let before = server.resident()?;
            server.forget_peak()?;
            let started = now();
            let seen = (case.play)(&stage);
            let took = started.elapsed();
            let mut faults = faults(&case.expects, &seen);
            if let Some(status) = server.ended()? {
                println!(
                    "| {} | | {} | | | **the server ended: {status}** |",
                    case.name,
                    summary(&seen)
                );
                println!("\n{}", server.log_lines().join("\n"));
                return Ok(false);
            }
            let growth = server.peak()?.saturating_sub(before);
            if growth >= MEMORY {
                faults.push(format!("{} MB of memory", growth / 1_000_000));
            }
            if took > case.limit {
                faults.push(format!("longer than {} s", case.limit.as_secs()));
            }
            let alive = bodies::get(server.address, "/healthz");
            match once(server.address, &alive, Duration::from_secs(2)) {
                Ok((200, _)) => {}
                other => faults.push(format!(
                    "afterwards /healthz gives {:?}",
                    other.map(|(status, _)| status)
                )),
            }
            println!(
                "| {} | {} | {} | {:.2} | {:.1} | {} |",
                case.name,
                expected(case),
                summary(&seen),
                took.as_secs_f64(),
                growth as f64 / 1e6,
                if faults.is_empty() {
                    "passed".to_owned()
                } else {
                    format!("**{}**", faults.join("; "))
                },
            );
            passed &= faults.is_empty();
        }
        let at_last = server.resident()?;
        let metrics = Metrics::read(server.address).context("after all cases")?;
        let log = server.log_lines();
        println!(
            "\nResident before the first case {:.1} MB, after the last {:.1} MB. {} lines in the log.",
            at_first as f64 / 1e6,
            at_last as f64 / 1e6,
            log.len(),
        );
        if at_last.saturating_sub(at_first) >= MEMORY {
            println!("**The server keeps more memory than a case may take.**");
            passed = false;
        }
        if metrics.text().contains(CANARY) || log.iter().any(|line| line.contains(CANARY)) {
            println!("**A text stands in the metrics or in the log.**");
            passed = false;
        }
        for line in log.iter().filter(|line| line.contains("panicked")) {
            println!("**In the log: {line}**");
            passed = false;
        }
        Ok(passed)
    }

    fn start(&self, program: &Path) -> Result<Server> {
        let mut command = match self.files {
            None => on_cores(None, program),
            Some(files) => {
                let mut command = on_cores(None, Path::new("prlimit"));
                command.arg(format!("--nofile={files}:{files}")).arg(program);
                command
            }
        };
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(self.arguments);
        Server::start(command)
    }
}

/// What a case expects, in few words.
fn expected(case: &Case) -> String {
    let statuses = case.expects.statuses.iter().map(u16::to_string);
    let failures = case.expects.failures.iter().map(ToString::to_string);
    statuses.chain(failures).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cases_of_an_act_have_names_of_their_own() {
        for act in acts() {
            let names: BTreeSet<&str> = act.cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), act.cases.len(), "{}", act.name);
            assert!(!names.is_empty(), "{}", act.name);
        }
    }
}
