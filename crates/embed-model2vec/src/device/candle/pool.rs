//! The table of a model on a Candle device.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Result, Storage, Tensor, bail};

#[cfg(feature = "metal")]
use super::metal;
use super::{PoolRowsOp, PoolRowsOptions, check_bags};
use crate::device::{
    Counters, Counts, Device, DeviceError, DeviceTable, Kind, PoolRows, Task, failed,
};

/// A table that was uploaded, and the op that pools its rows.
#[derive(Debug)]
pub(super) struct CandlePool {
    device: Device,
    name: String,
    table: Tensor,
    op: PoolRowsOp,
    /// One batch at a time: a device works on one after the other anyway, and Candle tells an error of
    /// the device to whoever waits first, which must be the one whose batch it was.
    turn: Mutex<()>,
    counters: Counters,
}

impl CandlePool {
    /// A pool over `table`, which has been uploaded to a device of its own; `source` is where its
    /// factors and mapping come from.
    pub(super) fn new(
        device: Device,
        name: String,
        table: Tensor,
        source: &DeviceTable<'_>,
    ) -> std::result::Result<Self, DeviceError> {
        let op = Self::op(&table, source).map_err(failed(device, "upload the table"))?;
        Ok(Self { device, name, table, op, turn: Mutex::new(()), counters: Counters::default() })
    }

    fn op(table: &Tensor, source: &DeviceTable<'_>) -> Result<PoolRowsOp> {
        let mut options = PoolRowsOptions::default();
        if let Some(factors) = source.factors {
            let factors = Tensor::from_slice(factors, factors.len(), table.device())?;
            options = options.with_factors(factors);
        }
        if let Some(mapping) = source.mapping {
            let mapping = Tensor::from_slice(mapping, mapping.len(), table.device())?;
            options = options.with_mapping(mapping);
        }
        PoolRowsOp::new(table, &options)
    }

    fn pool_checked(&self, task: Task<'_>) -> Result<()> {
        let Task { bags, columns, normalize, out } = task;
        let (ids, offsets) = (bags.ids(), bags.offsets());
        check_bags(ids, offsets, self.op.vocabulary)?;
        if columns == 0 || columns > self.op.columns || out.len() != bags.len() * columns {
            bail!("{} values for {} rows of {columns}", out.len(), bags.len());
        }
        if ids.is_empty() {
            out.fill(0.0);
            return Ok(());
        }
        let op = PoolRowsOp { columns, normalize, ..self.op.clone() };

        // A panic of an earlier batch has left nothing behind that could be half done.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let device = self.table.device();
        let ids = Tensor::from_slice(ids, ids.len(), device)?;
        let offsets = Tensor::from_slice(offsets, offsets.len(), device)?;
        let rows = op.forward(&self.table, &ids, &offsets)?;
        self.counters.launched();
        fetch(&rows, out)?;
        self.counters.read_back();
        Ok(())
    }
}

impl PoolRows for CandlePool {
    fn pool(&self, task: Task<'_>) -> std::result::Result<(), DeviceError> {
        self.pool_checked(task).map_err(failed(self.device, "pool a batch"))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        self.counters.counts()
    }
}

/// Waits for rows that the op has just made and copies them.
fn fetch(rows: &Tensor, out: &mut [f32]) -> Result<()> {
    let (storage, _) = rows.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => out.copy_from_slice(storage.as_slice()?),
        #[cfg(feature = "metal")]
        Storage::Metal(storage) => metal::fetch(storage, out)?,
        _ => bail!("no way to fetch rows from {:?}", rows.device().location()),
    }
    Ok(())
}

/// The type in which Candle carries a table.
pub(super) fn dtype(kind: Kind) -> DType {
    match kind {
        Kind::F32 => DType::F32,
        Kind::F16 => DType::F16,
        Kind::I8 => DType::U8,
    }
}
