//! What waits, counted: the one place that admits or refuses.
//!
//! A request is admitted whole or not at all, at once and on the caller's thread, so that the queue of
//! messages behind it is bounded too. The worker gives back what leaves the queue. The phase is under
//! the same lock as the counts: once draining has begun, nothing is admitted, not even by a caller who
//! asked a moment earlier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::Cost;
use crate::config::{BatchConfig, Class};
use crate::error::{Error, Resource};
use crate::fault::{Fault, Seeded};
use crate::sync::Mutex;

/// An amount of waiting work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Items.
    pub texts: usize,
    /// The sum of their costs in tokens.
    pub tokens: usize,
    /// The memory that they take.
    pub bytes: usize,
}

impl Amount {
    /// What items of these costs add to the queue.
    pub(crate) fn of(costs: &[Cost]) -> Self {
        let weights =
            costs.iter().map(|cost| Self { texts: 1, tokens: cost.tokens, bytes: cost.bytes });
        weights.fold(Self::default(), Self::plus)
    }

    /// The sum; costs are a caller's function and may be absurd, so it saturates.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            texts: self.texts.saturating_add(other.texts),
            tokens: self.tokens.saturating_add(other.tokens),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// The difference. What is taken away was added before, so that it never saturates.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            texts: self.texts.saturating_sub(other.texts),
            tokens: self.tokens.saturating_sub(other.tokens),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// Whether requests are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Closed,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    queued: Amount,
    /// What waits around the queue. It counts against the same limits.
    around: Amount,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    state: Mutex<State>,
    limits: Amount,
    /// Interactive requests of which something waits, or is on its way to the queue.
    line: Arc<Line>,
    /// Nanoseconds for a thousand tokens, as last seen in batches; tells the refused when to come back.
    pace: AtomicU64,
    /// The same of small requests too, which cost more for each token; tells which of them may run on the
    /// caller's thread.
    inline_pace: AtomicU64,
    seeded: Seeded,
}

/// The pace before anything has run: a million tokens a second.
const FIRST_GUESS: u64 = 1_000_000;

/// The line of interactive requests, which small ones may not pass.
#[derive(Debug, Default)]
struct Line {
    requests: AtomicUsize,
    tokens: AtomicUsize,
}

/// The place of an interactive request in the line. It leaves by dropping it.
#[derive(Debug)]
pub(crate) struct InLine {
    line: Arc<Line>,
    tokens: usize,
}

