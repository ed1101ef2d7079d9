//! A table on a device, and the one way to launch a kernel on it.
#![expect(unsafe_code, reason = "the compiler knows nothing of what a kernel reads and writes")]

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg, sys,
};
use embed_core::NormGuard;

use super::code::{Code, Kernels};
use super::shape::Shape;
use crate::device::{DeviceTable, Kind, normalize_code};

/// A table with what belongs to its rows, as it was uploaded.
#[derive(Debug)]
pub(super) struct Resident {
    stream: Arc<CudaStream>,
    kernels: Kernels,
    table: CudaSlice<u8>,
    factors: Option<CudaSlice<f32>>,
    mapping: Option<CudaSlice<u32>>,
    kind: Kind,
    dim: usize,
    /// Ids below it have a row, and a factor where there are factors.
    vocabulary: usize,
    /// Threads of a block, as the kernels were compiled.
    threads: u32,
}

/// What a launch reads and writes on the device.
pub(super) struct Work {
    /// Address of the ids of all bags.
    pub(super) ids: sys::CUdeviceptr,
    /// Address of the bags' boundaries, one more than there are bags.
    pub(super) offsets: sys::CUdeviceptr,
    /// Address of the rows.
    pub(super) out: sys::CUdeviceptr,
    pub(super) bags: usize,
    pub(super) columns: usize,
    pub(super) normalize: Option<NormGuard>,
}

impl Resident {
    /// Uploads a table.
    ///
    /// # Panics
    ///
    /// If the table has not as many bytes as it should, or the mapping leads outside of it.
    pub(super) fn upload(
        stream: &Arc<CudaStream>,
        code: &Code,
        table: &DeviceTable<'_>,
    ) -> Result<Self, DriverError> {
        let DeviceTable { bytes, kind, rows, dim, factors, mapping } = *table;
        assert_eq!(bytes.len(), rows * dim * kind.size(), "a table is made of rows");
        let mut vocabulary = rows;
        if let Some(mapping) = mapping {
            assert!(mapping.iter().all(|&row| (row as usize) < rows), "ids lead to rows");
            vocabulary = mapping.len();
        }
        if let Some(factors) = factors {
            vocabulary = vocabulary.min(factors.len());
        }
        let upload = || {
            Ok(Self {
                kernels: code.kernels(kind)?,
                table: stream.clone_htod(bytes)?,
                factors: factors.map(|factors| stream.clone_htod(factors)).transpose()?,
                mapping: mapping.map(|mapping| stream.clone_htod(mapping)).transpose()?,
                stream: stream.clone(),
                kind,
                dim,
                vocabulary,
                threads: code.threads(),
            })
        };
        let uploaded = upload();
        // The copies read memory of the caller, those before an error too.
        let done = stream.synchronize();
        uploaded.and_then(|resident| done.map(|()| resident))
    }

    /// The number of ids that have a row.
    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The shape that serves rows cut to `columns`.
    pub(super) fn shape(&self, columns: usize) -> Shape {
        Shape::of(self.kind, self.dim, columns)
    }

    /// Puts a launch into the stream.
    ///
    /// # Safety
    ///
    /// - The addresses of `work` are those of buffers on this device which are used through this stream
    ///   alone, and which hold `bags + 1` offsets, as many ids as the last of them says, and
    ///   `bags * columns` values.
    /// - The offsets do not decrease, and every id is below the vocabulary.
    /// - `columns` is at least 1 and at most the table's.
    /// - `shape` reads vectors only if rows are made of vectors.
    pub(super) unsafe fn launch(&self, shape: Shape, work: &Work) -> Result<(), DriverError> {
        let narrow = |number: usize| u32::try_from(number).expect("fewer than 2^32");
        let Work { ids, offsets, out, bags, columns, normalize } = *work;
        let [x, y] = shape.grid(self.kind, self.threads, bags, columns, normalize.is_some());
        let (table, _table) = self.table.device_ptr(&self.stream);
        // No address says that there is nothing.
        let factors = self.factors.as_ref().map(|factors| factors.device_ptr(&self.stream));
        let factors = factors.as_ref().map_or(0, |(address, _)| *address);
        let mapping = self.mapping.as_ref().map(|mapping| mapping.device_ptr(&self.stream));
        let mapping = mapping.as_ref().map_or(0, |(address, _)| *address);
        let row_bytes = narrow(self.dim * self.kind.size());
        let (bags, columns) = (narrow(bags), narrow(columns));
        let normalize = normalize_code(normalize);
        let mut launch = self.stream.launch_builder(self.kernels.get(shape));
        launch.arg(&table).arg(&factors).arg(&mapping).arg(&ids).arg(&offsets).arg(&out);
        launch.arg(&bags).arg(&row_bytes).arg(&columns).arg(&normalize);
        let config = LaunchConfig {
            grid_dim: (x, y, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernels, in order and in size. A kernel reads the
        // offsets of its bags, the ids between them, the factors, mapping and rows of these ids, and
        // writes the rows of its bags: all of it exists, as the caller ensures for what is in `work`
        // and `upload` has checked for the rest.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}
