//! The pooling op: token ids and bag boundaries to mean rows.
//!
//! # Contract
//!
//! A [`Pooler`] takes the ids of one bag after the other and writes one row for each: the mean over
//! the bag's tokens of `table[row(id)] * weight(id)`, `f32`, cut to the first `columns` dimensions. A
//! bag without tokens gives a row of zeros.
//!
//! The order and the precision of every operation are part of the contract, because they decide the
//! last bit, and the last bit is that of Python model2vec:
//!
//! - A column is added up in token order, one token after the other, and divided once, by the number
//!   of tokens. Columns do not depend on each other, nor bags on each other.
//! - `f32` sums of rows in F32, F16 and BF16, and of products with `f32` weights. Products are rounded
//!   before they are added: no fused multiply-add anywhere.
//! - F16 weights on a table of at most 16 bits: each product is rounded to F16, then added in `f32`.
//! - Integer rows without weights: the sum is exact; one `f64` division, rounded to `f32`.
//! - An F64 table or F64 weights: products and sums in `f64`, rounded to `f32` at the end.
//!
//! Every [`Level`] gives the same bits. `scalar.rs` is the definition, `columns.rs` the vector kernel,
//! `base.rs` and `x86.rs` are the instructions that it is made of. Rows exist for all ids below the
//! vocabulary, as loading has checked, and every access is checked again where that costs nothing:
//! nothing here reads past a table, whatever the ids.

mod bags;
mod base;
mod block;
mod columns;
mod level;
mod norm;
mod pooler;
mod scalar;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use bags::Bags;
pub(crate) use level::Level;
pub(crate) use pooler::Pooler;

/// The whole table, `[rows, dim]`, without weights and mapping.
#[cfg(feature = "candle")]
pub(crate) fn rows_as_f64(
    weights: &crate::weights::Weights,
    file: &crate::bundle::BundleFile,
) -> Vec<f64> {
    scalar::rows_as_f64(&weights.elements, &file.bytes)
}