impl InLine {
    /// Gives the tokens back that no longer wait.
    pub(crate) fn shorten_to(&mut self, tokens: usize) {
        let gone = self.tokens.saturating_sub(tokens);
        self.tokens -= gone;
        self.line.tokens.fetch_sub(gone, Ordering::Relaxed);
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.line.requests.fetch_sub(1, Ordering::Relaxed);
        self.line.tokens.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

impl Ledger {
    pub(crate) fn new(config: &BatchConfig, seeded: Seeded) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Open,
                queued: Amount::default(),
                around: Amount::default(),
            }),
            limits: Amount {
                texts: config.queue_texts,
                tokens: config.queue_tokens,
                bytes: config.queue_bytes,
            },
            line: Arc::default(),
            pace: AtomicU64::new(FIRST_GUESS),
            inline_pace: AtomicU64::new(0),
            seeded,
        }
    }

    /// Admits all of `amount` to the queue or nothing; returns what waits there then.
    pub(crate) fn admit<E: std::error::Error>(&self, amount: Amount) -> Result<Amount, Error<E>> {
        self.admit_to(amount, |state| &mut state.queued)
    }

    /// Admits all of `amount` to the wait around the queue or nothing; returns what waits in the queue.
    pub(crate) fn admit_around<E: std::error::Error>(
        &self,
        amount: Amount,
    ) -> Result<Amount, Error<E>> {
        self.admit_to(amount, |state| &mut state.around)
    }

    fn admit_to<E: std::error::Error>(
        &self,
        amount: Amount,
        place: impl Fn(&mut State) -> &mut Amount,
    ) -> Result<Amount, Error<E>> {
        let mut state = self.state.lock();
        self.taking(state.phase)?;
        let before = state.queued.plus(state.around);
        let after = before.plus(amount);
        let refused = self.over(amount).or_else(|| self.over(after));
        if refused.is_none() || self.seeded.is(Fault::I10KeepsWhatWasRefused) {
            let place = place(&mut state);
            *place = place.plus(amount);
        }
        let Some(resource) = refused else { return Ok(state.queued) };
        drop(state);
        self.could_fit(amount)?;
        let (requested, limit) = (resource.of(amount), resource.of(self.limits));
        let queued = resource.of(before);
        let retry_after = self.time_for(after.minus(self.limits).tokens.max(amount.tokens));
        Err(Error::Overloaded { resource, queued, requested, limit, retry_after })
    }

    /// Whether `amount` would be admitted to an empty queue.
    fn could_fit<E: std::error::Error>(&self, amount: Amount) -> Result<(), Error<E>> {
        let Some(resource) = self.over(amount) else { return Ok(()) };
        let (requested, limit) = (resource.of(amount), resource.of(self.limits));
        Err(Error::TooLarge { resource, requested, limit })
    }

    fn taking<E: std::error::Error>(&self, phase: Phase) -> Result<(), Error<E>> {
        match phase {
            Phase::Open => Ok(()),
            Phase::Draining if self.seeded.is(Fault::I20AdmitsWhileDraining) => Ok(()),
            Phase::Draining => Err(Error::Draining),
            Phase::Closed => Err(Error::Closed),
        }
    }

    fn over(&self, amount: Amount) -> Option<Resource> {
        [Resource::Texts, Resource::Tokens, Resource::Bytes]
            .into_iter()
            .find(|resource| resource.of(amount) > resource.of(self.limits))
    }

    /// Gives back what left the queue.
    pub(crate) fn release(&self, amount: Amount) {
        let mut state = self.state.lock();
        state.queued = state.queued.minus(amount);
    }

    /// Gives back what no longer waits around the queue.
    pub(crate) fn release_around(&self, amount: Amount) {
        let mut state = self.state.lock();
        state.around = state.around.minus(amount);
    }

    /// What waits in the queue at the moment.
    pub(crate) fn queued(&self) -> Amount {
        self.state.lock().queued
    }

    /// Whether a request may run at once: taken at all, and nobody would be overtaken.
    pub(crate) fn idle<E: std::error::Error>(&self) -> Result<bool, Error<E>> {
        let state = self.state.lock();
        self.taking(state.phase)?;
        Ok(state.queued.texts == 0)
    }

    /// Counts an interactive request of so many tokens, from before its admission until nothing of it waits.
    pub(crate) fn line_up(&self, tokens: usize) -> InLine {
        // More is not admitted, and costs may be absurd.
        let tokens = tokens.min(self.limits.tokens);
        // Relaxed: a caller who knows that another one was admitted sees the count too, and nobody else has
        // a claim to his turn.
        self.line.requests.fetch_add(1, Ordering::Relaxed);
        self.line.tokens.fetch_add(tokens, Ordering::Relaxed);
        InLine { line: Arc::clone(&self.line), tokens }
    }

    /// Whether an interactive request would be overtaken by one that runs at once.
    pub(crate) fn has_interactive(&self) -> bool {
        self.line.requests.load(Ordering::Relaxed) > 0
    }

    /// Takes no more requests from here on.
    pub(crate) fn drain(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Draining;
        }
    }

    /// Takes no more requests, and has none: nothing lives beyond this.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        (state.phase, state.queued) = (Phase::Closed, Amount::default());
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().phase == Phase::Closed
    }

    /// Learns from a batch; the newest counts for a quarter.
    pub(crate) fn learn_pace(&self, tokens: usize, ran: Duration) {
        let sample = pace_of(tokens, ran);
        learn(&self.pace, sample);
        learn(&self.inline_pace, sample);
    }

    /// Learns from a call on a caller's thread.
    pub(crate) fn learn_inline_pace(&self, tokens: usize, ran: Duration) {
        learn(&self.inline_pace, pace_of(tokens, ran));
    }

    /// How long a small request of so many tokens would take; nothing before any has run.
    pub(crate) fn inline_time_for(&self, tokens: usize) -> Duration {
        time_at(&self.inline_pace, tokens)
    }

    /// How long what waits before a new request of `class` takes if `slots` calls work on it at once.
    pub(crate) fn expected_wait(&self, class: Class, slots: usize) -> Duration {
        let tokens = match class {
            Class::Interactive => self.line.tokens.load(Ordering::Relaxed),
            Class::Bulk => self.queued().tokens,
        };
        time_at(&self.pace, tokens) / u32::try_from(slots.max(1)).unwrap_or(u32::MAX)
    }

    /// How long `tokens` take at the present pace, between a millisecond and a minute.
    fn time_for(&self, tokens: usize) -> Duration {
        time_at(&self.pace, tokens).clamp(Duration::from_millis(1), Duration::from_mins(1))
    }
}

fn time_at(pace: &AtomicU64, tokens: usize) -> Duration {
    let nanos = pace.load(Ordering::Relaxed).saturating_mul(tokens as u64) / 1000;
    Duration::from_nanos(nanos)
}

fn pace_of(tokens: usize, ran: Duration) -> u64 {
    let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
    nanos.saturating_mul(1000) / (tokens.max(1) as u64)
}

fn learn(pace: &AtomicU64, sample: u64) {
    // Of two samples at once one may be lost: it is a guess.
    let old = pace.load(Ordering::Relaxed);
    pace.store((old / 4 * 3).saturating_add(sample / 4), Ordering::Relaxed);
}

