//! The reference: one text at a time, in plain loops.
//!
//! It shares the loaded tensors with the model, and how a vocabulary without unknown token is read, and
//! nothing else: its own `tokenizers` pipeline, its own cutting, its own sums, its own normalizing. It
//! is written to be read beside the rules and is slow; parity checks and tests compare the batched
//! forward with it.
//!
//! The rules, with `E` the table, `w` the weights and `m` the mapping:
//!
//! 1. Cut the text to `max_length * median` code points, if there is a limit.
//! 2. Tokenize, keep the first `max_length` ids, drop the unknown ones.
//! 3. Row = mean over the ids of `E[m[id]] * w[id]`, column by column in token order.
//! 4. Normalize if asked.

use embed_core::{EncodeOptions, Error, MaxLength, NormGuard, Normalize, Precut, UnknownTokens};
use half::{bf16, f16};

use crate::error::LoadError;
use crate::model::StaticModel;
use crate::tokenizer::{self, Parsed};
use crate::weights::{Elements, TokenWeights};

/// The sequential forward of a model.
#[derive(Debug)]
pub struct Sequential<'m> {
    model: &'m StaticModel,
    tokenizer: tokenizers::Tokenizer,
    /// An id that stands for no token.
    placeholder: Option<u32>,
    unk_id: Option<u32>,
    median: usize,
    file_max_length: Option<usize>,
}

/// How a product of a row's value and a weight is rounded, and in which precision sums are formed.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Double,
    Single,
    /// As `Single`, with every product rounded to F16.
    HalfProducts,
    /// Sums of integers, exact.
    Integer,
}

impl<'m> Sequential<'m> {
    /// Parses the model's tokenizer a second time.
    ///
    /// # Errors
    ///
    /// [`LoadError::Tokenizer`] if that fails.
    pub fn new(model: &'m StaticModel) -> Result<Self, LoadError> {
        let file = &model.bundle().tokenizer;
        let fail = |source| LoadError::Tokenizer { path: file.path.clone(), source };
        let Parsed { mut tokenizer, entries, placeholder, .. } = tokenizer::parse(file)?;
        let file_max_length = tokenizer.get_truncation().map(|section| section.max_length);
        tokenizer.with_padding(None).with_truncation(None).map_err(fail)?;

        let json: serde_json::Value = serde_json::from_slice(&file.bytes)
            .map_err(|source| LoadError::Json { path: file.path.clone(), source })?;
        let unk_id = match json["model"]["unk_token"].as_str() {
            Some(token) => tokenizer.token_to_id(token),
            None => json["model"]["unk_id"].as_u64().and_then(|id| u32::try_from(id).ok()),
        };

        let mut lengths: Vec<usize> = entries.keys().map(|entry| entry.chars().count()).collect();
        lengths.sort_unstable();
        let n = lengths.len();
        let median = match n {
            0 => 0,
            n if n % 2 == 1 => lengths[n / 2],
            n => usize::midpoint(lengths[n / 2 - 1], lengths[n / 2]),
        };
        Ok(Self { model, tokenizer, placeholder, unk_id, median, file_max_length })
    }

    /// The ids that go into the mean of `text`.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the `tokenizers` crate refuses the text.
    pub fn token_ids(&self, text: &str, options: &EncodeOptions) -> Result<Vec<u32>, Error> {
        let max_length = match options.max_length {
            MaxLength::Model => self.model.config().max_length.map(Into::into),
            MaxLength::Unlimited => None,
            MaxLength::Tokens(limit) => Some(limit.get()),
            MaxLength::Tokenizer => self.file_max_length,
        };
        let text: String = match (max_length, options.precut) {
            (Some(limit), Precut::MedianLength) => {
                text.chars().take(limit.saturating_mul(self.median)).collect()
            }
            _ => text.to_owned(),
        };
        let encoding = self
            .tokenizer
            .encode(text, false)
            .map_err(|source| Error::backend(TokenizerRefused(source.to_string())))?;
        let mut ids = encoding.get_ids().to_vec();
        ids.retain(|&id| Some(id) != self.placeholder);
        if let Some(limit) = max_length {
            ids.truncate(limit);
        }
        if options.unknown == UnknownTokens::Drop {
            ids.retain(|&id| Some(id) != self.unk_id);
        }
        Ok(ids)
    }

