//! `cargo xtask parity`: three forwards and Python agree, or this exits with 1.
//!
//! Compared with the batched forward are the sequential reference (bit for bit), the padded Candle
//! forward (within rounding), stored vectors and ids of Python model2vec (`--goldens`), and vectors
//! made by Python model2vec on the spot (`--python`).

mod corpus;
mod forwards;
mod goldens;
mod python;
mod report;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use embed_model2vec::StaticModel;

use report::Report;

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of a model; the embedded default model if absent
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Folder with `vectors.safetensors` and `tokens.jsonl` of this model, and `texts.jsonl` above it;
    /// the same with `_limits` is used if it is there
    #[arg(long, value_name = "DIR")]
    goldens: Option<PathBuf>,
    /// Compare with Python model2vec, installed into a virtual environment under `target/`
    #[arg(long)]
    python: bool,
    /// Number of generated texts
    #[arg(long, value_name = "N", default_value_t = 2000)]
    texts: usize,
    /// Seed of the generated texts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let model = match &args.model {
        Some(folder) => StaticModel::open(folder)?,
        None => StaticModel::default_embedded(),
    };
    let mut report = Report::new(&model);

    let generated = corpus::generate(args.texts, args.seed);
    forwards::compare(&model, &generated, &mut report).context("comparing the forwards")?;
    if let Some(folder) = &args.goldens {
        goldens::compare_folder(&model, folder, "goldens", &mut report)
            .with_context(|| format!("comparing with the goldens in {}", folder.display()))?;
    }
    if args.python {
        let folder = python::make_goldens(args.model.as_deref(), &generated)
            .context("making vectors with Python model2vec")?;
        goldens::compare_folder(&model, &folder, "python", &mut report)?;
    }
    Ok(report.print())
}
