//! The settings of a batcher and of a request.

use std::num::NonZero;
use std::time::{Duration, Instant};

/// The settings of a batcher.
///
/// The defaults are for a backend that costs microseconds a text on the CPU. How to choose:
///
/// - `slots`: how many calls of the backend may run at once, those in `inline_slots` aside. 1 on a device,
///   the number of cores on a CPU.
/// - `max_rows`, `max_tokens`: as much as one call may take before a query that arrives meanwhile has
///   waited too long, and as little as still keeps the backend busy. Ten milliseconds of work is a good
///   measure.
/// - `queue_*`: what may wait before callers are refused. Memory is bounded by `queue_bytes` and by
///   `slots` batches of items and rows; waiting time by `queue_tokens` over the rate of the backend.
/// - `linger`: zero, unless the backend is so slow on small batches that waiting for company pays. With a
///   linger nothing runs inline.
/// - `inline_bytes`: zero for any backend that blocks.
/// - `inline_slots`: zero keeps all calls within `slots`. Where small queries must not wait for a batch of
///   bulk work, as many as there are threads that ask, up to the number of cores.
///
/// Write `BatchConfig { slots: 2, ..BatchConfig::default() }`: settings may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// Batches that may be with the backend at once, with the calls on callers' threads while nothing waits.
    pub slots: usize,
    /// Items in one call.
    pub max_rows: usize,
    /// Tokens in one call, by [`Backend::cost`](crate::Backend::cost). One item that costs more goes alone.
    pub max_tokens: usize,
    /// How long the first of a batch waits for company while a slot is free.
    pub linger: Duration,
    /// Items that may wait.
    pub queue_texts: usize,
    /// Tokens that may wait.
    pub queue_tokens: usize,
    /// Bytes of items that may wait.
    pub queue_bytes: usize,
    /// Requests of at most so many bytes run on the caller's own thread when nothing waits and a slot is
    /// free, or in [`inline_slots`](Self::inline_slots); zero means never. Only for backends that take
    /// microseconds for so little: the caller may be driving futures.
    pub inline_bytes: usize,
    /// Calls on callers' own threads that may run beside those in `slots`, so that the backend has up to
    /// `slots + inline_slots` at once. They are for small interactive requests while no other interactive one
    /// waits: such a query waits for no batch of bulk work at all, not even for one older than `aging`.
    pub inline_slots: usize,
    /// Requests that would take longer than this, by what recent ones took, do not run on the caller's
    /// thread, however small they are: a backend may be slower than it was thought to be.
    pub inline_time: Duration,
    /// Who has waited so long goes before everybody younger in the queue, whatever the class.
    pub aging: Duration,
    /// Whether equal items under equal options compute once while one of them is in flight.
    pub single_flight: bool,
    /// Rows that are kept for later requests, the least recently used going first; zero means none.
    pub cache_rows: usize,
    /// Items of more bytes are not kept.
    pub cache_item_bytes: usize,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            slots: std::thread::available_parallelism().map_or(1, NonZero::get),
            max_rows: 1024,
            max_tokens: 65_536,
            linger: Duration::ZERO,
            queue_texts: 4096,
            queue_tokens: 64 << 20,
            queue_bytes: 64 << 20,
            inline_bytes: 4096,
            inline_slots: 0,
            inline_time: Duration::from_micros(500),
            aging: Duration::from_secs(5),
            single_flight: true,
            cache_rows: 0,
            cache_item_bytes: 4096,
        }
    }
}

impl BatchConfig {
    /// The defaults for a backend on one device: a single call at a time, and none on the caller's thread,
    /// which may drive futures and must not wait for a device.
    pub fn device() -> Self {
        Self { slots: 1, inline_bytes: 0, ..Self::default() }
    }

    /// A fixed window: the first request of an idle period opens it, later ones join and never extend
    /// it, a full batch goes at once, one batch at a time, and nothing runs inline. If the first goes
    /// away, the window of the next one counts.
    ///
    /// It is for backends whose calls cost far more than `window`, and for comparison with other
    /// batchers. A lone caller pays the whole window: for a backend that needs microseconds, a window
    /// of 25 ms is a thousand times the work.
    pub fn fixed_window(window: Duration, max_rows: usize) -> Self {
        Self { max_rows, linger: window, ..Self::device() }
    }

    /// Checks that something can be admitted and something can run.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let capacities = [
            ("slots", self.slots),
            ("max_rows", self.max_rows),
            ("max_tokens", self.max_tokens),
            ("queue_texts", self.queue_texts),
            ("queue_tokens", self.queue_tokens),
            ("queue_bytes", self.queue_bytes),
        ];
        if let Some((setting, _)) = capacities.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { setting });
        }
        let limit = tokio::sync::Semaphore::MAX_PERMITS.min(u32::MAX as usize);
        if let Some(slots) =
            [self.slots, self.inline_slots].into_iter().find(|slots| *slots > limit)
        {
            return Err(ConfigError::Slots { slots, limit });
        }
        Ok(())
    }
}

/// Why a batcher cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// With this setting nothing could ever be admitted or run.
    #[error("{setting} is 0, expected at least 1")]
    Zero {
        /// Name of the setting.
        setting: &'static str,
    },
    /// More calls at once than can be counted.
    #[error("slots or inline_slots is {slots}, expected at most {limit}")]
    Slots {
        /// What was asked for.
        slots: usize,
        /// What is possible.
        limit: usize,
    },
    /// There is no tokio runtime to run on, and no executor was given.
    #[error("no tokio runtime here: enter one, or give an executor and drive the worker yourself")]
    NoRuntime,
    /// The clock cannot make timers, for deadlines, windows and draining.
    #[error("the clock has no timers here: enable the time of the runtime")]
    NoTime,
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Somebody waits for it.
    #[default]
    Interactive,
    /// It goes after everything interactive, until it has aged.
    Bulk,
}

/// The settings of one request.
///
/// Write `RequestOptions { deadline, ..RequestOptions::default() }`: settings may be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// How urgent it is.
    pub class: Class,
    /// When its answer is of no more use; [`Batcher::deadline_in`](crate::Batcher::deadline_in) makes one.
    /// The request is answered with [`Error::Expired`](crate::Error::Expired) then, queued or running, and
    /// is not dispatched afterwards. A call that runs inline is not interrupted.
    pub deadline: Option<Instant>,
}

impl RequestOptions {
    /// A request that nobody waits for.
    pub fn bulk() -> Self {
        Self { class: Class::Bulk, ..Self::default() }
    }

    /// The same request with a deadline, on the clock of the batcher.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}
