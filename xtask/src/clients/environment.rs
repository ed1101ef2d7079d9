//! What clients need to run, under `target/clients`: packages of Python and of Node, and a vocabulary.
//!
//! Packages are installed by pip and npm as people install them, in the versions that are pinned, and once:
//! until the pins change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{output, scripts_folder};
use crate::ci::{target_folder, workspace_folder};

fn folder() -> PathBuf {
    target_folder().join("clients")
}

/// The interpreter of a virtual environment, made with `python`, that has `requirements.txt`.
pub(crate) fn python(python: &Path) -> Result<PathBuf> {
    let folder = folder().join("python");
    let inside = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let pins = scripts_folder().join("requirements.txt");
    install(&folder, &[&pins], || {
        run(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(Command::new(&inside).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&pins))
    })?;
    Ok(inside)
}

/// A folder with the `node_modules` of `package-lock.json`.
pub(super) fn node() -> Result<PathBuf> {
    let folder = folder().join("node");
    let pins = ["package.json", "package-lock.json"].map(|name| scripts_folder().join(name));
    install(&folder, &[&pins[0], &pins[1]], || {
        fs::create_dir_all(&folder)?;
        for pin in &pins {
            fs::copy(pin, folder.join(pin.file_name().context("a name")?))?;
        }
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder))
    })?;
    Ok(folder)
}

/// The folder in which Python's tiktoken finds `cl100k_base` as if it had fetched it.
///
/// It fetches its vocabularies from the network, and keeps each under the SHA-1 of its address. The crate
/// that the server decodes token ids with carries the same file, whose contents tiktoken compares with a
/// hash.
pub(super) fn vocabulary() -> Result<PathBuf> {
    // Of https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken
    const NAME: &str = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4";
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(workspace_folder());
    let metadata: Value = serde_json::from_str(&output(&mut cargo)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == "tiktoken-rs");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.context("the server no longer uses tiktoken-rs")?);
    let folder = folder().join("tiktoken");
    fs::create_dir_all(&folder)?;
    let file = manifest.with_file_name("assets").join("cl100k_base.tiktoken");
    fs::copy(&file, folder.join(NAME)).with_context(|| format!("copying {}", file.display()))?;
    Ok(folder)
}

/// Calls `install` unless `folder` was made from the same `pins`.
fn install(folder: &Path, pins: &[&PathBuf], install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted: String = pins.iter().map(fs::read_to_string).collect::<Result<_, _>>()?;
    // Written last: a folder without it is incomplete and made anew.
    let complete = folder.join("pins");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing packages into {}", folder.display());
    install()?;
    fs::write(complete, wanted)?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
