//! For the project's own measurements: kernels alone, timed by the device.
#![expect(unsafe_code, reason = "a kernel reads wherever it is told to")]

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DriverError, result, sys,
};
use embed_core::NormGuard;
use half::f16;

use super::code::Code;
use super::driver;
use super::resident::{Resident, Work};
use super::shape::Shape;
use crate::device::random::Random;
use crate::device::{Device, DeviceError, DeviceTable, Kind, failed};

/// A device, to measure on.
#[derive(Debug)]
pub struct Gpu {
    device: Device,
    name: String,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

/// What a table is made of.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// "f32", "f16" or "i8".
    pub kind: &'static str,
    /// Number of rows.
    pub rows: usize,
    /// Width of a row.
    pub dim: usize,
    /// Whether each id has a factor.
    pub factors: bool,
}

/// A table of random contents on a device.
#[derive(Debug)]
pub struct GpuTable {
    device: Device,
    context: Arc<CudaContext>,
    resident: Resident,
}

/// Bags of random ids on a device, with a place for their rows.
#[derive(Debug)]
pub struct GpuBags {
    ids: CudaSlice<u32>,
    offsets: CudaSlice<u32>,
    out: CudaSlice<f32>,
    bags: usize,
    /// What the table has that they were made for.
    context: Arc<CudaContext>,
    vocabulary: usize,
    dim: usize,
}

impl Gpu {
    /// Starts to work on a device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Absent`]: there is no such device.
    pub fn open(number: usize) -> Result<Self, DeviceError> {
        let device = Device::Cuda(number);
        let context = driver::context(number)?;
        let name = driver::name(number).map_err(failed(device, "tell its name"))?;
        let stream = context.new_stream().map_err(failed(device, "start a stream"))?;
        Ok(Self { device, name, context, stream })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CUDA version that the driver speaks, as 12.4.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    pub fn driver(&self) -> Result<String, DeviceError> {
        let mut version = 0;
        // SAFETY: the driver writes one number.
        let done = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
        done.map_err(failed(self.device, "tell the version of its driver"))?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Bytes of the device's memory that nobody uses, once all work is done.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        let free = || {
            self.context.synchronize()?;
            Ok(result::mem_get_info()?.0)
        };
        free().map_err(failed::<DriverError>(self.device, "tell its free memory"))
    }

    /// Seconds that copies of `bytes` bytes took, from the device to itself.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    pub fn copies(&self, bytes: usize, times: usize) -> Result<Vec<f64>, DeviceError> {
        let copies = || {
            let from = self.stream.alloc_zeros::<u8>(bytes)?;
            let mut to = self.stream.alloc_zeros::<u8>(bytes)?;
            timed(&self.context, &self.stream, times, || self.stream.memcpy_dtod(&from, &mut to))
        };
        copies().map_err(failed(self.device, "copy"))
    }

    /// Uploads a table of random numbers; `defines` choose a variant of the kernels, which is compiled
    /// on the spot, and none of them the one that ships.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    ///
    /// # Panics
    ///
    /// If the type has no kernel.
    pub fn table(&self, spec: TableSpec, defines: &[String]) -> Result<GpuTable, DeviceError> {
        let device = self.device;
        let code = if defines.is_empty() {
            Code::load(&self.context).map_err(failed(device, "load the kernels"))?
        } else {
            let what = "compile a variant of the kernels";
            Code::variant(&self.context, defines).map_err(|source| DeviceError::Failed {
                device,
                what,
                source,
            })?
        };
        let mut random = Random::new(1);
        let TableSpec { kind, rows, dim, factors } = spec;
        let count = rows * dim;
        let (kind, bytes): (Kind, Vec<u8>) = match kind {
            "f32" => (Kind::F32, (0..count).flat_map(|_| random.unit().to_le_bytes()).collect()),
            "f16" => {
                let half = |random: &mut Random| f16::from_f32(random.unit()).to_le_bytes();
                (Kind::F16, (0..count).flat_map(|_| half(&mut random)).collect())
            }
            "i8" => (Kind::I8, (0..count).map(|_| random.next().to_le_bytes()[0]).collect()),
            _ => panic!("no kernel for {kind}"),
        };
        let factors: Option<Vec<f32>> =
            factors.then(|| (0..rows).map(|_| random.unit() + 1.0).collect());
        let table = DeviceTable {
            bytes: &bytes,
            kind,
            rows,
            dim,
            factors: factors.as_deref(),
            mapping: None,
        };
        let resident = Resident::upload(&self.stream, &code, &table);
        let resident = resident.map_err(failed(device, "upload the table"))?;
        Ok(GpuTable { device, context: self.context.clone(), resident })
    }
}

