//! `cargo xtask bench-device`: a GPU beside the definition, beside PyTorch, and beside the processor.
//!
//! First it is proven on random bags that the device computes the right thing; a figure for wrong rows
//! is worth nothing, so that a deviation ends the task. Then kernels are timed by the device itself, with
//! their inputs already there; then memory and whole batches, texts to rows, are measured with the
//! embedded model. Everything goes into one document.
//!
//! The binary needs neither the repository nor a compiler: it can be copied to the machine with the GPU.

mod inputs;
mod kernels;
mod memory;
#[cfg(feature = "candle-cuda")]
mod padded;
mod throughput;
mod torch;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use embed_model2vec::device::cuda::measure::Gpu;
use embed_model2vec::device::{Device, check};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The device: cuda:0, cuda:1, ...
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0")]
    device: Device,
    /// A Python that has PyTorch, to be measured on the same shapes
    #[arg(long, value_name = "PYTHON")]
    torch: Option<PathBuf>,
    /// Where the document goes
    #[arg(long, value_name = "FILE", default_value = "docs/bench-cuda.md")]
    out: PathBuf,
    /// The commit that was built, where git cannot tell
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Random bags that are compared with the definition
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    bags: usize,
    /// Seed of these bags
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Launches of each kernel
    #[arg(long, value_name = "N", default_value_t = 30)]
    times: usize,
    /// Texts for whole batches, one a line; lines of random words if absent
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Only these parts
    #[arg(long, value_enum, num_args = 1.., value_name = "PART")]
    only: Vec<Part>,
    /// A macro of the kernels' source, as `VECTORS_AHEAD=4`: measures a variant, which needs NVRTC here. Only
    /// for the part "kernels"
    #[arg(long, value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Measure every kernel that can serve a table, not only the one that is chosen
    #[arg(long)]
    every_shape: bool,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Random bags against the definition
    Check,
    /// Kernels alone
    Kernels,
    /// The padded formulation on Candle
    #[cfg(feature = "candle-cuda")]
    Padded,
    /// Device memory with one very long text
    Memory,
    /// Texts to rows
    Throughput,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let Device::Cuda(number) = args.device else { bail!("{} is no CUDA device", args.device) };
    ensure!(args.times > 0, "a median needs at least one launch");
    let gpu = Gpu::open(number)?;
    let mut document = head(args, &gpu)?;
    let mut passed = true;
    if args.wants(Part::Check) {
        let report = check::run(args.device, args.bags, args.seed)?;
        eprintln!("{report}");
        let verdict = if report.passed() { "all within it" } else { "**exceeded**" };
        let _ = write!(document, "\n## Against the definition\n\n{report}Verdict: {verdict}.\n");
        passed = report.passed();
    }
    // A figure for wrong rows is worth nothing.
    if passed && args.wants(Part::Kernels) {
        let theirs = args.torch.as_deref().map(|python| torch::measure(python, args.times));
        document += &kernels::measure(&gpu, args, theirs.transpose()?.as_ref())?;
    }
    #[cfg(feature = "candle-cuda")]
    if passed && args.wants(Part::Padded) {
        document += &padded::measure(&gpu, args)?;
    }
    if passed && args.wants(Part::Memory) {
        let (section, within) = memory::measure(&gpu, args.device)?;
        document += &section;
        passed &= within;
    }
    if passed && args.wants(Part::Throughput) {
        document += &throughput::measure(args.device, args.corpus.as_deref())?;
    }
    println!("{document}");
    if let Some(folder) = args.out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&args.out, document).with_context(|| format!("writing {}", args.out.display()))?;
    Ok(passed)
}

/// What was measured, and on what.
fn head(args: &Args, gpu: &Gpu) -> Result<String> {
    let commit = match &args.commit {
        Some(commit) => commit.clone(),
        None => commit().unwrap_or_else(|| "an unknown commit".to_owned()),
    };
    Ok(format!(
        "# A CUDA device beside others\n\n\
         Written by `cargo run --release -p xtask --features cuda -- bench-device`. Measured on {}, driver for CUDA {}, \
         beside {}; embed {} at {commit}. Times of kernels are medians of {} launches by the device's own clock, after \
         three that do not count.\n",
        gpu.name(),
        gpu.driver()?,
        crate::bench::machine::describe(),
        env!("CARGO_PKG_VERSION"),
        args.times,
    ))
}

fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| commit.trim().to_owned())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn now() -> Instant {
    Instant::now()
}
