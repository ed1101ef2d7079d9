//! Sharing the parts of a batch among threads.
//!
//! The calling thread and the workers take one part after the other until none is left, so that a
//! part that takes longer does not leave the others idle. The workers serve one call at a time; a call
//! that finds them taken works alone, and never waits for another. Parts are handed out in order and do not
//! depend on each other: who works on which, and how many do, cannot be seen in the results, errors included.
//! Of several errors the one of the first part counts; every part before it has been handed out by then.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError, TryLockError};

use rayon::ThreadPool;

use crate::error::LoadError;

/// Threads that help with batches, and sleep otherwise.
pub(crate) struct Workers {
    pool: ThreadPool,
    /// Held by the call that they work for.
    taken: Mutex<()>,
}

impl Workers {
    /// Workers beside the calling thread, so that `threads` work in all; `None` if that is the one.
    pub(crate) fn new(threads: NonZeroUsize) -> Result<Option<Self>, LoadError> {
        let helpers = threads.get() - 1;
        if helpers == 0 {
            return Ok(None);
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(helpers)
            .thread_name(|number| format!("embed-{number}"))
            .build()
            .map_err(|source| LoadError::Threads { threads, source: source.into() })?;
        Ok(Some(Self { pool, taken: Mutex::new(()) }))
    }

    /// Runs `work` on this thread and on all workers, each with the same supply of parts.
    ///
    /// # Errors
    ///
    /// The one with the lowest number; `work` says the number of the part that failed.
    pub(crate) fn share<P: Send, E: Send>(
        &self,
        parts: Vec<P>,
        work: impl Fn(&Supply<P>) -> Result<(), (usize, E)> + Sync,
    ) -> Result<(), E> {
        let helpers = match self.taken.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            // A panic in another call has left nothing behind.
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        };
        let wanted = parts.len().saturating_sub(1).min(self.pool.current_num_threads());
        let supply = Supply(Mutex::new(parts.into_iter()));
        let failures = Mutex::new(Vec::new());
        let run = || {
            if let Err(failure) = work(&supply) {
                supply.stop();
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        };
        if helpers.is_some() {
            self.pool.in_place_scope(|scope| {
                for _ in 0..wanted {
                    scope.spawn(|_| run());
                }
                run();
            });
        } else {
            run();
        }
        drop(helpers);
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failures.into_iter().min_by_key(|&(number, _)| number) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} workers", self.pool.current_num_threads())
    }
}

/// The parts that nobody has taken yet.
pub(crate) struct Supply<P>(Mutex<std::vec::IntoIter<P>>);

impl<P> Supply<P> {
    /// The next part in order.
    pub(crate) fn next(&self) -> Option<P> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Hands out nothing more.
    fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn workers(threads: usize) -> Workers {
        let threads = NonZeroUsize::new(threads).expect("not zero");
        Workers::new(threads).expect("a few threads").expect("more than one")
    }

    #[test]
    fn every_part_is_worked_on_once() {
        for threads in 2..5 {
            let counts: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            let done = workers(threads).share((0..100).collect(), |supply| {
                while let Some(part) = supply.next() {
                    let part: usize = part;
                    counts[part].fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), (usize, ())>(())
            });
            assert_eq!(done, Ok(()));
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn the_first_error_counts_and_ends_the_work() {
        for _ in 0..200 {
            let failed = workers(3).share((0..1000).collect(), |supply| {
                while let Some(part) = supply.next() {
                    if part % 10 == 7 {
                        return Err((part, format!("part {part}")));
                    }
                }
                Ok(())
            });
            assert_eq!(failed, Err("part 7".to_owned()));
        }
    }

    #[test]
    fn a_call_that_finds_the_workers_taken_works_alone() {
        let workers = workers(2);
        let (outer, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let done = workers.share(vec![0], |supply| {
            while supply.next().is_some() {
                outer.fetch_add(1, Ordering::Relaxed);
                // This part is not done before another call is.
                let other = workers.share(vec![0; 10], |supply| {
                    while supply.next().is_some() {
                        inner.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<(), (usize, ())>(())
                });
                assert_eq!(other, Ok(()));
            }
            Ok::<(), (usize, ())>(())
        });
        assert_eq!(done, Ok(()));
        assert_eq!((outer.into_inner(), inner.into_inner()), (1, 10));
    }

    #[test]
    fn one_thread_needs_no_workers() {
        assert!(matches!(Workers::new(NonZeroUsize::MIN), Ok(None)));
    }
}
