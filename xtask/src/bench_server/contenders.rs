//! The servers that are compared: ours, one of axum and model2vec-rs, one of FastAPI and Python model2vec.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::bench::machine::{compiler, locked};
use crate::ci::{target_folder, workspace_folder};
use crate::serve::bodies::{self, EMBEDDINGS, Format, short_texts};
use crate::serve::http::once;
use crate::serve::process::{Server, on_cores};
use crate::serve::programs::first_model;

/// Requests of a kind, each with other texts.
const REQUESTS: usize = 64;

/// A server that runs.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) versions: String,
    /// The name of the model in requests: the same for all, so that requests are.
    model: String,
}

/// Builds `benches/servers`.
pub(super) fn build() -> Result<PathBuf> {
    let target = target_folder().join("servers");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet", "--features", "onig"])
        .args(["--manifest-path", "benches/servers/Cargo.toml", "--target-dir"])
        .arg(&target)
        .current_dir(workspace_folder())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "benches/servers does not build: {status}");
    Ok(target.join("release/servers").with_extension(std::env::consts::EXE_EXTENSION))
}

impl Contender {
    pub(super) fn embed(program: &Path, model: &Path, cores: Option<&str>) -> Result<Self> {
        let mut command = on_cores(cores, program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--model"]).arg(model);
        let server = Server::start(command)?;
        let model = first_model(server.address)?;
        let versions = format!("{}, embed {}", compiler()?, env!("CARGO_PKG_VERSION"));
        Ok(Self { name: "embed", server, versions, model })
    }

    pub(super) fn axum(program: &Path, model: &Path, cores: Option<&str>) -> Result<Self> {
        let mut command = on_cores(cores, program);
        command.arg(model);
        let server = Server::start(command)?;
        let lock = fs::read_to_string(workspace_folder().join("benches/servers/Cargo.lock"))?;
        let versions = ["axum", "tokio", "model2vec-rs"].map(|name| locked(&lock, name)).join(", ");
        Ok(Self { name: "axum + model2vec-rs", server, versions, model: String::new() })
    }

    pub(super) fn fastapi(python: &Path, model: &Path, cores: Option<&str>) -> Result<Self> {
        let mut command = on_cores(cores, python);
        command.arg(workspace_folder().join("benches/servers/fastapi_server.py")).arg(model);
        let server = Server::start(command)?;
        let lines = server.log_lines();
        let versions = lines.iter().find_map(|line| line.strip_prefix("versions: "));
        let versions = versions.context("the Python server tells no versions")?.to_owned();
        Ok(Self { name: "FastAPI + model2vec", server, versions, model: String::new() })
    }

    /// Requests for rows of so many short texts each.
    pub(super) fn requests(&self, texts: usize, format: Format) -> Vec<Vec<u8>> {
        let address = self.server.address;
        let model = if self.model.is_empty() { "any" } else { &self.model };
        let body = |texts: &[String]| bodies::embeddings(model, texts, format);
        let all = short_texts(REQUESTS * texts, 1);
        all.chunks(texts).map(|texts| bodies::post(address, EMBEDDINGS, &body(texts))).collect()
    }

    /// The request for the trivial route.
    pub(super) fn trivial(&self) -> Vec<Vec<u8>> {
        vec![bodies::get(self.server.address, "/healthz")]
    }

    /// The answer to a request.
    pub(super) fn ask(&self, request: &[u8]) -> Result<Vec<u8>> {
        let answer = once(self.server.address, request, Duration::from_secs(30));
        let (status, body) = answer.map_err(|failure| anyhow!("{}: {failure}", self.name))?;
        ensure!(status == 200, "{}: status {status}", self.name);
        Ok(body)
    }
}
