//! Memory that begins where a page begins, in large pages where the system has them.
//!
//! Rows of a table lie wherever the header of their file ends. In pages of their own they begin where
//! lines of the processor's cache begin, so that reading a row touches no line that belongs to others,
//! and a page of 2 MiB (Linux, on request) needs one entry in the processor's list of pages, not 512.

use std::fmt;
use std::io;
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
