//! The padded forward on a Candle device: the classic formulation, kept as a cross-check.
//!
//! Ids are padded to the longest text of a batch, rows are looked up with a [`candle_nn::Embedding`],
//! multiplied by a mask, summed and divided by the number of real tokens. It allocates
//! `[batch, longest, dim]`, which is exactly what the batched forward avoids; therefore batches are cut
//! into pieces of at most [`MAX_ROWS`] rows and [`MAX_GATHERED_BYTES`].
//!
//! Sums are formed in another order than in the batched forward: rows agree to rounding, not in bits.
//! A model whose table or weights are F64 is computed in `f64` where the device can (Metal cannot).

use std::num::NonZeroUsize;

use candle_core::{D, DType, Device, Tensor};
use candle_nn::{Embedding, Module};
use embed_core::{Embeddings, EncodeOptions, Error, Input, NormGuard, forward_chunk_ranges};

use crate::StaticModel;
use crate::forward::push_input;
use crate::kernels::{self, Bags};
use crate::weights::{Elements, TokenWeights};

/// Rows of one forward.
pub const MAX_ROWS: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

/// Size of the gathered tensor `[rows, longest, dim]` of one forward.
pub const MAX_GATHERED_BYTES: usize = 256 << 20;

/// A model's tensors on a Candle device.
#[derive(Debug)]
pub struct PaddedForward<'m> {
    model: &'m StaticModel,
    table: Embedding,
    /// Row of each id, `[tokens]` u32.
    mapping: Option<Tensor>,
    /// Factor of each id, `[tokens, 1]`.
    weights: Option<Embedding>,
    /// Precision of products and sums.
    dtype: DType,
    device: Device,
}