    /// The row of `text`, `dim` values long.
    ///
    /// # Errors
    ///
    /// Those of [`token_ids`](Self::token_ids).
    pub fn embed(&self, text: &str, options: &EncodeOptions) -> Result<Vec<f32>, Error> {
        let ids = self.token_ids(text, options)?;
        let dim = self.model.weights().dim;
        let columns = options.dims.map_or(dim, Into::into).min(dim);
        let mut row: Vec<f32> = (0..columns).map(|column| self.mean(&ids, column)).collect();
        let normalize = match options.normalize {
            Normalize::Model => self.model.config().normalize,
            Normalize::Yes => true,
            Normalize::No => false,
        };
        if normalize {
            let squares: Vec<f32> = row.iter().map(|value| value * value).collect();
            let length = numpy_sum(&squares).sqrt();
            let divisor = match options.norm_guard {
                NormGuard::AddTiny => length + 1e-32,
                NormGuard::ClampTiny => {
                    if length < 1e-12 {
                        1e-12
                    } else {
                        length
                    }
                }
            };
            for value in &mut row {
                *value /= divisor;
            }
        }
        Ok(row)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "values are rounded to the precision of the rules"
    )]
    fn mean(&self, ids: &[u32], column: usize) -> f32 {
        if ids.is_empty() {
            return 0.0;
        }
        let precision = self.precision();
        let (mut double, mut single) = (0f64, 0f32);
        for &id in ids {
            let value = self.element(id, column);
            let weight = self.weight(id);
            match precision {
                // In f64 whole numbers of this size add up exactly.
                Precision::Integer => double += value,
                Precision::Double => double += value * weight,
                Precision::Single => single += value as f32 * weight as f32,
                Precision::HalfProducts => {
                    single += f16::from_f32(value as f32 * weight as f32).to_f32();
                }
            }
        }
        let sum = match precision {
            Precision::Integer | Precision::Double => double,
            Precision::Single | Precision::HalfProducts => f64::from(single),
        };
        (sum / ids.len() as f64) as f32
    }

    fn precision(&self) -> Precision {
        let weights = self.model.weights();
        match (&weights.elements, &weights.factors) {
            (Elements::F64(_), _) | (_, TokenWeights::Double(_)) => Precision::Double,
            (Elements::I8(_) | Elements::U8(_), TokenWeights::None) => Precision::Integer,
            (Elements::F16(_) | Elements::I8(_) | Elements::U8(_), TokenWeights::Half(_)) => {
                Precision::HalfProducts
            }
            _ => Precision::Single,
        }
    }

    fn element(&self, id: u32, column: usize) -> f64 {
        let weights = self.model.weights();
        let file = &self.model.weights_file().bytes;
        let row = match &weights.mapping {
            Some(mapping) => mapping[id as usize],
            None => id,
        };
        let index = row as usize * weights.dim + column;
        match &weights.elements {
            Elements::F64(table) => table.get(file)[index],
            Elements::F32(table) => table.get(file)[index].into(),
            Elements::F16(table) => f16::from_bits(table.get(file)[index]).into(),
            Elements::Bf16(table) => bf16::from_bits(table.get(file)[index]).into(),
            Elements::I8(table) => table.get(file)[index].into(),
            Elements::U8(table) => table.get(file)[index].into(),
        }
    }

    fn weight(&self, id: u32) -> f64 {
        match &self.model.weights().factors {
            TokenWeights::None => 1.0,
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => {
                factors[id as usize].into()
            }
            TokenWeights::Double(factors) => factors[id as usize],
        }
    }
}

/// An error of the `tokenizers` crate.
#[derive(Debug, thiserror::Error)]
#[error("the reference tokenizer refused a text: {0}")]
struct TokenizerRefused(String);

/// numpy's pairwise sum of a contiguous `f32` array, in the terms of its definition.
fn numpy_sum(values: &[f32]) -> f32 {
    let n = values.len();
    if n < 8 {
        let mut sum = 0.0;
        for value in values {
            sum += value;
        }
        return sum;
    }
    if n <= 128 {
        let mut r = [0.0; 8];
        r.copy_from_slice(&values[..8]);
        let mut i = 8;
        while i < n - n % 8 {
            for lane in 0..8 {
                r[lane] += values[i + lane];
            }
            i += 8;
        }
        let mut sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        while i < n {
            sum += values[i];
            i += 1;
        }
        return sum;
    }
    let half = n / 2 / 8 * 8;
    numpy_sum(&values[..half]) + numpy_sum(&values[half..])
}
