//! Batched against sequential and against padded, on generated texts.

use anyhow::Result;
use candle_core::Device;
use embed_core::{
    Embedder as _, Embeddings, EncodeOptions, MaxLength, Normalize, Precut, Tokens as _,
};
use embed_model2vec::padded::PaddedForward;
use embed_model2vec::{Sequential, StaticModel};

use super::report::{Line, Report, Rule};

pub(super) fn compare(
    model: &StaticModel,
    generated: &[String],
    report: &mut Report,
) -> Result<()> {
    let texts: Vec<&str> = generated.iter().map(String::as_str).collect();
    let sequential = Sequential::new(model)?;
    for (name, options) in variants() {
        let batched = model.embed_with(&texts, &options)?;
        let mut ids = Vec::new();
        let mut exact = Line::new(format!("sequential, {name}"), Rule::Bits);
        for (text, row) in texts.iter().zip(batched.rows()) {
            ids.clear();
            model.token_ids(text, &options, &mut ids)?;
            exact.ids(text, &ids, &sequential.token_ids(text, &options)?);
            exact.row(text, row, &sequential.embed(text, &options)?, 0.0);
        }
        report.add(exact);
    }
    compare_padded(model, &Device::Cpu, generated, report)
}

/// The padded forward on one of Candle's devices against the batched one on the processor.
pub(super) fn compare_padded(
    model: &StaticModel,
    device: &Device,
    texts: &[String],
    report: &mut Report,
) -> Result<()> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let padded = PaddedForward::new(model, device)?;
    for (name, options) in variants() {
        let batched = model.embed_with(&texts, &options)?;
        let rows = padded.embed(&texts, &options)?;
        let name = format!("padded candle, {name}");
        report.add(rounded(name, model, &options, &texts, &batched, &rows)?);
    }
    Ok(())
}

/// A line about rows that must be the same to rounding: normalized ones within a fixed bound, others
/// within what another order of additions may change.
pub(super) fn rounded(
    name: String,
    model: &StaticModel,
    options: &EncodeOptions,
    texts: &[&str],
    found: &Embeddings,
    expected: &Embeddings,
) -> Result<Line> {
    let rule = if model.normalizes(options) { Rule::Normalized } else { Rule::SumOrder };
    let mut line = Line::new(name, rule);
    for ((text, row), other) in texts.iter().zip(found.rows()).zip(expected.rows()) {
        let bound = match rule {
            Rule::SumOrder => sum_order_bound(model, text, options)?,
            _ => 0.0,
        };
        line.row(text, row, other, bound);
    }
    Ok(line)
}

/// Options that a model is compared under, with their names.
pub(super) fn variants() -> [(&'static str, EncodeOptions); 6] {
    let model2vec = |length, normalize| {
        EncodeOptions::model2vec().with_max_length(length).with_normalize(normalize)
    };
    [
        ("default", EncodeOptions::default()),
        ("raw", model2vec(MaxLength::Model, Normalize::No)),
        ("raw, no limit", model2vec(MaxLength::Unlimited, Normalize::No)),
        ("normalized, no limit", model2vec(MaxLength::Unlimited, Normalize::Yes)),
        ("osaurus", EncodeOptions::osaurus()),
        ("sentence-transformers", EncodeOptions::sentence_transformers()),
    ]
}

/// `2 n eps mean|x|`: what adding `n` values of that size in another order may change in the mean,
/// with `x` the largest token row values that occur in the text.
pub(super) fn sum_order_bound(
    model: &StaticModel,
    text: &str,
    options: &EncodeOptions,
) -> Result<f64> {
    let mut ids = Vec::new();
    model.token_ids(text, options, &mut ids)?;
    let single = EncodeOptions::default()
        .with_max_length(MaxLength::Unlimited)
        .with_unknown(options.unknown)
        .with_normalize(Normalize::No);
    debug_assert_eq!(single.precut, Precut::MedianLength);
    let inputs: Vec<_> = ids.chunks(1).map(embed_core::Input::Ids).collect();
    let mut rows = vec![0.0; ids.len() * model.dim()];
    let mut info = vec![embed_core::RowInfo::default(); ids.len()];
    model.embed_into(&inputs, &single, &mut rows, &mut info)?;
    // The column with the largest mean of absolute values bounds every column.
    let mut sums = vec![0f64; model.dim()];
    for row in rows.chunks_exact(model.dim()) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f64::from(value.abs());
        }
    }
    let n = ids.len().max(1) as f64;
    let mean = sums.into_iter().fold(0.0, f64::max) / n;
    Ok(2.0 * n * f64::from(f32::EPSILON) * mean)
}
