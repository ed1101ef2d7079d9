//! The op on Metal: `gpu/pool_rows.metal`, compiled on the device and launched through Candle.
//!
//! Candle's Metal layer has rules that no type enforces. This file is the only one that has to know
//! them:
//!
//! - Buffers are not tracked by Metal but by Candle's encoder: what a kernel writes is bound with
//!   `set_output_buffer`, everything else with `set_input_buffer`, or later work could overtake it.
//! - An encoder holds a lock that allocating and waiting need too: everything is allocated before an
//!   encoder is asked for, and it is gone before anyone waits.
//! - A pooled buffer may still be in use by the device when the host gets it: the host only ever writes
//!   fresh ones, which `Tensor::from_slice` and the staging below make with their contents.
//! - A buffer of no bytes and a grid of no groups are errors: the op's `forward` sends neither.
//! - Without compile options Metal's fast math is on: see [`compile`].
//! - `Device::new_metal` panics where there is no device: [`device`] looks first.
//! - Pooled buffers are rounded up to powers of two, and a pool keeps them: the table has a buffer of
//!   its own.
//!
//! One launch takes the whole batch. Rows are written to memory that the host can read, so that fetching
//! them is waiting and one copy.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::backend::BackendStorage as _;
use candle_core::metal_backend::DeviceId;
use candle_core::op::BackpropOp;
use candle_core::{
    DType, Error, Layout, MetalDevice, MetalStorage, Result, Shape, Storage, StorageRef, Tensor,
    bail,
};
use candle_metal_kernels::RESOURCE_OPTIONS;
use candle_metal_kernels::metal::{ComputePipeline, Device as RawDevice};
use objc2::available;
use objc2_metal::{
    MTLCompileOptions, MTLDevice as _, MTLMathFloatingPointFunctions, MTLMathMode,
    MTLResource as _, MTLSize, MTLStorageMode,
};

use super::PoolRowsOp;
use super::pool::{CandlePool, dtype};
use crate::device::{Device, DeviceError, DeviceTable, PoolRows, failed, normalize_code};

const SOURCE: &str = include_str!("../../../gpu/pool_rows.metal");

/// Threads of a group come in multiples of the width at which Apple's GPUs execute.
const SIMD_WIDTH: usize = 32;

/// Threads of a group at most: a column for each thread at the usual widths of rows.
const MAX_THREADS: usize = 256;

/// A table is uploaded in pieces, so that its copy for the device does not double it in memory.
const STAGING_BYTES: usize = 64 << 20;

/// Copies on the device may have to be multiples of it.
const COPY_BYTES: usize = 4;

/// A tensor as an op gets it.
type Operand<'a> = (&'a MetalStorage, &'a Layout);

/// What the kernel calls `Shape`: the same fields in the same order.
#[repr(C)]
struct KernelShape {
    dim: u32,
    columns: u32,
    normalize: u32,
    has_factors: u32,
    has_mapping: u32,
}

/// The Metal device of this machine with its name, if there is one.
pub(crate) fn devices() -> Vec<(Device, String)> {
    RawDevice::all()
        .first()
        .map(|raw| (Device::Metal, raw.as_ref().name().to_string()))
        .into_iter()
        .collect()
}

/// Uploads a table to the first Metal device.
pub(crate) fn upload(
    table: &DeviceTable<'_>,
) -> std::result::Result<Box<dyn PoolRows>, DeviceError> {
    let kind = Device::Metal;
    // Candle would panic without one.
    if RawDevice::all().is_empty() {
        let reason = "the system lists no Metal device".to_owned();
        return Err(DeviceError::Absent { device: kind, reason });
    }
    let opened = candle_core::Device::new_metal(0).map_err(failed(kind, "open the device"))?;
    let metal = opened.as_metal_device().map_err(failed(kind, "open the device"))?;
    let name = format!("{} ({kind})", metal.metal_device().as_ref().name());
    let uploaded = upload_rows(metal, table).map_err(failed(kind, "upload the table"))?;
    let pool = CandlePool::new(kind, name, uploaded, table)?;
    // A kernel that does not compile is an error now, not in the first batch.
    function(dtype(table.kind))
        .and_then(|function| pipeline(metal, function))
        .map_err(failed(kind, "compile its kernel"))?;
    Ok(Box::new(pool))
}

