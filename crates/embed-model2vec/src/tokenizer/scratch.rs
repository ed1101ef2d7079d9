//! Reusable working memory for tokenizers: buffers and caches that outlive a call.
//!
//! A call borrows one set and gives it back when it ends, so that a set is warm when the next call takes
//! it. There are as many sets as calls at the same time; of those, [`MAX_IDLE`] are kept when a burst of
//! calls is over. Taking one is a short lock once a call, not once a text.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Sets that are kept for later: at most 80 MiB of them, with the largest caches.
const MAX_IDLE: usize = 16;

/// Sets of working memory that nobody uses at the moment.
pub(super) struct Pool<T> {
    idle: Mutex<Vec<Box<T>>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }
}

impl<T> Pool<T> {
    /// An idle set, or a new one.
    pub(super) fn take(&self, new: impl FnOnce() -> T) -> Borrowed<'_, T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { pool: self, set: Some(idle.unwrap_or_else(|| Box::new(new()))) }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

/// A set of working memory; it goes back to its pool when this is dropped.
pub(super) struct Borrowed<'p, T> {
    pool: &'p Pool<T>,
    /// Some until the drop.
    set: Option<Box<T>>,
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.set.as_ref().expect("a set until the drop")
    }
}

impl<T> DerefMut for Borrowed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.set.as_mut().expect("a set until the drop")
    }
}

impl<T> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        // A set that a panic left half-written is not used again.
        if let Some(set) = self.set.take().filter(|_| !std::thread::panicking()) {
            let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE {
                idle.push(set);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_used_again_and_never_shared() {
        let pool = Pool::default();
        let mut made = 0;
        let mut take = || {
            made += 1;
            made
        };
        {
            let first = pool.take(&mut take);
            let second = pool.take(&mut take);
            assert_eq!((*first, *second), (1, 2));
        }
        assert!(*pool.take(|| 3) <= 2);
    }
}
