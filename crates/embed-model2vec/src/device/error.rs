//! What can go wrong with a device.

use std::error::Error as StdError;

use super::Device;

/// A device that cannot be used, or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This program was built without support for the device.
    #[error("this program was built without {device}: build it with `--features {}`", feature(*.device))]
    NotBuilt {
        /// The device.
        device: Device,
    },
    /// The device is not there, or cannot be used.
    #[error("no device {device} here: {reason}")]
    Absent {
        /// The device.
        device: Device,
        /// What was looked for and not found.
        reason: String,
    },
    /// The device has no kernel for a model's table or weights.
    #[error(
        "{found} on {device}: expected {expected}; the processor serves every model (--device cpu)"
    )]
    Unsupported {
        /// The device.
        device: Device,
        /// What it has kernels for.
        expected: &'static str,
        /// What the model has.
        found: String,
    },
    /// The device failed.
    #[error("{device} failed to {what}")]
    Failed {
        /// The device.
        device: Device,
        /// What was attempted, as a verb: "upload the table".
        what: &'static str,
        /// The driver's or library's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// The cargo feature that brings a device.
fn feature(device: Device) -> &'static str {
    match device {
        Device::Metal => "metal",
        Device::Cpu | Device::Auto | Device::Cuda(_) => "cuda",
    }
}
