//! Where a model does its arithmetic: on the processor, or on a GPU that holds its table.
//!
//! A model is moved to a device once, with [`StaticModel::on`](crate::StaticModel::on): its table is
//! uploaded and stays there. Texts are tokenized here; what goes to the device is a batch of bags of
//! ids, and what comes back is one row for each, by one launch and one read-back.
//!
//! ```text
//! texts --tokenizer--> bags (ids, offsets) --launch--> pooled rows --read-back--> rows
//! ```
//!
//! The op is ragged: nothing is padded, so that a long text costs its own tokens. Every device adds up
//! a row in token order, without fused operations and without fast math, so that rows agree with those
//! of the processor to rounding: within 3e-6 when normalized.
//!
//! Memory on the device: the table, and for the batch on its way [`CHUNK_TOKENS`] ids, as many offsets
//! and [`CHUNK_VALUES`] values of rows, rounded up to powers of two. A larger batch goes in several
//! pieces, each of them one launch and one read-back.

#![cfg_attr(
    not(any(feature = "metal", feature = "cuda")),
    allow(
        dead_code,
        unused_imports,
        reason = "without a GPU built in, nobody looks at what one would get"
    )
)]

mod batch;
#[cfg(feature = "candle")]
pub mod candle;
#[doc(hidden)]
pub mod check;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod cuda;
mod error;
#[cfg(test)]
mod metal_kernel;
mod random;
mod table;
#[cfg(test)]
mod test_cases;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

pub use batch::{CHUNK_TOKENS, CHUNK_VALUES};
pub(crate) use batch::{Piece, embed_into};
pub use error::DeviceError;
#[cfg(any(test, feature = "metal", feature = "cuda"))]
pub(crate) use error::failed;
pub(crate) use table::{DeviceTable, Kind};

use embed_core::NormGuard;

use crate::kernels::Bags;

/// A device to compute on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The processor: the fastest choice for all but large batches, and exact to the last bit.
    #[default]
    Cpu,
    /// The first GPU that this program can use, and the processor where there is none.
    Auto,
    /// The first Metal device of a Mac.
    Metal,
    /// A CUDA device by its number.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Auto => f.write_str("auto"),
            Self::Metal => f.write_str("metal"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected cpu, auto, metal, cuda or cuda:N with a number N, found {found:?}")]
pub struct DeviceNameError {
    /// The text.
    pub found: String,
}

impl FromStr for Device {
    type Err = DeviceNameError;

    fn from_str(name: &str) -> Result<Self, DeviceNameError> {
        let unknown = || DeviceNameError { found: name.to_owned() };
        match name {
            "cpu" => Ok(Self::Cpu),
            "auto" => Ok(Self::Auto),
            "metal" => Ok(Self::Metal),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                // `parse` alone would take "+1".
                let plain = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| plain).map(Self::Cuda).ok_or_else(unknown)
            }
        }
    }
}

/// The table of one model on one device.
pub(crate) trait PoolRows: fmt::Debug + Send + Sync {
    /// Pools some bags: one launch and one read-back.
    fn pool(&self, task: Task<'_>) -> Result<(), DeviceError>;

    /// The device, in words: "NVIDIA H200 (cuda:0)".
    fn name(&self) -> &str;

    /// What was done since the table was uploaded.
    fn counts(&self) -> Counts;
}

/// One launch.
pub(crate) struct Task<'a> {
    /// At least one bag; every id is below the vocabulary of the table.
    pub(crate) bags: &'a Bags,
    /// Width of a row: at least 1 and at most that of the table.
    pub(crate) columns: usize,
    /// How rows are scaled to length 1, if they are.
    pub(crate) normalize: Option<NormGuard>,
    /// `[bags, columns]`.
    pub(crate) out: &'a mut [f32],
}

/// What kernels call a way of normalizing.
pub(crate) fn normalize_code(normalize: Option<NormGuard>) -> u32 {
    match normalize {
        None => 0,
        Some(NormGuard::AddTiny) => 1,
        Some(NormGuard::ClampTiny) => 2,
    }
}

/// [`Counts`] that any thread may raise.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    launches: AtomicU64,
    read_backs: AtomicU64,
}

impl Counters {
    pub(crate) fn launched(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read_back(&self) {
        self.read_backs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            launches: self.launches.load(Ordering::Relaxed),
            read_backs: self.read_backs.load(Ordering::Relaxed),
        }
    }
}

/// How often a device was asked to do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Kernels that were launched.
    pub launches: u64,
    /// Copies of rows back to the host.
    pub read_backs: u64,
}

/// Uploads a table to a GPU.
pub(crate) fn upload(
    device: Device,
    table: &DeviceTable<'_>,
) -> Result<Box<dyn PoolRows>, DeviceError> {
    match device {
        #[cfg(feature = "metal")]
        Device::Metal => candle::upload_to_metal(table),
        #[cfg(feature = "cuda")]
        Device::Cuda(number) => Ok(Box::new(cuda::CudaPool::upload(number, table)?)),
        device => {
            let _ = table;
            Err(DeviceError::NotBuilt { device })
        }
    }
}

/// The devices that this program can use on this machine; the processor comes last.
///
/// Never fails: a GPU without its driver is a GPU that is not there.
pub fn available() -> Vec<Device> {
    describe().into_iter().map(|(device, _)| device).collect()
}

/// The same devices with their names: "NVIDIA H200".
pub fn describe() -> Vec<(Device, String)> {
    let processor = (Device::Cpu, "the processor".to_owned());
    [
        #[cfg(feature = "metal")]
        candle::metal_devices(),
        #[cfg(feature = "cuda")]
        cuda::devices(),
        vec![processor],
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "says what was not tested")]
    fn every_device_gives_the_rows_of_the_definition() {
        let mut gpus = available();
        assert_eq!(gpus.pop(), Some(Device::Cpu));
        if gpus.is_empty() {
            eprintln!("SKIPPED: this program has no GPU on this machine");
        }
        for gpu in gpus {
            for case in test_cases::cases() {
                let pool = upload(gpu, &case.table()).expect("it is available");
                case.check_on(&*pool);
            }
        }
    }

    #[test]
    fn devices_are_read_as_they_are_written() {
        for device in [Device::Cpu, Device::Auto, Device::Metal, Device::Cuda(0), Device::Cuda(12)]
        {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        for name in
            ["", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda:99999999999999999999"]
        {
            let error = name.parse::<Device>().expect_err("no device");
            assert_eq!(error, DeviceNameError { found: name.to_owned() });
        }
    }
}
