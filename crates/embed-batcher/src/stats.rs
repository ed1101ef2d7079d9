//! Totals since the start, kept from the same observations that observers get.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ledger::Amount;
use crate::observer::{Observation, Route};

/// Counts of one batcher: totals since its start, and what waits and runs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What waits now.
    pub queued: Amount,
    /// Batches that run now.
    pub running_batches: u64,
    /// Items taken, those from the cache aside.
    pub admitted: u64,
    /// Of those, items that ran on the caller's thread.
    pub inline: u64,
    /// Requests refused.
    pub refused: u64,
    /// Items answered with a computed row.
    pub completed: u64,
    /// Items answered with an error of the backend.
    pub failed: u64,
    /// Items that got no answer but that the batcher had ended.
    pub closed: u64,
    /// Items whose caller went away.
    pub cancelled: u64,
    /// Items whose deadline passed.
    pub expired: u64,
    /// Batches that went to the backend.
    pub batches: u64,
    /// Rows in those batches.
    pub rows: u64,
    /// Items that got a row computed for an equal one.
    pub shared: u64,
    /// Items found in the cache.
    pub cache_hits: u64,
    /// Batches in which the backend panicked.
    pub panics: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    admitted: AtomicU64,
    inline: AtomicU64,
    refused: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    closed: AtomicU64,
    cancelled: AtomicU64,
    expired: AtomicU64,
    batches: AtomicU64,
    finished: AtomicU64,
    rows: AtomicU64,
    shared: AtomicU64,
    cache_hits: AtomicU64,
    panics: AtomicU64,
}

fn add(counter: &AtomicU64, by: usize) {
    // Totals are independent of each other and order nothing.
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn count(&self, observation: &Observation<'_>) {
        match *observation {
            Observation::Admitted { texts, route, .. } => {
                add(&self.admitted, texts);
                if route == Route::Inline {
                    add(&self.inline, texts);
                }
            }
            Observation::Refused { .. } => add(&self.refused, 1),
            Observation::BatchStarted { rows, .. } => {
                add(&self.batches, 1);
                add(&self.rows, rows);
            }
            Observation::BatchFinished { panicked, .. } => {
                add(&self.finished, 1);
                add(&self.panics, usize::from(panicked));
            }
            Observation::Completed { texts, .. } => add(&self.completed, texts),
            Observation::Failed { texts } => add(&self.failed, texts),
            Observation::Closed { texts } => add(&self.closed, texts),
            Observation::Cancelled { queued, running } => add(&self.cancelled, queued + running),
            Observation::Expired { queued, running } => add(&self.expired, queued + running),
            Observation::Shared { texts } => add(&self.shared, texts),
            Observation::CacheLookup { hits, .. } => add(&self.cache_hits, hits),
            Observation::GateHeld { .. } => {}
        }
    }

    /// Items that ran on the caller's thread.
    pub(crate) fn inline(&self) -> u64 {
        self.inline.load(Ordering::Relaxed)
    }

    pub(crate) fn snapshot(&self, queued: Amount) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let finished = read(&self.finished);
        let batches = read(&self.batches);
        Stats {
            queued,
            running_batches: batches.saturating_sub(finished),
            admitted: read(&self.admitted),
            inline: read(&self.inline),
            refused: read(&self.refused),
            completed: read(&self.completed),
            failed: read(&self.failed),
            closed: read(&self.closed),
            cancelled: read(&self.cancelled),
            expired: read(&self.expired),
            batches,
            rows: read(&self.rows),
            shared: read(&self.shared),
            cache_hits: read(&self.cache_hits),
            panics: read(&self.panics),
        }
    }
}
