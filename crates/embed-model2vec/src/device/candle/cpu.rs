//! The op on Candle's CPU device: the kernels of the processor, fed with tensors.
//!
//! Rows have the bits of a model on the processor. It is there for tensors and as a cross-check, and it
//! copies the factors and the mapping on every call: models themselves never come this way.

use std::ops::Range;

use candle_core::{CpuStorage, Layout, Result, Shape, Tensor, bail};
use half::slice::HalfFloatSliceExt as _;

use super::PoolRowsOp;
use crate::kernels::{Level, Pooler};
use crate::tokenizer::IdSink as _;
use crate::weights::{Elements, Raw, Stored, TokenWeights, Weights};

/// A tensor as an op gets it.
type Operand<'a> = (&'a CpuStorage, &'a Layout);

/// Pools bags that were checked: `[bags, columns]`.
pub(super) fn forward(
    op: &PoolRowsOp,
    (table, table_layout): Operand<'_>,
    (ids, ids_layout): Operand<'_>,
    (offsets, offsets_layout): Operand<'_>,
) -> Result<(CpuStorage, Shape)> {
    let ids = &ids.as_slice::<u32>()?[range(ids_layout)?];
    let offsets = &offsets.as_slice::<u32>()?[range(offsets_layout)?];
    let range = range(table_layout)?;
    let bytes: &[u8] = match table {
        CpuStorage::F32(table) => bytemuck::cast_slice(&table[range]),
        CpuStorage::F16(table) => bytemuck::cast_slice::<u16, _>(table[range].reinterpret_cast()),
        CpuStorage::U8(table) => &table[range],
        _ => bail!("the type of the table has changed since it was checked"),
    };
    let whole = 0..bytes.len();
    let elements = match table {
        CpuStorage::F32(_) => Elements::F32(Stored::Raw(Raw::new(whole))),
        CpuStorage::F16(_) => Elements::F16(Stored::Raw(Raw::new(whole))),
        _ => Elements::I8(Stored::Raw(Raw::new(whole))),
    };
    let (rows, dim) = table_layout.shape().dims2()?;
    let factors = match &op.factors {
        Some(factors) => TokenWeights::Single(factors.to_vec1()?),
        None => TokenWeights::None,
    };
    let mapping = op.mapping.as_ref().map(Tensor::to_vec1).transpose()?;
    let weights = Weights { elements, rows, dim, factors, mapping, table_name: String::new() };

    let bags = offsets.len() - 1;
    let mut pooled = vec![0.0; bags * op.columns];
    let level = Level::best();
    let mut pooler = Pooler::new(&weights, bytes, level, op.columns);
    for (bounds, row) in offsets.windows(2).zip(pooled.chunks_exact_mut(op.columns)) {
        // A pooler takes every id.
        let _ = pooler.push_all(&ids[bounds[0] as usize..bounds[1] as usize]);
        pooler.finish(row);
        if let Some(guard) = op.normalize {
            level.normalize(row, guard);
        }
    }
    Ok((CpuStorage::F32(pooled), (bags, op.columns).into()))
}

/// Where a tensor lies in its storage.
fn range(layout: &Layout) -> Result<Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => bail!("a tensor is no longer contiguous"),
    }
}
