//! What can be seen of a batcher from outside, in order.

use std::collections::BTreeMap;
use std::time::Instant;

use embed_batcher::{Amount, Class, Error};

use crate::op::Setup;
use crate::script::{Call, ScriptError, ScriptRow};

/// The answer to a request.
pub(crate) type Answer = Result<Vec<ScriptRow>, Error<ScriptError>>;

/// A request of a case.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its texts, as they were sent.
    pub texts: Vec<String>,
    /// Their costs.
    pub tokens: Vec<usize>,
    /// Its class.
    pub class: Class,
    /// Its options.
    pub options: u8,
    /// Its deadline.
    pub deadline: Option<Instant>,
    /// What it got.
    pub answer: Option<Answer>,
    /// Whether its caller went away.
    pub cancelled: bool,
}

/// Something that was seen.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request went into the queue.
    Queued {
        /// Its index.
        request: usize,
    },
    /// A request was answered at once: from the cache, inline, or with a refusal.
    AtOnce {
        /// Its index.
        request: usize,
        /// What was queued before and after.
        queued: [Amount; 2],
        /// The call that it made, if any.
        call: Option<usize>,
    },
    /// The worker is about to be polled.
    Polled,
    /// A batch was handed to the executor.
    Handed {
        /// Its index, which is that of its call too.
        batch: usize,
    },
    /// A batch came back.
    Ran {
        /// Its index.
        batch: usize,
    },
    /// A caller went away.
    Cancelled {
        /// The request.
        request: usize,
    },
    /// A request was answered.
    Answered {
        /// Its index.
        request: usize,
    },
    /// Somebody asked for a drain.
    Drain {
        /// By when.
        deadline: Instant,
    },
    /// The handles were dropped.
    HandlesDropped,
    /// Nothing more happens without a new op.
    Settled(Moment),
    /// Something panicked outside the backend.
    Panicked(String),
    /// Callers and worker wake each other without end.
    Spins,
}

/// What is to be seen when all is quiet.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What is counted as queued.
    pub queued: Amount,
    /// Batches that run.
    pub running: usize,
    /// Holders of the gate.
    pub holders: usize,
    /// Whether somebody else is in the gate.
    pub foreign_holds: bool,
    /// Whether somebody else waits for the gate.
    pub foreign_waits: bool,
    /// Timers that are armed.
    pub timers: usize,
    /// Whether the worker has ended.
    pub ended: bool,
}

/// Everything that was seen.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The settings.
    pub setup: Setup,
    /// The requests.
    pub requests: Vec<Request>,
    /// The batches and inline calls.
    pub calls: Vec<Option<Call>>,
    /// What happened, and when.
    pub events: Vec<(Instant, Event)>,
    /// Admitted, completed, failed, closed, cancelled, expired, by the batcher's own account.
    pub account: [u64; 6],
    /// How often what happened.
    pub counts: Counts,
}

/// How often each kind of event and fault of the backend occurred.
pub type Counts = BTreeMap<&'static str, u64>;