/// The rows of a table as a tensor in memory of the device alone.
fn upload_rows(device: &MetalDevice, table: &DeviceTable<'_>) -> Result<Tensor> {
    let dtype = dtype(table.kind);
    let count = table.bytes.len() / table.kind.size();
    let rows = device.new_private_buffer(count.next_multiple_of(COPY_BYTES), dtype, "table")?;
    for (index, piece) in table.bytes.chunks(STAGING_BYTES).enumerate() {
        let mut padded;
        let piece = if piece.len().is_multiple_of(COPY_BYTES) {
            piece
        } else {
            padded = piece.to_vec();
            padded.resize(piece.len().next_multiple_of(COPY_BYTES), 0);
            &padded
        };
        // Not from the pool, which would keep it.
        let staging = device
            .metal_device()
            .new_buffer_with_data(piece.as_ptr().cast(), piece.len(), RESOURCE_OPTIONS)
            .map_err(Error::wrap)?;
        {
            let mut copy = device.blit_command_encoder()?;
            copy.copy_from_buffer(&staging, 0, &rows, index * STAGING_BYTES, piece.len());
        }
        device.flush_and_wait_current()?;
    }
    let storage = MetalStorage::new(rows, device.clone(), count, dtype);
    let shape = (table.rows, table.dim);
    Ok(Tensor::from_storage(Storage::Metal(storage), shape, BackpropOp::none(), false))
}

/// Launches the kernel for bags that were checked; there are ids. The result is `[bags, columns]` in
/// memory that the host can read.
pub(super) fn forward(
    op: &PoolRowsOp,
    table: Operand<'_>,
    ids: Operand<'_>,
    offsets: Operand<'_>,
) -> Result<(MetalStorage, Shape)> {
    let device = table.0.device();
    let bags = offsets.1.shape().elem_count() - 1;
    let (_, dim) = table.1.shape().dims2()?;
    let shape = KernelShape {
        dim: u32::try_from(dim).map_err(Error::wrap)?,
        columns: u32::try_from(op.columns).map_err(Error::wrap)?,
        normalize: normalize_code(op.normalize),
        has_factors: op.factors.is_some().into(),
        has_mapping: op.mapping.is_some().into(),
    };
    let pipeline = pipeline(device, function(table.0.dtype())?)?;
    let threads = threads(op.columns).min(pipeline.max_total_threads_per_threadgroup());
    let count = bags * op.columns;
    let bytes = count * DType::F32.size_in_bytes();
    let pooled = device.new_buffer_builder().with_size(bytes).with_label("pooled").build()?;
    let factors = op.factors.as_ref().map(Tensor::storage_and_layout);
    let mapping = op.mapping.as_ref().map(Tensor::storage_and_layout);
    // The kernel does not look at buffers that it is told to leave alone, but every slot needs one.
    let factors = factors.as_ref().map_or(Ok(ids), operand)?;
    let mapping = mapping.as_ref().map_or(Ok(ids), operand)?;
    let inputs = [table, ids, offsets, factors, mapping];
    {
        let guard = device.command_encoder()?;
        let encoder = guard.as_ref();
        encoder.set_compute_pipeline_state(&pipeline);
        for (index, (storage, layout)) in inputs.into_iter().enumerate() {
            let offset = layout.start_offset() * storage.dtype().size_in_bytes();
            encoder.set_input_buffer(index, Some(storage.buffer()), offset);
        }
        encoder.set_output_buffer(inputs.len(), Some(&pooled), 0);
        encoder.set_bytes(inputs.len() + 1, &shape);
        encoder.set_threadgroup_memory_length(0, threads * size_of::<f32>());
        encoder.dispatch_thread_groups(size(bags), size(threads));
    }
    let storage = MetalStorage::new(pooled, device.clone(), count, DType::F32);
    Ok((storage, (bags, op.columns).into()))
}

