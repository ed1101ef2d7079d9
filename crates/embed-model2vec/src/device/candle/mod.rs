//! Pooling as a Candle op, for callers that hold Candle tensors and for Metal.
//!
//! [`pool_rows`] is the adapter: table, ids and offsets are tensors on one device, and so is the result.
//! Everything is checked before anything is launched, by the host: the kernels check nothing. This is
//! the one module with Candle's types in public signatures.
//!
//! Candle has no signed bytes: a table of I8 travels as U8, and the kernels read the bytes as I8.
//!
//! A model on Metal uses the same op through `CandlePool`, which keeps the table on the device.

mod cpu;
#[cfg(feature = "candle-cuda")]
mod cuda;
#[cfg(feature = "metal")]
mod metal;
#[cfg(any(test, feature = "metal"))]
mod pool;
#[cfg(test)]
mod tests;

#[cfg(feature = "candle-cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "metal")]
use candle_core::MetalStorage;
use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor, bail};
use embed_core::NormGuard;

#[cfg(feature = "metal")]
pub(crate) use metal::{devices as metal_devices, upload as upload_to_metal};

/// How rows are pooled, apart from the table and the bags.
///
/// The default is the plain mean of whole rows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PoolRowsOptions {
    /// One factor for each id, `[vocabulary]` F32: a row is multiplied before it is added.
    pub factors: Option<Tensor>,
    /// The row of each id, `[vocabulary]` U32; without it, ids are rows.
    pub mapping: Option<Tensor>,
    /// How many leading columns are wanted; all of them if absent.
    pub columns: Option<usize>,
    /// How rows are scaled to length 1, if they are.
    pub normalize: Option<NormGuard>,
}

impl PoolRowsOptions {
    /// The same with a factor for each id.
    #[must_use]
    pub fn with_factors(self, factors: Tensor) -> Self {
        Self { factors: Some(factors), ..self }
    }

    /// The same with a row for each id.
    #[must_use]
    pub fn with_mapping(self, mapping: Tensor) -> Self {
        Self { mapping: Some(mapping), ..self }
    }

    /// The same with so many leading columns.
    #[must_use]
    pub fn with_columns(self, columns: usize) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// The same with rows of length 1.
    #[must_use]
    pub fn with_normalize(self, guard: NormGuard) -> Self {
        Self { normalize: Some(guard), ..self }
    }
}

/// The mean row of each bag of ids: `[bags, columns]` F32 on the device of its arguments, which is the
/// CPU, Metal, or CUDA with the feature `candle-cuda`.
///
/// - `table`: `[rows, dim]`, F32, F16, or U8 whose bytes are I8;
/// - `ids`: `[tokens]` U32, one bag after the other;
/// - `offsets`: `[bags + 1]` U32; bag `i` is `ids[offsets[i]..offsets[i + 1]]`.
///
/// A bag without ids gives zeros. Sums are `f32`, in the order of the ids, without fused operations. On
/// the CPU rows are those of a model on the processor, bit for bit.
///
/// To check them, ids, offsets and the mapping are read by the host: nobody may change them meanwhile. On a
/// GPU that waits for the device: a model on a device, [`StaticModel::on`](crate::StaticModel::on), knows its
/// ids and does not wait.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use embed_model2vec::device::candle::{PoolRowsOptions, pool_rows};
///
/// let cpu = Device::Cpu;
/// let table = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &cpu)?;
/// let ids = Tensor::new(&[0u32, 1, 1], &cpu)?;
/// let offsets = Tensor::new(&[0u32, 2, 2, 3], &cpu)?;
/// let rows = pool_rows(&table, &ids, &offsets, &PoolRowsOptions::default())?;
/// assert_eq!(rows.to_vec2::<f32>()?, [[2.0, 3.0], [0.0, 0.0], [3.0, 4.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
///
/// Says what is wrong if a tensor has another shape or type, lies on another device or is not
/// contiguous; if there are no columns, or more than the table has; if offsets do not begin at 0, go
/// down, or do not end at the number of ids; if an id has no row or no factor, or an entry of the
/// mapping no row. Besides, whatever the device reports.
pub fn pool_rows(
    table: &Tensor,
    ids: &Tensor,
    offsets: &Tensor,
    options: &PoolRowsOptions,
) -> Result<Tensor> {
    if table.device().is_cuda() && cfg!(not(feature = "candle-cuda")) {
        bail!("Candle's CUDA backend: build with the feature candle-cuda, or use StaticModel::on");
    }
    let op = PoolRowsOp::new(table, options)?;
    check_vector("ids", ids, DType::U32, table)?;
    check_vector("offsets", offsets, DType::U32, table)?;
    if let Some(mapping) = &op.mapping {
        let rows = table.dim(0)?;
        if let Some(entry) = host(mapping)?.into_iter().find(|&row| row as usize >= rows) {
            bail!("the mapping leads to row {entry} of a table with {rows} rows");
        }
    }
    check_bags(&host(ids)?, &host(offsets)?, op.vocabulary)?;
    op.forward(table, ids, offsets)
}

