//! Pooling on CUDA devices, by the driver alone: no toolkit is needed to build, no GPU to start.
//!
//! The driver's library is looked for when a device is asked for. The kernels ship as text that the
//! driver compiles ([`code`]); what they compute is explained in `gpu/pool_rows.cu`, and which of them
//! serves a table in [`shape`].
//!
//! # A batch
//!
//! Offsets and ids are written side by side into page-locked memory, copied to the device by one copy,
//! pooled and normalized by one launch, and the rows come back by one copy. All of it goes through one
//! stream, and the caller waits once, at the end. A table has one set of buffers: when several threads
//! call at the same time, their batches take turns, while tokenizing, which takes far longer, does not
//! wait.
//!
//! A kernel checks nothing. What it relies on is checked here, before every launch: boundaries of bags
//! that fit their ids, and ids that have rows.

mod buffers;
mod code;
mod driver;
#[doc(hidden)]
pub mod measure;
mod resident;
mod shape;

use std::fmt;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{DevicePtr, DriverError};

#[cfg(feature = "candle-cuda")]
pub(super) use code::PTX;
#[cfg(feature = "candle-cuda")]
pub(super) use shape::{Shape as KernelShape, THREADS};

#[doc(hidden)]
pub use code::{CodeError, SOURCE, compile};

use super::{
    CHUNK_TOKENS, CHUNK_VALUES, Counters, Counts, Device, DeviceError, DeviceTable, PoolRows, Task,
    failed,
};
use buffers::Way;
use code::Code;
use resident::{Resident, Work};

/// The devices with their names; none if there is no driver.
pub(super) fn devices() -> Vec<(Device, String)> {
    let name =
        |number| driver::name(number).unwrap_or_else(|_| "a device without a name".to_owned());
    (0..driver::count().unwrap_or(0)).map(|number| (Device::Cuda(number), name(number))).collect()
}

/// The table of one model on a CUDA device.
pub(super) struct CudaPool {
    name: String,
    device: Device,
    resident: Resident,
    desk: Mutex<Desk>,
    counters: Counters,
}

/// Buffers for the batch that is on its way.
struct Desk {
    /// Offsets, then ids.
    input: Way<u32>,
    output: Way<f32>,
}

impl CudaPool {
    /// Uploads a table to the device of a number.
    pub(super) fn upload(number: usize, table: &DeviceTable<'_>) -> Result<Self, DeviceError> {
        let device = Device::Cuda(number);
        let context = driver::context(number)?;
        let name = driver::name(number).map_err(failed(device, "tell its name"))?;
        let code = Code::load(&context).map_err(failed(device, "load the kernels"))?;
        let upload = || Resident::upload(&context.new_stream()?, &code, table);
        Ok(Self {
            name: format!("{name} ({device})"),
            device,
            resident: upload().map_err(failed(device, "upload the table"))?,
            desk: Mutex::new(Desk { input: Way::new(), output: Way::new() }),
            counters: Counters::default(),
        })
    }

    #[expect(unsafe_code, reason = "a kernel reads wherever it is told to")]
    fn work(&self, desk: &mut Desk, task: &mut Task<'_>) -> Result<(), DriverError> {
        let Self { resident, counters, .. } = self;
        let stream = resident.stream();
        let (offsets, ids) = (task.bags.offsets(), task.bags.ids());

        let words = offsets.len() + ids.len();
        // All memory first: nothing fails for want of it while a copy is on its way.
        let input = desk.input.at_least(stream, words)?;
        let output = desk.output.at_least(stream, task.out.len())?;
        let (for_offsets, rest) = input.host.get_mut().split_at_mut(offsets.len());
        for_offsets.copy_from_slice(offsets);
        rest[..ids.len()].copy_from_slice(ids);
        stream.memcpy_htod(&input.host.get()[..words], &mut input.device)?;

        let (start, _input) = input.device.device_ptr(stream);
        let (out, _output) = output.device.device_ptr(stream);
        let work = Work {
            offsets: start,
            ids: start + size_of_val(offsets) as u64,
            out,
            bags: task.bags.len(),
            columns: task.columns,
            normalize: task.normalize,
        };
        // SAFETY: the buffers are this desk's, on this device, and large enough for `words` numbers and
        // for the rows; `check` has seen that bags, ids and columns are sound; the shape is the one that
        // belongs to the table.
        unsafe { resident.launch(resident.shape(task.columns), &work) }?;
        counters.launched();

        let rows = &mut output.host.get_mut()[..task.out.len()];
        stream.memcpy_dtoh(&output.device.slice(..task.out.len()), rows)?;
        counters.read_back();
        stream.synchronize()?;
        task.out.copy_from_slice(rows);
        Ok(())
    }
}

impl PoolRows for CudaPool {
    fn pool(&self, mut task: Task<'_>) -> Result<(), DeviceError> {
        check(&task, self.resident.vocabulary(), self.resident.dim());
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.work(&mut desk, &mut task);
        if done.is_err() {
            // Whatever was begun before the error still uses the buffers.
            let _ = self.resident.stream().synchronize();
        }
        let done = done.map_err(failed(self.device, "pool a batch"));
        desk.input.shrink(CHUNK_TOKENS * 2);
        desk.output.shrink(CHUNK_VALUES);
        done
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        self.counters.counts()
    }
}

impl fmt::Debug for CudaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What kernels rely on.
///
/// # Panics
///
/// If a task is not what its type says.
fn check(task: &Task<'_>, vocabulary: usize, dim: usize) {
    let (offsets, ids) = (task.bags.offsets(), task.bags.ids());
    assert!((1..=dim).contains(&task.columns), "columns are within the table");
    assert_eq!(task.out.len(), task.bags.len() * task.columns, "a row for each bag");
    assert!(offsets.len() > 1, "there is a bag");
    assert!(offsets[0] == 0 && offsets.is_sorted(), "bags follow each other");
    assert_eq!(offsets.last().map(|&end| end as usize), Some(ids.len()), "ids are in bags");
    let largest = ids.iter().max();
    assert!(largest.is_none_or(|&id| (id as usize) < vocabulary), "ids have rows");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Bags;

    #[test]
    #[expect(clippy::print_stderr, reason = "what was found is told")]
    fn looking_for_devices_needs_no_driver() {
        let devices = devices();
        eprintln!("{} CUDA devices here: {devices:?}", devices.len());
        let error = driver::context(devices.len()).expect_err("one too many");
        assert!(matches!(error, DeviceError::Absent { .. }), "{error}");
    }

    /// Whether a task of one bag passes for a table of three rows and two columns.
    fn accepted(ids: &[u32], columns: usize, values: usize) -> bool {
        let mut bags = Bags::new();
        bags.open().extend_from_slice(ids);
        bags.close();
        let mut out = vec![0.0; values];
        let task =
            move || check(&Task { bags: &bags, columns, normalize: None, out: &mut out }, 3, 2);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)).is_ok()
    }

    #[test]
    fn what_a_kernel_could_not_survive_is_refused() {
        assert!(accepted(&[0, 2], 2, 2));
        assert!(accepted(&[], 1, 1));
        assert!(!accepted(&[0, 3], 2, 2));
        assert!(!accepted(&[0], 3, 3));
        assert!(!accepted(&[0], 0, 0));
        assert!(!accepted(&[0, 2], 2, 4));
    }
}
