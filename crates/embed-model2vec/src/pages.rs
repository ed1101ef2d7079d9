//! Memory that begins where a page begins, in large pages where the system has them.
//!
//! Rows of a table lie wherever the header of their file ends. In pages of their own they begin where
//! lines of the processor's cache begin, so that reading a row touches no line that belongs to others,
//! and a page of 2 MiB (Linux, on request) needs one entry in the processor's list of pages, not 512.

use std::fmt;
use std::io;
#[cfg(target_os = "linux")]
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Bytes in pages of their own, zero at first.
pub(crate) struct Pages(MmapMut);

impl Pages {
    /// Pages that will be filled from one end to the other: large ones if possible.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let pages = MmapMut::map_anon(len)?;
        #[cfg(target_os = "linux")]
        // A request: refused where the system was built without large pages.
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Self(pages))
    }
}

/// A list with room for `capacity` values, in large pages where the system has them and that is worth it.
///
/// Getting a page takes about as long as filling it, and half a million entries are thousands of pages of
/// the usual size. What is not filled is never got.
pub(crate) fn list_with_capacity<T>(capacity: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(capacity);
    advise_spare(&mut list);
    list
}

/// [`Vec::reserve`], in large pages as [`list_with_capacity`].
pub(crate) fn reserve<T>(list: &mut Vec<T>, additional: usize) {
    list.reserve(additional);
    advise_spare(list);
}

/// Asks for large pages for what a list has reserved and not filled.
fn advise_spare<T>(list: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        const LARGE_PAGE: usize = 2 << 20;
        let spare: &mut [MaybeUninit<T>] = list.spare_capacity_mut();
        let start = spare.as_mut_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE);
        let len = size_of_val(spare).saturating_sub(skipped) / PAGE * PAGE;
        if len >= LARGE_PAGE {
            #[expect(unsafe_code, reason = "a hint to the system about a range of memory")]
            // SAFETY: the range lies in memory that the list owns. The hint changes neither its contents
            // nor what may be done with it, nor those of its neighbors where the system's pages are
            // larger than ours; a refusal is no harm.
            let _ = unsafe { libc::madvise(start.add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = list;
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of pages", self.0.len())
    }
}
