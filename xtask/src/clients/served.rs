//! A server process, from its start to its end.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A server that listens on a free port of loopback. It ends when this is dropped.
pub(crate) struct Served {
    /// `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    process: Child,
}

impl Served {
    /// Starts `embed serve` with these arguments and variables, and nothing else of its settings.
    pub(crate) fn start(
        bin: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = Command::new(bin);
        command.args(["serve", "--listen", "127.0.0.1:0", "--offline"]).args(arguments);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EMBED_") {
                command.env_remove(name);
            }
        }
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let mut lines = BufReader::new(process.stderr.take().context("its messages")?).lines();
        let mut said = Vec::new();
        for line in &mut lines {
            let line = line?;
            if let Some((_, url)) = line.split_once("listening on ") {
                let url = url.to_owned();
                // Whoever does not read lets the process wait for room in the pipe.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(Self { url, process });
            }
            said.push(line);
        }
        bail!("{command:?} ended: {} ({})", said.join("; "), process.wait()?)
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_none())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A process that has ended needs no end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
