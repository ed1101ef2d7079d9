//! Device memory when one text is very long: a ragged batch costs its tokens, a padded one its longest text.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use embed_core::{Embedder as _, EncodeOptions, MaxLength, Tokens as _};
use embed_model2vec::StaticModel;
use embed_model2vec::device::Device;
use embed_model2vec::device::cuda::measure::Gpu;

use super::inputs;

/// Texts of the batch.
const TEXTS: usize = 2048;

/// Characters of the long one.
const LONG: usize = 500_000;

/// What the batch may take beside the table.
const LIMIT: usize = 64_000_000;

/// Measures one batch; tells too whether it kept to the limit.
pub(super) fn measure(gpu: &Gpu, device: Device) -> Result<(String, bool)> {
    let mut texts = inputs::lines(TEXTS, 3)?;
    let words = inputs::lines(LONG / 20, 4)?.join(" ");
    words.get(..LONG).context("enough words were made")?.clone_into(&mut texts[TEXTS / 2]);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let options = EncodeOptions::default().with_max_length(MaxLength::Unlimited);

    let before = gpu.free_bytes()?;
    let model = StaticModel::default_embedded().on(device)?;
    let with_table = gpu.free_bytes()?;
    let done = AtomicBool::new(false);
    let least = thread::scope(|scope| {
        // The driver is asked again and again: what a batch gives back at its end counts too.
        let watch = scope.spawn(|| {
            let mut least = gpu.free_bytes()?;
            while !done.load(Ordering::Relaxed) {
                least = least.min(gpu.free_bytes()?);
            }
            anyhow::Ok(least.min(gpu.free_bytes()?))
        });
        let embedded = model.embed_with(&texts, &options);
        done.store(true, Ordering::Relaxed);
        let least = watch.join().expect("asking for free memory does not panic");
        embedded?;
        least
    })?;
    let grown = with_table.saturating_sub(least);
    let counts = model.device_counts().context("the model is on a device")?;

    let mut longest = 0;
    let mut tokens = 0;
    for text in &texts {
        let count = model.count_tokens(text, &options)?.tokens;
        longest = longest.max(count);
        tokens += count;
    }
    let padded = TEXTS as u128 * longest as u128 * model.dim() as u128 * 4;
    let verdict = if grown < LIMIT { "met" } else { "**missed**" };
    let text = format!(
        "\n## Memory\n\n\
         {TEXTS} texts, one of them with {LONG} characters, without a limit of tokens, in one call on the embedded model: {tokens} \
         tokens, {longest} of them in the longest text; {} launches, {} read-backs.\n\n\
         | | bytes |\n| --- | --- |\n\
         | table, factors and kernels on the device | {} |\n\
         | growth while the batch is embedded (below {LIMIT}: {verdict}) | {grown} |\n\
         | the padded forward's `[texts, longest, dim]` in f32, computed | {padded} |\n",
        counts.launches,
        counts.read_backs,
        before.saturating_sub(with_table),
    );
    Ok((text, grown < LIMIT))
}