/// The op for one table.
#[derive(Clone, Debug)]
struct PoolRowsOp {
    factors: Option<Tensor>,
    mapping: Option<Tensor>,
    columns: usize,
    normalize: Option<NormGuard>,
    /// Ids below it have a row, and a factor where there are factors.
    vocabulary: usize,
}

impl PoolRowsOp {
    /// Checks the table and the options, but not what the mapping holds.
    fn new(table: &Tensor, options: &PoolRowsOptions) -> Result<Self> {
        let PoolRowsOptions { factors, mapping, columns, normalize } = options.clone();
        let (rows, dim) = table.dims2()?;
        if rows == 0 || dim == 0 {
            bail!("the table has shape [{rows}, {dim}], neither may be 0");
        }
        if !matches!(table.dtype(), DType::F32 | DType::F16 | DType::U8) {
            bail!("the table is {:?}, expected F32, F16, or U8 for bytes of I8", table.dtype());
        }
        if !table.is_contiguous() {
            bail!("the table is not contiguous");
        }
        let columns = columns.unwrap_or(dim);
        if columns == 0 || columns > dim {
            bail!("{columns} columns of a table with {dim}");
        }
        let mut vocabulary = rows;
        if let Some(mapping) = &mapping {
            check_vector("the mapping", mapping, DType::U32, table)?;
            vocabulary = mapping.elem_count();
        }
        if let Some(factors) = &factors {
            check_vector("the factors", factors, DType::F32, table)?;
            let count = factors.elem_count();
            if mapping.is_some() && count != vocabulary {
                bail!("{count} factors and {vocabulary} entries of the mapping");
            }
            vocabulary = vocabulary.min(count);
        }
        Ok(Self { factors, mapping, columns, normalize, vocabulary })
    }

    /// Pools bags that were checked.
    fn forward(&self, table: &Tensor, ids: &Tensor, offsets: &Tensor) -> Result<Tensor> {
        let bags = offsets.elem_count() - 1;
        // Devices refuse buffers and grids of size 0.
        if bags == 0 || ids.elem_count() == 0 {
            return Tensor::zeros((bags, self.columns), DType::F32, table.device());
        }
        table.apply_op3_no_bwd(ids, offsets, self)
    }
}

impl CustomOp3 for PoolRowsOp {
    fn name(&self) -> &'static str {
        "pool_rows"
    }

    fn cpu_fwd(
        &self,
        table: &CpuStorage,
        table_layout: &Layout,
        ids: &CpuStorage,
        ids_layout: &Layout,
        offsets: &CpuStorage,
        offsets_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        cpu::forward(self, (table, table_layout), (ids, ids_layout), (offsets, offsets_layout))
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(
        &self,
        table: &CudaStorage,
        table_layout: &Layout,
        ids: &CudaStorage,
        ids_layout: &Layout,
        offsets: &CudaStorage,
        offsets_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        cuda::forward(self, (table, table_layout), (ids, ids_layout), (offsets, offsets_layout))
    }

    #[cfg(feature = "metal")]
    fn metal_fwd(
        &self,
        table: &MetalStorage,
        table_layout: &Layout,
        ids: &MetalStorage,
        ids_layout: &Layout,
        offsets: &MetalStorage,
        offsets_layout: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        metal::forward(self, (table, table_layout), (ids, ids_layout), (offsets, offsets_layout))
    }
}

/// A vector that the op can use beside `table`.
fn check_vector(name: &str, vector: &Tensor, dtype: DType, table: &Tensor) -> Result<()> {
    if vector.rank() != 1 || vector.dtype() != dtype {
        let (shape, found) = (vector.shape(), vector.dtype());
        bail!("{name}: expected a vector of {dtype:?}, found {shape:?} of {found:?}");
    }
    if !vector.is_contiguous() {
        bail!("{name}: not contiguous");
    }
    if !vector.device().same_device(table.device()) {
        bail!("{name}: not on the device of the table");
    }
    Ok(())
}

/// Bags that kernels may be given without further checks.
fn check_bags(ids: &[u32], offsets: &[u32], vocabulary: usize) -> Result<()> {
    let (Some(0), Some(&end)) = (offsets.first(), offsets.last()) else {
        bail!("the first offset is not 0");
    };
    if let Some(bag) = offsets.windows(2).position(|bounds| bounds[0] > bounds[1]) {
        bail!("the offsets go down after bag {bag}");
    }
    if end as usize != ids.len() {
        bail!("the last offset is {end}, there are {} ids", ids.len());
    }
    match ids.iter().max() {
        Some(&id) if id as usize >= vocabulary => {
            bail!("id {id} is beyond a vocabulary of {vocabulary}")
        }
        _ => Ok(()),
    }
}

/// A copy of a vector in the host's memory.
fn host(vector: &Tensor) -> Result<Vec<u32>> {
    // An empty vector need not have a buffer that could be fetched.
    if vector.elem_count() == 0 { Ok(Vec::new()) } else { vector.to_vec1() }
}
