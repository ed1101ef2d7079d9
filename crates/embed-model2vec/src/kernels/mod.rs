//! The pooling op: token ids and bag boundaries to mean rows.
//!
//! # Contract
//!
//! `pool(table, bags, columns, out)` writes one row for each bag into `out` (`[bags, columns]`,
//! row-major, `f32`): the mean over the bag's tokens of `table[row(id)] * weight(id)`, cut to the
//! first `columns` dimensions. A bag without tokens gives a row of zeros.
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
//! Shapes and ids are checked here, once, before any implementation runs. `scalar.rs` is the
//! definition; every other implementation must give the same bits on the CPU.

pub(crate) mod norm;
mod scalar;

use crate::bundle::BundleFile;
use crate::weights::Weights;

/// Bags of token ids, one after the other in one buffer (CSR).
#[derive(Debug)]
pub(crate) struct Bags {
    /// The ids of all bags.
    ids: Vec<u32>,
    /// Bag `i` is `ids[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<usize>,
}

impl Bags {
    pub(crate) fn new() -> Self {
        Self { ids: Vec::new(), offsets: vec![0] }
    }

    /// The buffer that the ids of the next bag are appended to.
    pub(crate) fn open(&mut self) -> &mut Vec<u32> {
        &mut self.ids
    }

    /// Ends the current bag.
    pub(crate) fn close(&mut self) {
        self.offsets.push(self.ids.len());
    }

    /// Forgets all bags and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.offsets.truncate(1);
    }

    /// The number of closed bags.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of ids in all bags.
    pub(crate) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// The bags in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|bounds| &self.ids[bounds[0]..bounds[1]])
    }
}

/// Pools every bag; see the module docs for the contract.
///
/// `file` is the file that `weights` were loaded from.
///
/// # Panics
///
/// If `out` is not `[bags, columns]`, `columns` exceeds the table's width, or an id has no row: the
/// callers have made sure of all three.
pub(crate) fn pool(
    weights: &Weights,
    file: &BundleFile,
    bags: &Bags,
    columns: usize,
    out: &mut [f32],
) {
    assert!(columns > 0 && columns <= weights.dim, "columns are within the table");
    assert_eq!(out.len(), bags.len() * columns, "one row for each bag");
    scalar::pool(weights, &file.bytes, bags, columns, out);
}

/// The whole table, `[rows, dim]`, without weights and mapping.
#[cfg(feature = "candle")]
pub(crate) fn rows_as_f64(weights: &Weights, file: &BundleFile) -> Vec<f64> {
    scalar::rows_as_f64(&weights.elements, &file.bytes)
}
