//! Texts to rows: the embedded model on the device, beside the same model on the processor.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use embed_core::{Embedder as _, EncodeOptions, Input, RowInfo};
use embed_model2vec::StaticModel;
use embed_model2vec::device::Device;

use super::{inputs, median, now};

/// Sizes of batches.
const BATCHES: [usize; 6] = [1, 8, 64, 512, 4096, 32_768];

/// Texts of one turn at most, and calls at most.
const TEXTS: usize = 32_768;
const CALLS: usize = 2000;

/// Turns of each side.
const TURNS: usize = 5;

/// Measures every size of batch on both sides, turn about.
pub(super) fn measure(device: Device, corpus: Option<&Path>) -> Result<String> {
    let texts = inputs::texts(TEXTS, corpus)?;
    let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
    let processor = StaticModel::default_embedded();
    let gpu = StaticModel::default_embedded().on(device)?;
    let bytes: usize = texts.iter().map(String::len).sum();
    let mut text = format!(
        "\n## Texts to rows\n\n\
         The embedded model, one thread, which tokenizes on the processor in both cases: texts of {:.0} bytes on average, \
         {}. Texts per second, medians of {TURNS} turns; both sides take turns.\n\n\
         | texts a call | {device} | cpu | ratio |\n| --- | --- | --- | --- |\n",
        bytes as f64 / texts.len() as f64,
        if corpus.is_some() {
            "from a file"
        } else {
            "random words of the model's vocabulary by Zipf's law"
        },
    );
    let mut pays_from = None;
    for batch in BATCHES {
        let inputs = &inputs[..TEXTS.min(batch * CALLS)];
        let mut speeds = [Vec::new(), Vec::new()];
        for turn in 0..=TURNS {
            for (model, speeds) in [&gpu, &processor].into_iter().zip(&mut speeds) {
                let speed = speed(model, inputs, batch)?;
                // The first turn grows buffers.
                if turn > 0 {
                    speeds.push(speed);
                }
            }
        }
        let [ours, processors] = speeds.map(median);
        let ratio = ours / processors;
        let line = format!("| {batch} | {ours:.0} | {processors:.0} | {ratio:.2}x |\n");
        eprint!("{line}");
        text += &line;
        pays_from = if ratio > 1.0 { pays_from.or(Some(batch)) } else { None };
    }
    let _ = match pays_from {
        Some(batch) => {
            writeln!(text, "\nOf these sizes, the device pays from {batch} texts a call on.")
        }
        None => writeln!(
            text,
            "\nThe device does not pay at the largest of these sizes: tokenizing takes most of the time on both sides."
        ),
    };
    Ok(text)
}

/// Texts per second, in calls of `batch` texts.
fn speed(model: &StaticModel, inputs: &[Input<'_>], batch: usize) -> Result<f64> {
    let options = EncodeOptions::default();
    let mut rows = vec![0.0; batch * model.dim()];
    let mut info = vec![RowInfo::default(); batch];
    let start = now();
    for inputs in inputs.chunks(batch) {
        let rows = &mut rows[..inputs.len() * model.dim()];
        model.embed_into(inputs, &options, rows, &mut info[..inputs.len()])?;
    }
    Ok(inputs.len() as f64 / start.elapsed().as_secs_f64())
}
