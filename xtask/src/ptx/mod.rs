//! `cargo xtask ptx`: makes the PTX text that ships with the program from the CUDA source.
//!
//! The compiler is NVRTC, a library of the CUDA toolkit that is also published as a Python package; it
//! is looked for when the task runs. Its version decides how old a driver may be: 12.4 writes text that
//! drivers from 550 on take. The first line of the text holds a hash of the source, so that a text that
//! was forgotten is found without a compiler: by `--check`, and by `cargo xtask tidy`.

#[cfg(feature = "cuda")]
mod make;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::ci::workspace_folder;

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only look whether the text belongs to the source; needs no compiler
    #[arg(long)]
    check: bool,
    /// Folder of libnvrtc, if it is not in the library path
    #[arg(long, value_name = "DIR")]
    nvrtc: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.check {
        let problem = problem()?;
        println!("{}", problem.as_deref().unwrap_or("the PTX text belongs to its source"));
        return Ok(problem.is_none());
    }
    make(args)
}

#[cfg(feature = "cuda")]
fn make(args: &Args) -> Result<bool> {
    make::run(args.nvrtc.as_deref())
}

#[cfg(not(feature = "cuda"))]
fn make(_: &Args) -> Result<bool> {
    anyhow::bail!("built without CUDA: cargo run -p xtask --features cuda -- ptx")
}

fn path(name: &str) -> PathBuf {
    workspace_folder().join("crates/embed-model2vec/gpu").join(name)
}

/// The first line of the text that belongs to a source.
fn first_line(source: &str) -> String {
    let hash = blake3::hash(source.as_bytes());
    format!("// Made by `cargo xtask ptx` from pool_rows.cu with BLAKE3 {hash}.")
}

/// What is wrong with the text, if anything.
pub(crate) fn problem() -> Result<Option<String>> {
    let read = |name| {
        let path = path(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let (source, text) = (read("pool_rows.cu")?, read("pool_rows.ptx")?);
    let belongs = text.lines().next() == Some(&first_line(&source));
    Ok((!belongs).then(|| {
        "pool_rows.ptx was not made from this pool_rows.cu: run `cargo xtask ptx`".to_owned()
    }))
}
