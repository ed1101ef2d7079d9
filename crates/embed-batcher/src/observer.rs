//! What a batcher tells of itself, to whoever keeps metrics.

use std::time::Duration;

use crate::config::Class;
use crate::ledger::Amount;

/// Receives what happens, while it happens.
///
/// It is called on the path of requests, so it must not wait: count, and return. A panic in it is
/// swallowed.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, observation: &Observation<'_>);
}

/// Something that happened. Durations are zero where the clock did not move.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A request was taken. Those that the cache answers whole are not told.
    Admitted {
        /// Its items that were not in the cache.
        texts: usize,
        /// How urgent it is.
        class: Class,
        /// Where it runs.
        route: Route,
        /// What waits now, itself included.
        queued: Amount,
    },
    /// A request was refused.
    Refused {
        /// Its items.
        texts: usize,
        /// Why.
        reason: Refusal,
    },
    /// A batch went to the backend.
    BatchStarted {
        /// Rows to compute.
        rows: usize,
        /// Items that wait for them; more than `rows` where equal items share.
        texts: usize,
        /// Tokens by cost.
        tokens: usize,
        /// Why it was not larger.
        cause: CloseCause,
        /// How long the oldest of it had waited.
        waited: Duration,
        /// How long a slot and the gate were waited for; zero for the later pieces of an array.
        permit_waited: Duration,
        /// Where it runs.
        route: Route,
    },
    /// A batch came back.
    BatchFinished {
        /// Rows that were computed.
        rows: usize,
        /// Rows that failed.
        failed: usize,
        /// Tokens as the backend counted them, by cost where it does not.
        tokens: usize,
        /// How long the backend took.
        ran: Duration,
        /// Whether the backend panicked.
        panicked: bool,
    },
    /// A request got its rows.
    Completed {
        /// Its items.
        texts: usize,
        /// From its admission until its first item went to the backend.
        waited: Duration,
        /// From its admission to the answer.
        took: Duration,
    },
    /// A request got an error of the backend.
    Failed {
        /// Its items.
        texts: usize,
    },
    /// A request got no rows because the batcher, or what runs its batches, ended.
    Closed {
        /// Its items.
        texts: usize,
    },
    /// A caller went away.
    Cancelled {
        /// Items that had not gone to the backend.
        queued: usize,
        /// Items that had; their rows, if they came, go nowhere.
        running: usize,
    },
    /// A deadline passed.
    Expired {
        /// Items that had not gone to the backend.
        queued: usize,
        /// Items that had; their rows, if they came, go nowhere.
        running: usize,
    },
    /// Items got a row that was computed for an equal one.
    Shared {
        /// How many.
        texts: usize,
    },
    /// Items were looked up in the cache.
    CacheLookup {
        /// How many were there.
        hits: usize,
        /// How many were not.
        misses: usize,
    },
    /// A holder left an observed gate.
    GateHeld {
        /// Who it was.
        owner: &'a str,
        /// How long it had waited.
        waited: Duration,
        /// How long it was inside.
        held: Duration,
    },
}

/// On which thread a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The caller's own: nothing waited.
    Inline,
    /// Through the queue, with whatever else waits.
    Queued,
    /// Around the queue: an array of its own.
    Direct,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// No room at the moment.
    Overloaded,
    /// There can never be room.
    TooLarge,
    /// The batcher drains or has ended.
    Closed,
    /// The deadline had passed already.
    Expired,
    /// The cost function panicked.
    Panicked,
}

/// Why a batch was not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseCause {
    /// Nothing else waited.
    Exhausted,
    /// It has all the rows it may have.
    Rows,
    /// The next item did not fit into its tokens.
    Tokens,
    /// More of its requests would have been unfair to requests with other options.
    Fairness,
}
