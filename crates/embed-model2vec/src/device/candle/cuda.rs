//! The op on Candle's CUDA backend, for callers that hold Candle tensors there.
//!
//! The kernels are those of a model on CUDA (`device/cuda/`), from the same PTX text; Candle's device
//! loads them once and launches them in its own stream. Models themselves never come this way: they need
//! no toolkit, which Candle's backend does.

use candle_core::backend::BackendStorage as _;
use candle_core::cuda_backend::cudarc::driver::{
    CudaView, DeviceRepr, LaunchConfig, PushKernelArg as _,
};
use candle_core::cuda_backend::{CudaDType, WrapErr as _};
use candle_core::{CudaStorage, DType, Layout, Result, Shape, Storage, Tensor, bail};
use half::f16;

use super::PoolRowsOp;
use crate::device::cuda::{KernelShape, PTX, THREADS};
use crate::device::{Kind, normalize_code};

/// A tensor as an op gets it.
type Operand<'a> = (&'a CudaStorage, &'a Layout);

/// The name under which Candle's device keeps the kernels.
const MODULE: &str = "embed_pool_rows";

/// Bytes that a kernel reads at once.
const VECTOR_BYTES: usize = 16;

/// Pools bags that were checked: `[bags, columns]`.
pub(super) fn forward(
    op: &PoolRowsOp,
    table: Operand<'_>,
    ids: Operand<'_>,
    offsets: Operand<'_>,
) -> Result<(CudaStorage, Shape)> {
    match table.0.dtype() {
        DType::F32 => launch::<f32>(op, Kind::F32, table, ids, offsets),
        DType::F16 => launch::<f16>(op, Kind::F16, table, ids, offsets),
        DType::U8 => launch::<u8>(op, Kind::I8, table, ids, offsets),
        other => bail!("the table is {other:?}, although it was checked"),
    }
}

fn launch<T: CudaDType + DeviceRepr>(
    op: &PoolRowsOp,
    kind: Kind,
    (table, table_layout): Operand<'_>,
    ids: Operand<'_>,
    offsets: Operand<'_>,
) -> Result<(CudaStorage, Shape)> {
    let device = table.device().clone();
    let (_, dim) = table_layout.shape().dims2()?;
    let bags = offsets.1.shape().elem_count() - 1;
    // A view may begin in the middle of a vector.
    let begins_with_vector =
        (table_layout.start_offset() * kind.size()).is_multiple_of(VECTOR_BYTES);
    let shape =
        if begins_with_vector { KernelShape::of(kind, dim, op.columns) } else { KernelShape::One };
    let [x, y] = shape.grid(kind, THREADS, bags, op.columns, op.normalize.is_some());
    let table = view::<T>(table, table_layout)?;
    let (ids, offsets) = (view::<u32>(ids.0, ids.1)?, view::<u32>(offsets.0, offsets.1)?);
    let factors = op.factors.as_ref().map(Tensor::storage_and_layout);
    let factors = match &factors {
        Some((storage, layout)) => Some(view_of::<f32>(storage, layout)?),
        None => None,
    };
    let mapping = op.mapping.as_ref().map(Tensor::storage_and_layout);
    let mapping = match &mapping {
        Some((storage, layout)) => Some(view_of::<u32>(storage, layout)?),
        None => None,
    };
    let narrow = |number: usize| u32::try_from(number).map_err(candle_core::Error::wrap);
    let (bag_count, row_bytes) = (narrow(bags)?, narrow(dim * kind.size())?);
    let columns = narrow(op.columns)?;
    let normalize = normalize_code(op.normalize);
    let function = device.get_or_load_custom_func(&shape.kernel(kind), MODULE, PTX)?;
    #[expect(unsafe_code, reason = "memory that the kernel fills")]
    // SAFETY: every value is written: the grid has a group for each bag and a pass for each column.
    let out = unsafe { device.alloc::<f32>(bags * op.columns)? };
    // No address says that there is nothing.
    let nothing = 0u64;
    let mut launch = function.builder();
    launch.arg(&table);
    match &factors {
        Some(factors) => launch.arg(factors),
        None => launch.arg(&nothing),
    };
    match &mapping {
        Some(mapping) => launch.arg(mapping),
        None => launch.arg(&nothing),
    };
    launch.arg(&ids).arg(&offsets).arg(&out);
    launch.arg(&bag_count).arg(&row_bytes).arg(&columns).arg(&normalize);
    let config =
        LaunchConfig { grid_dim: (x, y, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
    #[expect(unsafe_code, reason = "a kernel reads wherever it is told to")]
    // SAFETY: the arguments are those of the kernels, in order and in size. Offsets, ids, factors and
    // mapping were checked against each other and against the table, and all of it is contiguous memory
    // of this device that Candle keeps until its stream is done with it.
    unsafe { launch.launch(config) }.w()?;
    drop(launch);
    Ok((CudaStorage::wrap_cuda_slice(out, device), (bags, op.columns).into()))
}

/// The elements of a tensor, which are contiguous.
fn view<'s, T: CudaDType>(storage: &'s CudaStorage, layout: &Layout) -> Result<CudaView<'s, T>> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("a tensor is no longer contiguous")
    };
    Ok(storage.as_cuda_slice::<T>()?.slice(start..end))
}

fn view_of<'s, T: CudaDType>(storage: &'s Storage, layout: &Layout) -> Result<CudaView<'s, T>> {
    match storage {
        Storage::Cuda(storage) => view(storage, layout),
        _ => bail!("a tensor is no longer on the device"),
    }
}
