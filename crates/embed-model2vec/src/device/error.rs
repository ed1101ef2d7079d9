//! What can go wrong with a device.

use std::error::Error as StdError;

use super::Device;

/// A device that cannot be used, or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This program was built without support for the device.
    #[error("this program was built without {device}: {}", hint(*.device))]
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
    /// A batch that no device takes in one piece.
    #[error("input {input} brings a piece to {found} tokens, a device takes {limit}")]
    TooManyTokens {
        /// Index of the input in the call.
        input: usize,
        /// Tokens of the piece.
        found: usize,
        /// The most that kernels count to.
        limit: usize,
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

/// Makes an error of a driver or of a library one of the device.
#[cfg(any(test, feature = "metal", feature = "cuda"))]
pub(crate) fn failed<E: StdError + Send + Sync + 'static>(
    device: Device,
    what: &'static str,
) -> impl FnOnce(E) -> DeviceError {
    move |source| DeviceError::Failed { device, what, source: Box::new(source) }
}

/// How to get a program that has the device.
fn hint(device: Device) -> &'static str {
    match device {
        Device::Metal if cfg!(target_os = "macos") => "build it with `--features metal`",
        Device::Metal => "Metal exists on Apple's systems only",
        _ if cfg!(target_os = "macos") => "there is no CUDA on macOS",
        _ => "build it with `--features cuda`",
    }
}
