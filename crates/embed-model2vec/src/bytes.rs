//! The bytes of one file: mapped, linked into the program, or owned.
//!
//! A mapped file must not be cut short while it is in use: reading behind its new end would end the
//! process (`SIGBUS`). That is the price of loading in milliseconds and of sharing the pages between
//! processes; writing a new version by renaming over the old one is always safe.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

/// Read-only bytes, wherever they live.
pub(crate) enum Bytes {
    /// A file, and the way to read parts of it without touching the map.
    Mapped(Mmap, File),
    /// Linked into the program.
    #[cfg(feature = "default-model")]
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a file into memory. The file must not be empty: an empty range cannot be mapped.
    pub(crate) fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        #[expect(
            unsafe_code,
            reason = "mapping a file is unsafe by nature; see the SAFETY comment"
        )]
        // SAFETY: the mapping is read-only and private to this value. That nobody shortens or
        // rewrites the file meanwhile cannot be enforced; it is the documented condition of loading
        // a model from disk (module docs above and `Bundle::open`).
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self::Mapped(map, file))
    }

    /// Copies the bytes from `start` on, as many as `into` takes.
    ///
    /// A mapped file is read, not copied from the map: pages that are only passed through would count
    /// as memory of the process as long as it lives.
    pub(crate) fn copy_from(&self, start: usize, into: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        if let Self::Mapped(_, file) = self {
            use std::os::unix::fs::FileExt as _;
            return file.read_exact_at(into, start as u64);
        }
        into.copy_from_slice(&self[start..start + into.len()]);
        Ok(())
    }

    /// Gives back the memory of a mapped file that is not needed for now: it counts as this process'
    /// own as long as it is mapped in. The bytes stay readable.
    pub(crate) fn release(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map, _) = self {
            #[expect(unsafe_code, reason = "see the SAFETY comment")]
            // SAFETY: pages of a mapped file that are dropped are read from the file again, and `map`
            // is never written to: as long as nobody rewrites the file, the condition of mapping it,
            // the bytes stay the same. An error means that nothing was dropped.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map,
            #[cfg(feature = "default-model")]
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Mapped(..) => "mapped",
            #[cfg(feature = "default-model")]
            Self::Static(_) => "static",
            Self::Owned(_) => "owned",
        };
        write!(f, "{} {kind} bytes", self.len())
    }
}
