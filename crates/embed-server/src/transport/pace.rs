//! What a connection is doing and since when: the one place that decides how long it may go on.
//!
//! Slow clients cost a connection and nothing else. A timer for each step of each request would cost more
//! than the request, so there is one timer a connection, set to when the present step will have taken
//! too long, and looked at again when it goes off.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Settings;

/// How long steps may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    head: Duration,
    idle: Duration,
    write: Duration,
}

impl Limits {
    pub(super) fn of(settings: &Settings) -> Self {
        let Settings { header_timeout, keep_alive, write_timeout, .. } = *settings;
        Self { head: header_timeout, idle: keep_alive, write: write_timeout }
    }
}

/// Who takes an answer slower than this on the whole, in bytes a second, holds the memory of its rows for too
/// long.
const SLOWEST: u64 = 1 << 14;

/// While draining, a connection that asks for nothing is kept open so long: who sends a request at this
/// moment still gets an answer.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing came yet.
    New,
    /// Nothing was asked since the last answer, and all of that is with the system.
    Idle,
    /// The head of a request comes in.
    Head,
    /// A request is with the server, its body included, which has its own limit.
    Busy,
    /// The whole answer is known and waits to be written.
    Sending,
}

#[derive(Debug)]
struct State {
    step: Step,
    since: Instant,
    taking: Taking,
}

/// How the client takes an answer.
#[derive(Debug, Default)]
struct Taking {
    /// Since when it accepts no bytes.
    stalled: Option<Instant>,
    /// How long it accepted none in earlier stalls of this answer.
    waited: Duration,
    /// Bytes of this answer that it accepted.
    bytes: u64,
}

impl Taking {
    /// When it will have kept the server waiting for too long: `limit` at a time, and on the whole that and
    /// the time that the bytes so far may take.
    fn until(&self, limit: Duration) -> Option<Instant> {
        let stalled = self.stalled?;
        let paid = Duration::from_millis(self.bytes.saturating_mul(1000) / SLOWEST);
        let allowed = limit.saturating_add(paid);
        Some(stalled + limit.min(allowed.saturating_sub(self.waited)))
    }
}

/// The pace of one connection, told by its socket and by its requests.
#[derive(Debug)]
pub(super) struct Pace(Mutex<State>);

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has time until then; `None` is without end.
    Until(Option<Instant>),
    /// It has nothing to say: end it in order.
    End,
    /// It keeps the server waiting: end it at once.
    Abort,
}

impl Pace {
    /// Of a new connection, whose first head is awaited no longer than any other.
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            step: Step::New,
            since: Instant::now(),
            taking: Taking::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is a single assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes came in.
    pub(super) fn received(&self) {
        let mut state = self.state();
        match state.step {
            // A head has its time from the beginning of the connection on.
            Step::New => state.step = Step::Head,
            Step::Idle => (state.step, state.since) = (Step::Head, Instant::now()),
            Step::Head | Step::Busy | Step::Sending => {}
        }
    }

    /// A request has a head and goes to its route.
    pub(super) fn asked(&self) {
        let mut state = self.state();
        state.step = Step::Busy;
        // The end of the answer before may still be on its way.
        state.taking = Taking { stalled: state.taking.stalled, ..Taking::default() };
    }

    /// All of an answer is known.
    pub(super) fn answered(&self) {
        self.state().step = Step::Sending;
    }

    /// All that was to be written is.
    pub(super) fn flushed(&self) {
        let mut state = self.state();
        if state.step == Step::Sending {
            (state.step, state.since) = (Step::Idle, Instant::now());
        }
    }

