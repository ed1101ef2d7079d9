//! The driver: whether there is one, what devices it knows, and its errors in our words.

use std::sync::Arc;

#[cfg(not(feature = "candle-cuda"))]
use cudarc::driver::sys;
use cudarc::driver::{CudaContext, DriverError, result};

use crate::device::{Device, DeviceError, failed};

/// How many devices there are, or why there are none.
///
/// Looks for the driver's library first: asking a library that is not there would end in a panic.
pub(super) fn count() -> Result<usize, String> {
    if !is_present() {
        return Err("the driver's library (libcuda) was not found".to_owned());
    }
    match CudaContext::device_count() {
        Ok(count) if count > 0 => Ok(usize::try_from(count).unwrap_or(0)),
        Ok(_) => Err("the driver knows no device".to_owned()),
        Err(error) => Err(format!("the driver cannot start: {error}")),
    }
}

/// Whether the driver's library is there.
#[cfg(not(feature = "candle-cuda"))]
#[expect(unsafe_code, reason = "the library that is looked for runs code when it is loaded")]
fn is_present() -> bool {
    // SAFETY: loading runs nothing but the initialization of the vendor's library.
    unsafe { sys::is_culib_present() }
}

/// Candle's backend links the library: without it, the program has not started.
#[cfg(feature = "candle-cuda")]
fn is_present() -> bool {
    true
}

/// The name of a device that is below [`count`], without starting to work on it.
pub(super) fn name(number: usize) -> Result<String, DriverError> {
    let ordinal = i32::try_from(number).expect("the driver counts devices by an i32");
    result::device::get_name(result::device::get(ordinal)?)
}

/// Starts to work on a device.
pub(super) fn context(number: usize) -> Result<Arc<CudaContext>, DeviceError> {
    let device = Device::Cuda(number);
    let absent = |reason| DeviceError::Absent { device, reason };
    let count = count().map_err(absent)?;
    if number >= count {
        return Err(absent(format!("there are {count}, counted from cuda:0")));
    }
    let context = CudaContext::new(number).map_err(failed(device, "start"))?;
    without_events(&context);
    Ok(context)
}

#[expect(unsafe_code, reason = "who turns the tracking off has to keep the order of operations")]
fn without_events(context: &CudaContext) {
    // SAFETY: everything that is done with a buffer goes through the one stream of its table, which
    // keeps the order; buffers are not shared between tables.
    unsafe { context.disable_event_tracking() };
}
