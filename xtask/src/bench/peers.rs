//! The processes that measure.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::ci::{target_folder, workspace_folder};

use super::inputs::{Corpus, Model};

/// Passes of a process after its first one, and the seconds after which it begins no other.
const PASSES: &str = "5";
const SECONDS: &str = "4";

/// The program of `benches/peers`, built for speed.
pub(super) struct Peers {
    program: PathBuf,
}

/// One process: who does what with which model and which texts.
#[derive(Clone)]
pub(super) struct Call<'a> {
    pub(super) contender: &'static str,
    pub(super) task: &'static str,
    /// `None` is the built-in model.
    pub(super) model: Option<&'a Model>,
    pub(super) corpus: Option<&'a Corpus>,
    /// That the contender may use.
    pub(super) threads: usize,
}

impl Peers {
    pub(super) fn build() -> Result<Self> {
        let target = target_folder().join("peers");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "--quiet", "--features", "onig"])
            .args(["--manifest-path", "benches/peers/Cargo.toml", "--target-dir"])
            .arg(&target)
            .current_dir(workspace_folder())
            .status()
            .context("starting cargo")?;
        ensure!(status.success(), "benches/peers does not build: {status}");
        let program = target.join("release/peers");
        Ok(Self { program: program.with_extension(std::env::consts::EXE_EXTENSION) })
    }

    /// The process of a call, under `wrapper` if there is one.
    pub(super) fn command(&self, wrapper: &[&str], call: &Call<'_>) -> Command {
        let mut command = match wrapper {
            [] => Command::new(&self.program),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.program);
                command
            }
        };
        command.args([call.contender, call.task]);
        if let Some(model) = call.model {
            command.arg("--model").arg(&model.folder);
        }
        if let Some(corpus) = call.corpus {
            command.arg("--corpus").arg(&corpus.path);
        }
        command.args(["--threads", &call.threads.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn measuring(&self, call: &Call<'_>) -> Command {
        let mut command = self.command(&[], call);
        command.args(["--rounds", PASSES, "--seconds", SECONDS]);
        command
    }

    /// The result of one process.
    fn run(&self, call: &Call<'_>) -> Result<Value> {
        let mut process = Process::start(&mut self.measuring(call), call)?;
        process.result()
    }

    /// Results by call, then by turn: in each turn every call runs once, in the order given.
    pub(super) fn turns(&self, calls: &[Call<'_>], rounds: usize) -> Result<Vec<Vec<Value>>> {
        let mut results = vec![Vec::with_capacity(rounds); calls.len()];
        for round in 1..=rounds {
            for (call, results) in calls.iter().zip(&mut results) {
                eprintln!("{round}/{rounds}: {}", call.name());
                results.push(self.run(call)?);
            }
        }
        Ok(results)
    }

    /// The results of `number` processes of one call that measure at the same time.
    pub(super) fn at_once(&self, call: &Call<'_>, number: usize) -> Result<Vec<Value>> {
        let mut command = self.measuring(call);
        command.arg("--wait");
        let mut processes = (0..number)
            .map(|_| Process::start(&mut command, call))
            .collect::<Result<Vec<Process>>>()?;
        for process in &mut processes {
            process.wait_until_ready()?;
        }
        for process in &mut processes {
            process.release()?;
        }
        processes.iter_mut().map(Process::result).collect()
    }
}

impl Call<'_> {
    /// The call in a few words.
    pub(super) fn name(&self) -> String {
        let model = self.model.map_or("the built-in model", |model| model.name.as_str());
        let corpus = self.corpus.map_or("", |corpus| corpus.name.as_str());
        let name = format!("{} {} {model} {corpus}", self.contender, self.task);
        match self.threads {
            1 => name.trim_end().to_owned(),
            threads => format!("{}, {threads} threads", name.trim_end()),
        }
    }
}

/// A running measurement. It is ended when it is dropped early.
struct Process {
    name: String,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(command: &mut Command, call: &Call<'_>) -> Result<Self> {
        let name = call.name();
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
        Ok(Self { name, child, output })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line == "ready\n", "{}: not ready, but {line:?}", self.name);
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("standard input is piped")?;
        Ok(input.write_all(b"go\n")?)
    }

    fn result(&mut self) -> Result<Value> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{}: {status}", self.name);
        }
        serde_json::from_str(&text).with_context(|| format!("{}: {text:?}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `wait` this finds nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
