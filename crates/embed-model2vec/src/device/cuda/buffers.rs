//! Memory for batches on their way, used again from batch to batch.
//!
//! Each direction has a buffer on the device and one in page-locked host memory, which the device reads
//! and writes by itself. They grow to the largest batch; what grew beyond the usual size of a piece is
//! given back after it.
#![expect(unsafe_code, reason = "page-locked memory comes from the driver as a pointer")]

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DeviceRepr, DriverError, result};

/// Values of the smallest buffer.
const LEAST: usize = 4096;

/// Host memory that stays where it is.
#[derive(Debug)]
pub(super) struct Pinned<T> {
    context: Arc<CudaContext>,
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it is the only owner of its memory, which any thread may use and free.
unsafe impl<T: Send> Send for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// Zeros.
    fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self, DriverError> {
        context.bind_to_thread()?;
        // SAFETY: a plain allocation, whose result is checked; flags 0 are the cached kind of memory.
        let start = unsafe { result::malloc_host(len * size_of::<T>(), 0) }?;
        let start = NonNull::new(start.cast::<T>()).expect("the driver reported success");
        // SAFETY: `start` is the beginning of so many bytes, which nobody else uses, aligned to a page.
        unsafe { start.write_bytes(0, len) };
        Ok(Self { context: context.clone(), start, len })
    }

    pub(super) fn get(&self) -> &[T] {
        // SAFETY: `new` allocated and initialized `len` values; they live as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(super) fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `get`, and `self` is borrowed alone. The device has finished with the memory:
        // whoever starts a copy waits for its end before the desk is free again.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // An error is kept for whoever uses the context next; it cannot be told to anyone here.
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: `new` allocated it and nothing refers to it any longer: whoever starts a copy waits for
        // its end, after an error as well.
        self.context.record_err(unsafe { result::free_host(self.start.as_ptr().cast()) });
    }
}

/// The two ends of one direction.
#[derive(Debug)]
pub(super) struct Pair<T> {
    pub(super) host: Pinned<T>,
    pub(super) device: CudaSlice<T>,
}

/// One direction, which may have no buffers yet.
#[derive(Debug)]
pub(super) struct Way<T>(Option<Pair<T>>);

impl<T: Pod + DeviceRepr> Way<T> {
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Buffers of at least `len` values.
    pub(super) fn at_least(
        &mut self,
        stream: &Arc<CudaStream>,
        len: usize,
    ) -> Result<&mut Pair<T>, DriverError> {
        if self.0.as_ref().is_none_or(|pair| pair.host.len < len) {
            self.0 = None;
            // A batch that is a little larger than the last one should not begin anew.
            let len = len.next_power_of_two().max(LEAST);
            let host = Pinned::new(stream.context(), len)?;
            // SAFETY: what is read of it has been written before, by a copy or by a kernel.
            let device = unsafe { stream.alloc(len) }?;
            self.0 = Some(Pair { host, device });
        }
        Ok(self.0.as_mut().expect("made above"))
    }

    /// Gives buffers back that have more than `usual` values.
    pub(super) fn shrink(&mut self, usual: usize) {
        if self.0.as_ref().is_some_and(|pair| pair.host.len > usual.next_power_of_two()) {
            self.0 = None;
        }
    }
}
