//! Compiling the source, in a process that finds the compiler.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use embed_model2vec::device::cuda::{SOURCE, compile};

use super::{first_line, path};

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Writes the text. With a folder it does so in another process, for the system reads its library path
/// when a process starts.
pub(super) fn run(nvrtc: Option<&Path>) -> Result<bool> {
    if let Some(folder) = nvrtc {
        let mut folders = OsString::from(folder);
        if let Some(others) = env::var_os(LIBRARY_PATH) {
            folders.push(":");
            folders.push(others);
        }
        let mut again = Command::new(env::current_exe()?);
        let status = again.arg("ptx").env(LIBRARY_PATH, folders).status()?;
        return Ok(status.success());
    }
    let text = compile(&[]).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        anyhow::anyhow!("{error}{}", cause.unwrap_or_default())
    })?;
    let path = path("pool_rows.ptx");
    let text = format!("{}\n{}\n", first_line(SOURCE), text.trim());
    fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    let version = text.lines().find(|line| line.starts_with(".version")).unwrap_or_default();
    println!("{}: {} lines, {version}", path.display(), text.lines().count());
    Ok(true)
}
