//! The programs that listen: ours as it ships, and the one of the server crate that goes wrong on purpose.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;

use crate::ci::{target_folder, workspace_folder};

use super::bodies;
use super::http::once;

/// The program `embed`: the one that is given, or the release build.
pub(crate) fn embed(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => build(&["--package", "embed-cli"], "release/embed"),
    }
}

/// The server over a scripted model, which takes its time and panics when it is told to.
pub(crate) fn faulty(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => {
            build(&["--package", "embed-server", "--example", "faulty"], "release/examples/faulty")
        }
    }
}

fn build(what: &[&str], product: &str) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet"])
        .args(what)
        .current_dir(workspace_folder())
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "{product} does not build: {status}");
    Ok(target_folder().join(product).with_extension(std::env::consts::EXE_EXTENSION))
}

/// The name of the model that a server lists first.
pub(crate) fn first_model(address: SocketAddr) -> Result<String> {
    let (status, body) =
        once(address, &bodies::get(address, "/v1/models"), Duration::from_secs(10))
            .map_err(|failure| anyhow!("asking for the models: {failure}"))?;
    ensure!(status == 200, "asking for the models: status {status}");
    let models: Value = serde_json::from_slice(&body)?;
    let model = models["data"][0]["id"].as_str();
    Ok(model.with_context(|| format!("the server lists no model: {models}"))?.to_owned())
}
