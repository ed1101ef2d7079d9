//! Batched against sequential and against padded, on generated texts.

use anyhow::Result;
use candle_core::Device;
use embed_core::{
    Embedder as _, Embeddings, EncodeOptions, MaxLength, Normalize, Precut, Tokens as _,
};
use embed_model2vec::padded::PaddedForward;
use embed_model2vec::{Sequential, StaticModel};

use super::report::{Line, NORMALIZED_TOLERANCE, Report, Rule};

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
        let rule = Rule::NormalizedSumOrder;
        report.add(rounded(name, rule, model, &options, &texts, &batched, &rows)?);
    }
    Ok(())
}

/// A line about rows that must be the same to rounding: normalized ones by the rule `normalized`, others
/// within what another order of additions may change.
pub(super) fn rounded(
    name: String,
    normalized: Rule,
    model: &StaticModel,
    options: &EncodeOptions,
    texts: &[&str],
    found: &Embeddings,
    expected: &Embeddings,
) -> Result<Line> {
    let rule = if model.normalizes(options) { normalized } else { Rule::SumOrder };
    let mut line = Line::new(name, rule);
    for ((text, row), other) in texts.iter().zip(found.rows()).zip(expected.rows()) {
        let bound = match rule {
            Rule::SumOrder => sum_order_bound(model, text, options)?,
            Rule::NormalizedSumOrder => normalized_bound(model, text, options)?,
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
/// with `x` the values of that column of the token rows which has the largest ones.
pub(super) fn sum_order_bound(
    model: &StaticModel,
    text: &str,
    options: &EncodeOptions,
) -> Result<f64> {
    let Means { tokens, sizes, .. } = Means::of(model, text, options)?;
    Ok(sizes.into_iter().fold(0.0, f64::max) * order_error(tokens))
}

/// Texts up to this length are held to the bound that does not depend on the length.
const SHORT_TOKENS: usize = 512;

/// How far a value of a normalized row may be from the same text's, added up in another order.
///
/// Each column `c` of the mean `m` may be off by `b[c] = 2 n eps mean|x[c]|`, as in [`sum_order_bound`]. A
/// row `m + d` normalized differs from `m` normalized by `d / |m + d|`, and by `m / |m|` times the relative
/// change of the length, which is at most `|d| / |m + d|`. So no value is off by more than
/// `(max b + |b|) / (|m| - |b|)`. What normalizing itself rounds is within the fixed bound.
///
/// This is the worst case, in which every addition is rounded in the same direction. One token repeated
/// thousands of times comes near to that and nothing else does: so that texts of at most
/// [`SHORT_TOKENS`] tokens have to keep the fixed bound alone.
fn normalized_bound(model: &StaticModel, text: &str, options: &EncodeOptions) -> Result<f64> {
    let Means { tokens, sizes, row } = Means::of(model, text, options)?;
    if tokens <= SHORT_TOKENS {
        return Ok(NORMALIZED_TOLERANCE);
    }
    let norm = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>().sqrt();
    let bounds: Vec<f64> = sizes.iter().map(|size| size * order_error(tokens)).collect();
    let largest = bounds.iter().copied().fold(0.0, f64::max);
    let length = norm(&row) - norm(&bounds);
    // A row that may as well be zero has no direction.
    let moved = if length > 0.0 { (largest + norm(&bounds)) / length } else { f64::INFINITY };
    Ok(NORMALIZED_TOLERANCE + moved)
}

/// `2 n eps`: adding `n` values one after the other is off by at most `n eps / 2` times the sum of their
/// sizes, in each of two orders; the rest is for the division, and for the terms that are not linear.
fn order_error(tokens: usize) -> f64 {
    2.0 * tokens as f64 * f64::from(f32::EPSILON)
}

/// What the token rows of a text are on average.
struct Means {
    /// At least 1.
    tokens: usize,
    /// Of the absolute values, by column.
    sizes: Vec<f64>,
    /// Of the values, by column.
    row: Vec<f64>,
}

impl Means {
    fn of(model: &StaticModel, text: &str, options: &EncodeOptions) -> Result<Self> {
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
        let tokens = ids.len().max(1);
        let mut means = Self { tokens, sizes: vec![0.0; model.dim()], row: vec![0.0; model.dim()] };
        for row in rows.chunks_exact(model.dim()) {
            for ((size, mean), &value) in means.sizes.iter_mut().zip(&mut means.row).zip(row) {
                *size += f64::from(value.abs()) / tokens as f64;
                *mean += f64::from(value) / tokens as f64;
            }
        }
        Ok(means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlimited() -> EncodeOptions {
        let options = EncodeOptions::model2vec().with_max_length(MaxLength::Unlimited);
        options.with_normalize(Normalize::Yes)
    }

    #[test]
    fn the_bound_of_normalized_rows_grows_with_long_texts_only() -> Result<()> {
        let model = StaticModel::default_embedded();
        let bound = |words: usize| normalized_bound(&model, &"word ".repeat(words), &unlimited());
        for words in [0, 1, 20, SHORT_TOKENS] {
            assert_eq!(bound(words)?, NORMALIZED_TOLERANCE, "{words} words");
        }
        // Equal rows: the length of a mean is that of its sizes, and no column has more than all of it.
        for words in [SHORT_TOKENS + 1, 5000] {
            let (found, length) = (bound(words)?, order_error(words));
            assert!(found > length && found < 2.1 * length, "{words} words: {found:e}");
        }
        Ok(())
    }

    #[test]
    fn long_texts_of_equal_words_are_within_their_bound() -> Result<()> {
        let model = StaticModel::default_embedded();
        let mut report = Report::new(&model);
        let texts = ["word ".repeat(5000), "a few words".to_owned(), String::new()];
        compare_padded(&model, &Device::Cpu, &texts, &mut report)?;
        assert!(report.print());
        Ok(())
    }

    #[test]
    fn a_row_that_is_off_is_found_whatever_the_length() -> Result<()> {
        let model = StaticModel::default_embedded();
        for (words, off) in [(20, 4e-6), (5000, 4e-3)] {
            let text = "word ".repeat(words);
            let row = model.embed_with(&[&text], &unlimited())?;
            let mut wrong = row.row(0).to_vec();
            wrong[7] += off;
            let wrong = Embeddings::new(wrong, row.dim())?;
            let rule = Rule::NormalizedSumOrder;
            let line = rounded("x".into(), rule, &model, &unlimited(), &[&text], &wrong, &row)?;
            let mut report = Report::new(&model);
            report.add(line);
            assert!(!report.print(), "{words} words");
        }
        Ok(())
    }
}