    /// The client accepted bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        let taking = &mut self.state().taking;
        taking.bytes = taking.bytes.saturating_add(bytes as u64);
        if let Some(stalled) = taking.stalled.take() {
            taking.waited += stalled.elapsed();
        }
    }

    /// The client accepts no bytes at the moment.
    pub(super) fn stalled(&self) {
        self.state().taking.stalled.get_or_insert_with(Instant::now);
    }

    /// What becomes of the connection now, if the server began to drain at `drained`.
    pub(super) fn verdict(&self, limits: Limits, drained: Option<Instant>) -> Verdict {
        let state = self.state();
        let within = |limit: Duration| {
            let kept = state.since + limit;
            let grace = drained.map(|drained| drained.max(state.since) + GRACE);
            Some(grace.map_or(kept, |grace| grace.min(kept)))
        };
        let (until, then) = match state.step {
            Step::New => (within(limits.head), Verdict::End),
            Step::Idle => (within(limits.idle), Verdict::End),
            Step::Head => (Some(state.since + limits.head), Verdict::Abort),
            Step::Busy | Step::Sending => (None, Verdict::Abort),
        };
        let stalled = state.taking.until(limits.write);
        drop(state);
        let (until, then) = match (until, stalled) {
            (None, stalled) => (stalled, Verdict::Abort),
            (Some(until), Some(stalled)) if stalled < until => (Some(stalled), Verdict::Abort),
            (until, _) => (until, then),
        };
        match until {
            Some(until) if until <= Instant::now() => then,
            until => Verdict::Until(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    #[track_caller]
    fn check(pace: &Pace, drained: Option<Instant>, expected: Verdict) {
        assert_eq!(pace.verdict(LIMITS, drained), expected);
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_its_first_byte_on() {
        let start = Instant::now();
        let pace = Pace::new();
        check(&pace, None, Verdict::Until(Some(start + seconds(10))));
        pace.received();
        check(&pace, None, Verdict::Until(Some(start + seconds(10))));
        pace.asked();
        check(&pace, None, Verdict::Until(None));
        tokio::time::advance(seconds(60)).await;
        pace.answered();
        check(&pace, Some(Instant::now()), Verdict::Until(None));
        tokio::time::advance(seconds(40)).await;
        pace.flushed();
        check(&pace, None, Verdict::Until(Some(start + seconds(175))));
        tokio::time::advance(seconds(20)).await;
        pace.received();
        tokio::time::advance(seconds(9)).await;
        pace.received();
        check(&pace, None, Verdict::Until(Some(start + seconds(130))));
        tokio::time::advance(seconds(1)).await;
        check(&pace, None, Verdict::Abort);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_nothing_is_ended_in_order() {
        let pace = Pace::new();
        tokio::time::advance(seconds(10)).await;
        check(&pace, None, Verdict::End);
        pace.answered();
        pace.flushed();
        check(&pace, None, Verdict::Until(Some(Instant::now() + seconds(75))));
        tokio::time::advance(seconds(75)).await;
        check(&pace, None, Verdict::End);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_leaves_idle_connections_a_moment() {
        let pace = Pace::new();
        let now = Instant::now();
        check(&pace, Some(now), Verdict::Until(Some(now + GRACE)));
        pace.answered();
        pace.flushed();
        tokio::time::advance(seconds(5)).await;
        let drained = Instant::now();
        check(&pace, Some(drained), Verdict::Until(Some(drained + GRACE)));
        pace.asked();
        check(&pace, Some(drained), Verdict::Until(None));
        tokio::time::advance(seconds(5)).await;
        pace.answered();
        pace.flushed();
        check(&pace, Some(drained), Verdict::Until(Some(Instant::now() + GRACE)));
        tokio::time::advance(GRACE).await;
        check(&pace, Some(drained), Verdict::End);
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_ended_at_once() {
        let pace = Pace::new();
        pace.asked();
        pace.stalled();
        tokio::time::advance(seconds(20)).await;
        pace.stalled();
        tokio::time::advance(seconds(10)).await;
        check(&pace, None, Verdict::Abort);
        pace.wrote(1);
        check(&pace, None, Verdict::Until(None));
    }

    /// How many seconds a client gets that takes so many bytes after every stall of so many seconds, up to an
    /// hour.
    async fn lasts(bytes: usize, stall: u64) -> u64 {
        let pace = Pace::new();
        pace.asked();
        for second in 0..3600 {
            pace.stalled();
            if pace.verdict(LIMITS, None) == Verdict::Abort {
                return second;
            }
            tokio::time::advance(seconds(1)).await;
            if (second + 1) % stall == 0 {
                pace.wrote(bytes);
            }
        }
        3600
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_too_slowly_on_the_whole_is_ended_too() {
        assert_eq!(lasts(0, 3600).await, 30);
        assert_eq!(lasts(1, 29).await, 30);
        // Half of what is asked for: half of the time is paid for.
        assert_eq!(lasts(8 << 10, 1).await, 60);
        assert_eq!(lasts(80 << 10, 10).await, 55);
        assert_eq!(lasts(16 << 10, 1).await, 3600);
        assert_eq!(lasts(29 * (16 << 10), 29).await, 3600);
        // Whatever it took before, it may not stand still for so long.
        assert_eq!(lasts(100 << 20, 31).await, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_its_own_time() {
        let pace = Pace::new();
        for _ in 0..10 {
            pace.asked();
            pace.stalled();
            tokio::time::advance(seconds(20)).await;
            check(&pace, None, Verdict::Until(Some(Instant::now() + seconds(10))));
            pace.wrote(1);
            pace.answered();
            pace.flushed();
        }
    }
}