/// Waits for the rows that [`forward`] has made and copies them.
pub(super) fn fetch(rows: &MetalStorage, out: &mut [f32]) -> Result<()> {
    rows.device().flush_and_wait_current()?;
    let buffer = rows.buffer();
    let out: &mut [u8] = bytemuck::cast_slice_mut(out);
    if rows.dtype() != DType::F32 || buffer.length() < out.len() {
        bail!("{} bytes of {:?} for rows of {}", buffer.length(), rows.dtype(), out.len());
    }
    if buffer.as_ref().storageMode() != MTLStorageMode::Shared {
        bail!("the rows are not in memory that the host can read");
    }
    #[expect(unsafe_code, reason = "reads what the device has written")]
    // SAFETY:
    // - the buffer is shared with the host and at least as long as `out`: both were checked above;
    // - nobody writes to it meanwhile: the device has finished the kernel that fills it, and it cannot
    //   be given out again as long as `rows` holds it;
    // - it lives as long as `rows`, and is read in this function only.
    let written = unsafe { std::slice::from_raw_parts(buffer.contents(), out.len()) };
    out.copy_from_slice(written);
    Ok(())
}

/// The kernel for a table.
fn function(table: DType) -> Result<&'static str> {
    match table {
        DType::F32 => Ok("pool_rows_f32"),
        DType::F16 => Ok("pool_rows_f16"),
        DType::U8 => Ok("pool_rows_i8"),
        other => bail!("no kernel for a table of {other:?}"),
    }
}

/// A kernel that is ready to be launched on `device`; compiled on its first use.
///
/// Compiled kernels stay until the program ends: at most three for each device that was opened.
fn pipeline(device: &MetalDevice, function: &'static str) -> Result<ComputePipeline> {
    static PIPELINES: OnceLock<Mutex<HashMap<(DeviceId, &str), ComputePipeline>>> = OnceLock::new();
    let pipelines = PIPELINES.get_or_init(Mutex::default);
    let mut pipelines = pipelines.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device.id(), function);
    if let Some(pipeline) = pipelines.get(&key) {
        return Ok(pipeline.clone());
    }
    let pipeline = compile(device.metal_device(), function)?;
    pipelines.insert(key, pipeline.clone());
    Ok(pipeline)
}

/// Compiles a kernel without fast math: divisions and roots are rounded correctly, and nothing is
/// reordered. That products and sums are not fused is said in the source.
fn compile(device: &RawDevice, function: &str) -> Result<ComputePipeline> {
    let options = MTLCompileOptions::new();
    if available!(macos = 15.0, ios = 18.0, tvos = 18.0, visionos = 2.0, ..) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[expect(deprecated, reason = "older systems have no other way")]
        options.setFastMathEnabled(false);
    }
    let library = device.new_library_with_source(SOURCE, Some(&options)).map_err(Error::wrap)?;
    let function = library.get_function(function, None).map_err(Error::wrap)?;
    device.new_compute_pipeline_state_with_function(&function).map_err(Error::wrap)
}

/// A tensor that the op holds itself.
fn operand<'a>((storage, layout): &'a (StorageRef<'_>, &Layout)) -> Result<Operand<'a>> {
    match &**storage {
        Storage::Metal(storage) => Ok((storage, layout)),
        _ => bail!("a tensor has left the device since it was checked"),
    }
}

/// Threads for a row of `columns`: a thread for each, in whole multiples of the SIMD width.
fn threads(columns: usize) -> usize {
    columns.min(MAX_THREADS).next_multiple_of(SIMD_WIDTH)
}

/// A line of `width` groups or threads.
fn size(width: usize) -> MTLSize {
    MTLSize { width, height: 1, depth: 1 }
}
