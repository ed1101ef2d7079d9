//! Asking for memory before it is needed.
//!
//! A table that is larger than the caches answers late. Where the places that will be looked at are
//! known some steps ahead, asking for all of them at once makes the waiting times overlap, further
//! than a processor looks ahead by itself. A hint reads nothing and changes no result; where there is no
//! such instruction it does nothing.

/// Bytes that come from memory together.
pub(crate) const CACHE_LINE: usize = 64;

/// Asks for the cache line of a value.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the hint takes a pointer")]
        // SAFETY: SSE is a part of x86-64, and the hint may be given for any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Asks for bytes to be brought near: into the second-level cache, which has room for the rows of a
/// whole text.
#[inline]
pub(crate) fn prefetch_all(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for byte in bytes.iter().step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        #[expect(unsafe_code, reason = "the hint takes a pointer")]
        // SAFETY: as above.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
