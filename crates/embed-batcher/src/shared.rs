//! What the handles, the worker and the batches of one batcher have in common.

use std::future::poll_fn;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::Backend;
use crate::clock::Clock;
use crate::config::BatchConfig;
use crate::content::Content;
use crate::error::Error;
use crate::execution::{Distinct, Failure, ItemResult, guarded};
use crate::executor::{Executor, Job};
use crate::fault::Seeded;
use crate::gate::{DeviceGate, GateGuard, Owner};
use crate::ledger::Ledger;
use crate::observer::{CloseCause, Observation, Observer, Route};
use crate::stats::Counters;
use crate::sync::{Mutex, interleave};

pub(crate) struct Shared<B: Backend> {
    pub(crate) backend: Arc<B>,
    pub(crate) config: BatchConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) gate: Option<(DeviceGate, Owner)>,
    pub(crate) slots: Arc<Semaphore>,
    /// For calls on callers' threads beside those.
    pub(crate) inline_slots: Arc<Semaphore>,
    /// Has no permits; closed when the batcher ends, which wakes whoever waits outside the queue.
    pub(crate) ended: Semaphore,
    pub(crate) ledger: Ledger,
    pub(crate) counters: Counters,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) cache: Option<Mutex<LruCache<Content<B>, B::Row>>>,
    pub(crate) hasher: RandomState,
    pub(crate) next_request: AtomicU64,
    pub(crate) seeded: Seeded,
}

/// The right to run one batch, or one call on the caller's thread: a slot, and the gate where there is one.
/// Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Permit {
    // In this order: whoever gets the slot next finds the gate free.
    gate: Option<GateGuard>,
    _slot: OwnedSemaphorePermit,
}

impl Permit {
    /// Gives the gate back, and keeps the slot.
    pub(crate) fn leave_gate(&mut self) {
        self.gate = None;
    }
}

impl<B: Backend> Shared<B> {
    /// A permit, if it is to be had at once.
    pub(crate) fn try_permit(&self) -> Option<Permit> {
        self.try_permit_of(&self.slots)
    }

    /// A permit for a call on the caller's thread, beside those of the batches.
    pub(crate) fn try_inline_permit(&self) -> Option<Permit> {
        self.try_permit_of(&self.inline_slots)
    }

    fn try_permit_of(&self, slots: &Arc<Semaphore>) -> Option<Permit> {
        interleave();
        let slot = Arc::clone(slots).try_acquire_owned().ok()?;
        let gate = match &self.gate {
            Some((gate, owner)) => Some(gate.try_acquire(owner)?),
            None => None,
        };
        Some(Permit { gate, _slot: slot })
    }

    /// A permit, in turn; `None` when the batcher ends. Dropping the future gives the place up.
    pub(crate) fn permit(&self) -> impl Future<Output = Option<Permit>> + Send + use<B> {
        let slots = Arc::clone(&self.slots);
        let gate = self.gate.clone();
        async move {
            interleave();
            let slot = slots.acquire_owned().await.ok()?;
            let gate = match gate {
                Some((gate, owner)) => Some(gate.acquire(&owner).await),
                None => None,
            };
            Some(Permit { gate, _slot: slot })
        }
    }

    /// Every slot, of both kinds, once all calls have ended; `None` when the batcher has.
    pub(crate) fn all_slots(
        &self,
    ) -> impl Future<Output = Option<[OwnedSemaphorePermit; 2]>> + Send + use<B> {
        let of = |semaphore: &Arc<Semaphore>, slots: usize| {
            // Checked when the batcher was built.
            Arc::clone(semaphore).acquire_many_owned(u32::try_from(slots).unwrap_or(u32::MAX))
        };
        let batches = of(&self.slots, self.config.slots);
        let inline = of(&self.inline_slots, self.config.inline_slots);
        async move { Some([batches.await.ok()?, inline.await.ok()?]) }
    }

    /// The output of `future`, or `None` if the batcher ends first.
    pub(crate) async fn until_ended<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut ended = pin!(self.ended.acquire());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => ended.as_mut().poll(context).map(|_| None),
        })
        .await
    }

    /// Gives a job to the executor. If that panics the job is dropped, which it reports.
    pub(crate) fn execute(&self, job: Job) {
        drop(guarded(|| self.executor.execute(job)));
    }

    /// Counts, and tells the observer. A panic in it is its own affair.
    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        self.counters.count(observation);
        if let Some(observer) = &self.observer {
            drop(guarded(|| observer.observe(observation)));
        }
    }

    /// The time at which an inline call begins, where somebody wants to know it: an observer, or, for one
    /// call of sixteen, the ledger. Asking costs more than the rest of an inline call.
    pub(crate) fn inline_start(&self) -> Option<Instant> {
        let is_sampled = self.counters.inline().is_multiple_of(16);
        (self.observer.is_some() || is_sampled).then(|| self.clock.now())
    }

    /// Reports a call that goes to the backend without having been in the queue.
    pub(crate) fn observe_started(
        &self,
        distinct: &Distinct<'_, B::Item>,
        texts: usize,
        tokens: usize,
        waited: Duration,
        route: Route,
    ) {
        let rows = distinct.items.len();
        self.observe(&Observation::BatchStarted {
            rows,
            texts,
            tokens,
            cause: CloseCause::Exhausted,
            waited,
            permit_waited: waited,
            route,
        });
        if rows < texts {
            self.observe(&Observation::Shared { texts: texts - rows });
        }
    }

    /// Reports a batch that came back.
    pub(crate) fn observe_finished(&self, results: &[ItemResult<B>], tokens: usize, ran: Duration) {
        let panicked = |result: &ItemResult<B>| {
            matches!(result, Err(Failure { error: Error::Panicked { .. }, .. }))
        };
        let exact = results.iter().flatten().map(|row| self.backend.tokens(row));
        let exact = guarded(|| exact.sum::<Option<usize>>()).ok().flatten();
        self.observe(&Observation::BatchFinished {
            rows: results.len(),
            failed: results.iter().filter(|result| result.is_err()).count(),
            tokens: exact.unwrap_or(tokens),
            ran,
            panicked: results.iter().any(panicked),
        });
    }

    pub(crate) fn content(&self, options: &B::Options, item: &Arc<B::Item>) -> Content<B> {
        Content::new(&self.hasher, options, item, self.seeded)
    }

    /// Keeps the rows that came back for later requests.
    pub(crate) fn remember(
        &self,
        items: &[Arc<B::Item>],
        options: &B::Options,
        results: &[ItemResult<B>],
    ) {
        let Some(cache) = &self.cache else { return };
        for (item, result) in items.iter().zip(results) {
            if let Ok(row) = result
                && guarded(|| self.backend.cost(item, options))
                    .is_ok_and(|cost| cost.bytes <= self.config.cache_item_bytes)
            {
                let content = self.content(options, item);
                // What is pushed out is dropped after the lock, because its drop is foreign code.
                let pushed_out = cache.lock().push(content, row.clone());
                drop(pushed_out);
            }
        }
    }
}

pub(crate) fn new_cache<B: Backend>(rows: usize) -> Option<Mutex<LruCache<Content<B>, B::Row>>> {
    // Grown as it fills: a generous limit costs nothing.
    let limit = NonZeroUsize::new(rows)?;
    let mut cache = LruCache::unbounded();
    cache.resize(limit);
    Some(Mutex::new(cache))
}
