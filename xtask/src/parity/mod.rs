//! `cargo xtask parity`: three forwards and Python agree, or this exits with 1.
//!
//! Compared with the batched forward are the sequential reference (bit for bit), the padded Candle
//! forward (within rounding), stored vectors and ids of Python model2vec (`--goldens`), and vectors
//! made by Python model2vec on the spot (`--python`).
//!
//! With `--device` the rows of a GPU are compared with those of the processor and with the stored ones,
//! within rounding. The program must be built with the device: `cargo run -p xtask --features metal --
//! parity --device metal`.
//!
//! With `--fuzz` it compares token ids alone, with those of the `tokenizers` crate, on many more texts.

mod corpus;
mod devices;
mod forwards;
mod fuzz;
mod goldens;
mod python;
mod report;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use embed_model2vec::StaticModel;
use embed_model2vec::device::Device;

use report::Report;

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of a model; the embedded default model if absent. Several are compared one after the other
    #[arg(long, value_name = "DIR")]
    model: Vec<PathBuf>,
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
    /// Where rows are pooled: cpu, auto, metal, cuda or cuda:N. A GPU is compared with the processor
    #[arg(long, value_name = "NAME", default_value_t = Device::Cpu)]
    device: Device,
    /// Which forward is compared on that device: the product, or the padded one on Candle's backend
    #[arg(long, value_enum, default_value_t)]
    forward: Forward,
    /// In place of everything else, compare the token ids of N texts with those of the tokenizers crate;
    /// every kind of edge must occur in 1 % of the texts
    #[arg(long, value_name = "N", conflicts_with_all = ["goldens", "python", "texts", "device", "forward"])]
    fuzz: Option<NonZeroUsize>,
}

/// A forward that runs on any device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Forward {
    /// The ragged forward that models use
    #[default]
    Batched,
    /// The padded forward on Candle tensors, against the batched one on the processor
    Padded,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    ensure!(
        args.model.len() < 2 || args.goldens.is_none(),
        "goldens are those of one model: give --model once"
    );
    if args.model.is_empty() {
        return run_model(None, args);
    }
    let mut passed = true;
    for folder in &args.model {
        passed &= run_model(Some(folder), args)?;
    }
    Ok(passed)
}

fn load(folder: Option<&Path>) -> Result<StaticModel> {
    Ok(match folder {
        Some(folder) => StaticModel::open(folder)?,
        None => StaticModel::default_embedded(),
    })
}

fn run_model(folder: Option<&Path>, args: &Args) -> Result<bool> {
    let mut model = load(folder)?;
    if let Some(count) = args.fuzz {
        return fuzz::run(&model, folder, count, args.seed);
    }
    let generated = corpus::generate(args.texts, args.seed);
    if args.forward == Forward::Padded {
        let mut report = Report::new(&model);
        let device = devices::candle(args.device)?;
        forwards::compare_padded(&model, &device, &generated, &mut report)
            .with_context(|| format!("comparing the padded forward on {}", args.device))?;
        return Ok(report.print());
    }
    let mut report;
    if args.device == Device::Cpu {
        report = Report::new(&model);
        forwards::compare(&model, &generated, &mut report).context("comparing the forwards")?;
    } else {
        let moved = devices::moved(load(folder)?, args.device)?;
        report = Report::new(&moved);
        devices::compare(&model, &moved, args.device, &generated, &mut report)
            .context("comparing the devices")?;
        model = moved;
    }
    if let Some(folder) = &args.goldens {
        goldens::compare_folder(&model, folder, "goldens", &mut report)
            .with_context(|| format!("comparing with the goldens in {}", folder.display()))?;
    }
    if args.python {
        let folder = python::make_goldens(folder, &generated)
            .context("making vectors with Python model2vec")?;
        goldens::compare_folder(&model, &folder, "python", &mut report)?;
    }
    Ok(report.print())
}
