//! The lock of this crate: the standard one, or the one whose interleavings shuttle explores.
//!
//! The channels and the semaphore are tokio's, which shuttle does not see: [`interleave`] stands before
//! their use, where another thread may come between.
//!
//! A panic inside a critical section cannot leave the state behind it half changed, so that a poisoned
//! lock is opened like any other: none of the sections calls foreign code, but that of the cache, which
//! compares items and clones rows.

#[cfg(not(feature = "shuttle"))]
use std::sync as primitive;

#[cfg(feature = "shuttle")]
use shuttle::sync as primitive;

pub(crate) use primitive::MutexGuard;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(primitive::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(primitive::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A point at which another thread may come between; nothing outside of shuttle's tests.
#[cfg(not(feature = "shuttle"))]
#[inline]
pub(crate) fn interleave() {}

/// A point at which another thread may come between.
#[cfg(feature = "shuttle")]
pub(crate) fn interleave() {
    shuttle::thread::yield_now();
}