impl Resource {
    fn of(self, amount: Amount) -> usize {
        match self {
            Self::Texts => amount.texts,
            Self::Tokens => amount.tokens,
            Self::Bytes => amount.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn ledger() -> Ledger {
        let config = BatchConfig {
            queue_texts: 4,
            queue_tokens: 100,
            queue_bytes: 1000,
            ..BatchConfig::default()
        };
        Ledger::new(&config, Seeded::default())
    }

    fn amount(texts: usize, tokens: usize, bytes: usize) -> Amount {
        Amount { texts, tokens, bytes }
    }

    #[test]
    fn a_slow_backend_is_found_out_and_forgiven() {
        let ledger = ledger();
        assert_eq!(ledger.inline_time_for(1000), Duration::ZERO);
        ledger.learn_inline_pace(10, Duration::from_millis(10));
        assert_eq!(ledger.inline_time_for(4), Duration::from_millis(1));
        // Batches tell when it has become fast again.
        for _ in 0..40 {
            ledger.learn_pace(1000, Duration::from_micros(10));
        }
        assert!(ledger.inline_time_for(1000) < Duration::from_micros(30));
    }

    #[test]
    fn an_interactive_request_waits_for_its_line_and_bulk_work_for_everything() {
        let ledger = ledger();
        for _ in 0..64 {
            ledger.learn_pace(1, Duration::from_millis(1));
        }
        let wait = |class| ledger.expected_wait(class, 2).as_millis();
        assert!(ledger.admit::<Infallible>(amount(2, 80, 2)).is_ok());
        assert_eq!((wait(Class::Interactive), wait(Class::Bulk)), (0, 39));
        let mut in_line = ledger.line_up(20);
        assert!(ledger.admit::<Infallible>(amount(1, 20, 1)).is_ok());
        assert_eq!((wait(Class::Interactive), wait(Class::Bulk)), (9, 49));
        in_line.shorten_to(10);
        assert_eq!(wait(Class::Interactive), 4);
        in_line.shorten_to(15);
        assert_eq!(wait(Class::Interactive), 4);
        assert!(ledger.has_interactive());
        drop(in_line);
        assert_eq!((wait(Class::Interactive), wait(Class::Bulk)), (0, 49));
        assert!(!ledger.has_interactive());
    }

    #[track_caller]
    fn check(queued: Amount, asked: Amount, expected: Option<(&str, Resource)>) {
        let ledger = ledger();
        assert_eq!(ledger.admit::<Infallible>(queued), Ok(queued));
        let found = match ledger.admit::<Infallible>(asked) {
            Ok(_) => None,
            Err(Error::Overloaded { resource, .. }) => Some(("overloaded", resource)),
            Err(Error::TooLarge { resource, .. }) => Some(("too large", resource)),
            Err(other) => unreachable!("{other}"),
        };
        assert_eq!(found, expected);
        let after = if expected.is_none() { queued.plus(asked) } else { queued };
        assert_eq!(ledger.queued(), after);
    }

    #[test]
    fn admits_up_to_each_limit_and_not_beyond() {
        check(amount(3, 99, 999), amount(1, 1, 1), None);
        check(amount(3, 0, 0), amount(2, 0, 0), Some(("overloaded", Resource::Texts)));
        check(amount(0, 99, 0), amount(1, 2, 0), Some(("overloaded", Resource::Tokens)));
        check(amount(0, 0, 999), amount(1, 0, 2), Some(("overloaded", Resource::Bytes)));
        check(amount(0, 0, 0), amount(5, 0, 0), Some(("too large", Resource::Texts)));
        check(amount(0, 0, 0), amount(1, 101, 0), Some(("too large", Resource::Tokens)));
        check(
            amount(1, 1, 1),
            amount(1, usize::MAX, usize::MAX),
            Some(("too large", Resource::Tokens)),
        );
    }

    #[test]
    fn the_refused_learn_when_to_come_back() {
        let ledger = ledger();
        for _ in 0..64 {
            ledger.learn_pace(10, Duration::from_millis(100));
        }
        assert!(ledger.admit::<Infallible>(amount(1, 90, 1)).is_ok());
        let Err(Error::Overloaded { queued, requested, limit, retry_after, .. }) =
            ledger.admit::<Infallible>(amount(1, 20, 1))
        else {
            unreachable!("110 of 100 tokens")
        };
        assert_eq!((queued, requested, limit), (90, 20, 100));
        let expected = Duration::from_millis(200);
        assert!(retry_after.abs_diff(expected) < Duration::from_millis(1), "{retry_after:?}");
    }

    #[test]
    fn a_closed_ledger_stays_closed() {
        let ledger = ledger();
        assert!(ledger.admit::<Infallible>(amount(1, 1, 1)).is_ok());
        ledger.drain();
        assert_eq!(ledger.admit::<Infallible>(amount(1, 1, 1)), Err(Error::Draining));
        ledger.close();
        ledger.drain();
        assert_eq!(ledger.idle::<Infallible>(), Err(Error::Closed));
        assert_eq!(ledger.queued(), Amount::default());
    }
}
