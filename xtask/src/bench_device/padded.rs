//! The padded formulation on Candle's CUDA backend: gather `[bags, tokens, dim]`, then take the mean.
//!
//! Beside it the fused op on the same tensors, whose rows must be the same to rounding: so that Candle's
//! launch of our kernels is tried too.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};
use candle_core::{DType, Tensor};
use embed_model2vec::device::Device;
use embed_model2vec::device::candle::{PoolRowsOptions, pool_rows};
use embed_model2vec::device::cuda::measure::{Gpu, TableSpec};

use super::kernels::{BAGS, TABLES, TOKENS};
use super::{Args, median, now};
use crate::random::Random;

/// How far a mean of the two may differ: their sums are formed in different orders.
const TOLERANCE: f32 = 1e-6;

/// The same for F16 tables, whose rows Candle adds up in F16.
const HALF_TOLERANCE: f32 = 1e-2;

/// The fused kernel should be so many times as fast.
const TARGET: f64 = 5.0;

/// Measures both on every table.
pub(super) fn measure(gpu: &Gpu, args: &Args) -> Result<String> {
    let Device::Cuda(number) = args.device else { bail!("{} is no CUDA device", args.device) };
    let device = candle_core::Device::new_cuda(number)?;
    let mut text = format!(
        "\n## Beside the padded forward on Candle\n\n\
         The same {BAGS} bags of {TOKENS} random ids. Padded: `index_select` to `[bags, tokens, dim]` and a mean on Candle's \
         CUDA backend, by the clock of the host until the device is done. The fused kernel as in the table above; the op \
         `pool_rows` is the same kernel launched by Candle, which includes reading ids and offsets back to check them. \
         Medians of {} runs.\n\n\
         | table | padded ms | kernel ms | ratio | target | | `pool_rows` ms | largest difference |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        args.times
    );
    let mut random = Random::new(5);
    for (rows, dim) in TABLES {
        let ids = (0..BAGS * TOKENS).map(|_| u32::try_from(random.below(rows)));
        let ids = Tensor::from_vec(ids.collect::<Result<Vec<_>, _>>()?, BAGS * TOKENS, &device)?;
        let offsets = (0..=BAGS).map(|bag| u32::try_from(bag * TOKENS));
        let offsets = Tensor::from_vec(offsets.collect::<Result<Vec<_>, _>>()?, BAGS + 1, &device)?;
        for dtype in [DType::F32, DType::F16] {
            let table = Tensor::rand(-0.5f32, 0.5, (rows, dim), &device)?.to_dtype(dtype)?;
            let padded = || {
                let gathered = table.index_select(&ids, 0)?.reshape((BAGS, TOKENS, dim))?;
                gathered.sum(1)?.affine(1.0 / TOKENS as f64, 0.0)
            };
            let fused = || pool_rows(&table, &ids, &offsets, &PoolRowsOptions::default());
            let difference = (padded()?.to_dtype(DType::F32)? - fused()?)?;
            let largest = difference.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
            let allowed = if dtype == DType::F16 { HALF_TOLERANCE } else { TOLERANCE };
            ensure!(largest <= allowed, "{rows} x {dim} {dtype:?}: {largest} apart");

            let padded_ms = median(timed(&device, args.times, padded)?) * 1e3;
            let fused_ms = median(timed(&device, args.times, fused)?) * 1e3;
            let kind = dtype.as_str();
            let resident = gpu.table(TableSpec { kind, rows, dim, factors: false }, &[])?;
            let bags = resident.bags(BAGS, TOKENS)?;
            let kernels = resident.shapes();
            let kernel_ms = median(resident.launches(&bags, &kernels[0], false, args.times)?) * 1e3;
            let ratio = padded_ms / kernel_ms;
            let verdict = if ratio >= TARGET { "met" } else { "**missed**" };
            let start = text.len();
            let _ = writeln!(
                text,
                "| {rows} x {dim} {kind} | {padded_ms:.3} | {kernel_ms:.3} | {ratio:.1}x | ≥ {TARGET}x | {verdict} | \
                 {fused_ms:.3} | {largest:.1e} |"
            );
            eprint!("{}", &text[start..]);
        }
    }
    Ok(text)
}

/// Seconds of each of some runs, after three that do not count.
fn timed(
    device: &candle_core::Device,
    times: usize,
    work: impl Fn() -> candle_core::Result<Tensor>,
) -> Result<Vec<f64>> {
    let mut seconds = Vec::with_capacity(times);
    for run in 0..times + 3 {
        device.synchronize()?;
        let started = now();
        let rows = work()?;
        device.synchronize()?;
        if run >= 3 {
            seconds.push(started.elapsed().as_secs_f64());
        }
        drop(rows);
    }
    Ok(seconds)
}