impl GpuTable {
    /// Bags of so many random ids each.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    ///
    /// # Panics
    ///
    /// If there are 2^32 tokens or more.
    pub fn bags(&self, bags: usize, tokens: usize) -> Result<GpuBags, DeviceError> {
        let mut random = Random::new(2);
        let vocabulary = self.resident.vocabulary();
        let ids: Vec<u32> = (0..bags * tokens).map(|_| random.id(vocabulary)).collect();
        let offset = |bag: usize| u32::try_from(bag * tokens).expect("fewer than 2^32 tokens");
        let offsets: Vec<u32> = (0..=bags).map(offset).collect();
        let upload = || {
            let stream = self.resident.stream();
            let uploaded = GpuBags {
                ids: stream.clone_htod(&ids)?,
                offsets: stream.clone_htod(&offsets)?,
                out: stream.alloc_zeros(bags * self.resident.dim())?,
                bags,
                context: self.context.clone(),
                vocabulary,
                dim: self.resident.dim(),
            };
            stream.synchronize()?;
            Ok(uploaded)
        };
        upload().map_err(failed::<DriverError>(self.device, "upload bags"))
    }

    /// The kernels that can pool this table, the one that is chosen first.
    pub fn shapes(&self) -> Vec<String> {
        let (kind, dim) = (self.resident.kind(), self.resident.dim());
        let chosen = self.resident.shape(dim);
        let others = Shape::ALL.into_iter().filter(|shape| {
            *shape != chosen && (*shape == Shape::One || Shape::fits_vectors(kind, dim, dim))
        });
        [chosen].into_iter().chain(others).map(|shape| shape.kernel(kind)).collect()
    }

    /// Seconds that `times` launches of a kernel took, by the device's own clock.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Failed`]
    ///
    /// # Panics
    ///
    /// If the kernel is not one of [`shapes`](Self::shapes), or the bags were made for another table.
    pub fn launches(
        &self,
        bags: &GpuBags,
        kernel: &str,
        normalize: bool,
        times: usize,
    ) -> Result<Vec<f64>, DeviceError> {
        assert!(
            self.shapes().iter().any(|shape| shape == kernel),
            "{kernel} cannot pool this table"
        );
        let same_device = Arc::ptr_eq(&bags.context, &self.context);
        let same_width = bags.dim == self.resident.dim();
        let have_rows = bags.vocabulary <= self.resident.vocabulary();
        assert!(same_device && same_width && have_rows, "the bags are of another table");
        let kind = self.resident.kind();
        let shape = Shape::ALL.into_iter().find(|shape| shape.kernel(kind) == kernel);
        let shape = shape.expect("it is one of the shapes");
        let stream = self.resident.stream();
        let (ids, _ids) = bags.ids.device_ptr(stream);
        let (offsets, _offsets) = bags.offsets.device_ptr(stream);
        let (out, _out) = bags.out.device_ptr(stream);
        let work = Work {
            ids,
            offsets,
            out,
            bags: bags.bags,
            columns: self.resident.dim(),
            normalize: normalize.then_some(NormGuard::AddTiny),
        };
        // SAFETY: the buffers are on this device, for rows of this width and ids below this vocabulary,
        // as was asserted; `shapes` gave the shape.
        timed(&self.context, stream, times, || unsafe { self.resident.launch(shape, &work) })
            .map_err(failed(self.device, "pool"))
    }
}

/// Seconds that each of `times` runs of `work` took on the device, after three that do not count.
fn timed(
    context: &Arc<CudaContext>,
    stream: &Arc<CudaStream>,
    times: usize,
    mut work: impl FnMut() -> Result<(), DriverError>,
) -> Result<Vec<f64>, DriverError> {
    const WARM_UP: usize = 3;
    for _ in 0..WARM_UP {
        work()?;
    }
    stream.synchronize()?;
    let event = || context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
    let events: Vec<(CudaEvent, CudaEvent)> =
        (0..times).map(|_| Ok((event()?, event()?))).collect::<Result<_, DriverError>>()?;
    for (start, end) in &events {
        start.record(stream)?;
        work()?;
        end.record(stream)?;
    }
    stream.synchronize()?;
    events.iter().map(|(start, end)| Ok(f64::from(start.elapsed_ms(end)?) / 1e3)).collect()
}
