//! How the process gives memory back that it no longer needs.

/// From now on blocks from a mebibyte on go back to the system when they are no longer used.
///
/// glibc would do so only until the first of them is given back: from then on it keeps blocks up to 32 MiB
/// for later, for each thread apart, so that a few large requests at once leave a server with several times
/// the memory that it had in use. Elsewhere this does nothing.
#[expect(unsafe_code, reason = "a setting of the C library's allocator")]
pub(crate) fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const LARGE: libc::c_int = 1 << 20;
        // SAFETY: the function takes any values, from any thread, and refuses what it does not take by
        // its result, which leaves things as they were.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}