/// An error of the padded forward.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PaddedError {
    /// Candle failed.
    #[error("candle failed")]
    Candle(#[from] candle_core::Error),
    /// An input was refused before it reached the device.
    #[error(transparent)]
    Input(#[from] Error),
    /// One text alone needs more memory than a forward may take.
    #[error("text {text} needs {bytes} bytes in padded form, the limit is {limit} bytes")]
    TooLarge {
        /// Index of the text.
        text: usize,
        /// Bytes of its gathered rows.
        bytes: usize,
        /// [`MAX_GATHERED_BYTES`].
        limit: usize,
    },
}

impl<'m> PaddedForward<'m> {
    /// Copies the table to `device`.
    ///
    /// # Errors
    ///
    /// [`PaddedError::Candle`] if the device refuses.
    pub fn new(model: &'m StaticModel, device: &Device) -> Result<Self, PaddedError> {
        let weights = model.weights();
        let double = matches!(weights.elements, Elements::F64(_))
            || matches!(weights.factors, TokenWeights::Double(_));
        let dtype = if double && !device.is_metal() { DType::F64 } else { DType::F32 };

        let rows = kernels::rows_as_f64(weights, model.weights_file());
        let table = Tensor::from_vec(rows, (weights.rows, weights.dim), &Device::Cpu)?;
        let mapping = match &weights.mapping {
            Some(mapping) => Some(Tensor::from_slice(mapping, mapping.len(), device)?),
            None => None,
        };
        let factors: Option<Vec<f64>> = match &weights.factors {
            TokenWeights::None => None,
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => {
                Some(factors.iter().map(|&factor| factor.into()).collect())
            }
            TokenWeights::Double(factors) => Some(factors.clone()),
        };
        let to_device = |tensor: &Tensor| tensor.to_dtype(dtype)?.to_device(device);
        let weights_table = match factors {
            Some(factors) => {
                let count = factors.len();
                let factors = Tensor::from_vec(factors, (count, 1), &Device::Cpu)?;
                Some(Embedding::new(to_device(&factors)?, 1))
            }
            None => None,
        };
        Ok(Self {
            model,
            table: Embedding::new(to_device(&table)?, weights.dim),
            mapping,
            weights: weights_table,
            dtype,
            device: device.clone(),
        })
    }

    /// Embeds texts under `options`.
    ///
    /// # Errors
    ///
    /// [`PaddedError`]: an input was refused, one text is too large to be padded, or Candle failed.
    pub fn embed(
        &self,
        texts: &[&str],
        options: &EncodeOptions,
    ) -> Result<Embeddings, PaddedError> {
        use embed_core::Embedder as _;
        let limits = self.model.limits(options);
        let columns = self.model.output_dim(options)?;
        let mut values = Vec::with_capacity(texts.len() * columns);
        let mut session = self.model.tokenizer().session();
        for range in forward_chunk_ranges(texts.len(), MAX_ROWS) {
            let mut bags = Bags::new();
            for index in range.clone() {
                let input = Input::Text(texts[index]);
                push_input(self.model, &mut session, &limits, index, &input, bags.open())?;
                bags.close();
            }
            let bags: Vec<&[u32]> = bags.iter().collect();
            let mut start = 0;
            while start < bags.len() {
                let count = self.rows_that_fit(range.start + start, &bags[start..])?;
                let rows = self.forward(&bags[start..start + count], columns, options)?;
                values.extend(rows.flatten_all()?.to_vec1::<f32>()?);
                start += count;
            }
        }
        Ok(Embeddings::new(values, columns)?)
    }

    /// How many of `bags` (at least one, unless that one is too large) fit into one forward.
    fn rows_that_fit(&self, text: usize, bags: &[&[u32]]) -> Result<usize, PaddedError> {
        let row_bytes = self.model.weights().dim * self.dtype.size_in_bytes();
        let bytes = |count: usize| {
            let longest = bags[..count].iter().map(|bag| bag.len()).max().unwrap_or(0);
            count * longest * row_bytes
        };
        let limit = MAX_GATHERED_BYTES;
        (1..=bags.len()).rev().find(|&count| bytes(count) <= limit).ok_or(PaddedError::TooLarge {
            text,
            bytes: bytes(1),
            limit,
        })
    }

    /// One padded forward: `[batch, longest]` ids to `[batch, columns]`.
    fn forward(
        &self,
        bags: &[&[u32]],
        columns: usize,
        options: &EncodeOptions,
    ) -> candle_core::Result<Tensor> {
        let batch = bags.len();
        let longest = bags.iter().map(|bag| bag.len()).max().unwrap_or(0);
        if longest == 0 {
            return Tensor::zeros((batch, columns), DType::F32, &self.device);
        }
        let mut ids = Vec::with_capacity(batch * longest);
        let mut mask = Vec::with_capacity(batch * longest);
        for bag in bags {
            ids.extend_from_slice(bag);
            ids.resize(ids.len() + longest - bag.len(), 0);
            mask.extend((0..longest).map(|position| u8::from(position < bag.len())));
        }
        let ids = Tensor::from_vec(ids, batch * longest, &self.device)?;
        let mask = Tensor::from_vec(mask, (batch, longest, 1), &self.device)?;

        let rows = match &self.mapping {
            Some(mapping) => self.table.forward(&mapping.index_select(&ids, 0)?)?,
            None => self.table.forward(&ids)?,
        };
        let mut rows = rows.reshape((batch, longest, ()))?.narrow(D::Minus1, 0, columns)?;
        if let Some(weights) = &self.weights {
            rows = rows.broadcast_mul(&weights.forward(&ids)?.reshape((batch, longest, 1))?)?;
        }
        // A padded position must not count even where its row is not finite: choose, do not multiply.
        let counted = mask.broadcast_as(rows.shape())?;
        let rows = counted.where_cond(&rows, &rows.zeros_like()?)?;
        let counts = mask.to_dtype(self.dtype)?.sum(1)?.maximum(1f64)?;
        let means = rows.sum(1)?.broadcast_div(&counts)?.to_dtype(DType::F32)?;
        if !self.model.normalizes(options) {
            return Ok(means);
        }
        let norms = means.sqr()?.sum_keepdim(1)?.sqrt()?;
        let norms = match options.norm_guard {
            NormGuard::AddTiny => (norms + 1e-32)?,
            NormGuard::ClampTiny => norms.maximum(1e-12f32)?,
        };
        means.broadcast_div(&norms)
    }
}
