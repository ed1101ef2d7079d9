//! Time as a dependency: nothing else in this crate asks what time it is.
//!
//! [`TokioClock`] is the real one. [`ManualClock`] moves only when it is told to and counts the
//! timers that were armed, fired and cancelled, so that a test of a timeout takes no time and a
//! forgotten timer shows.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use embed_core::BoxFuture;
use tokio::runtime::Handle;

use crate::sync::Mutex;

/// A source of time and of timers.
///
/// It may stall, and jump ahead or back: the batcher then acts early or late, and nothing worse.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Instant;

    /// A future that is ready once [`now`](Self::now) has reached `deadline`.
    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()>;
}

/// The output of `future`, or `None` if `deadline` comes first.
pub(crate) async fn before<T>(
    clock: &dyn Clock,
    deadline: Option<Instant>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = deadline.map(|deadline| clock.sleep_until(deadline));
    poll_fn(|context| match (future.as_mut().poll(context), &mut sleep) {
        (Poll::Ready(output), _) => Poll::Ready(Some(output)),
        (Poll::Pending, Some(sleep)) => sleep.as_mut().poll(context).map(|()| None),
        (Poll::Pending, None) => Poll::Pending,
    })
    .await
}

/// The clock of the tokio runtime, which tests of callers can pause with `tokio::time::pause`.
///
/// Its timers belong to the runtime in which it was made, and can be made and awaited from anywhere. That
/// runtime must have its time enabled.
#[derive(Clone, Debug)]
pub struct TokioClock(Option<Handle>);

impl TokioClock {
    /// The clock of the runtime that is current here; made outside of any, that of whoever sleeps.
    pub fn new() -> Self {
        Self(Handle::try_current().ok())
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        let _inside = self.0.as_ref().map(Handle::enter);
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}

/// A clock that stands still until it is moved. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use embed_batcher::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - start, Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<ManualState>>);

#[derive(Debug)]
struct ManualState {
    now: Instant,
    next_id: u64,
    sleepers: Vec<(u64, Instant, Waker)>,
    counts: TimerCounts,
}

/// What became of the timers of a [`ManualClock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounts {
    /// Timers that somebody began to wait for.
    pub armed: usize,
    /// Timers whose instant came.
    pub fired: usize,
    /// Timers that were dropped before.
    pub cancelled: usize,
}

impl TimerCounts {
    /// Timers that are armed at the moment.
    pub fn pending(&self) -> usize {
        self.armed - self.fired - self.cancelled
    }
}

impl ManualClock {
    /// A clock that stands at the present instant.
    #[expect(clippy::disallowed_methods, reason = "an origin is needed, and any will do")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(ManualState {
            now: Instant::now(),
            next_id: 0,
            sleepers: Vec::new(),
            counts: TimerCounts::default(),
        })))
    }

    /// Moves the time ahead and wakes whoever waited for what it passes.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut state = self.0.lock();
            state.now = state.now.checked_add(by).unwrap_or(state.now);
            state.due()
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Moves the time back, as a clock that was set does. It stops at the earliest instant there is.
    pub fn turn_back(&self, by: Duration) {
        let mut state = self.0.lock();
        state.now = state.now.checked_sub(by).unwrap_or(state.now);
    }

    /// The earliest instant that anybody waits for.
    pub fn next_timer(&self) -> Option<Instant> {
        self.0.lock().sleepers.iter().map(|(_, deadline, _)| *deadline).min()
    }

    /// What became of the timers so far.
    pub fn timers(&self) -> TimerCounts {
        self.0.lock().counts
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualState {
    fn due(&self) -> Vec<Waker> {
        let due = self.sleepers.iter().filter(|(_, deadline, _)| *deadline <= self.now);
        due.map(|(_, _, waker)| waker.clone()).collect()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.lock().now
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        Box::pin(ManualSleep { clock: self.clone(), deadline, armed: None })
    }
}

/// A timer of a [`ManualClock`]; armed by the first poll that has to wait.
struct ManualSleep {
    clock: ManualClock,
    deadline: Instant,
    armed: Option<u64>,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut state = clock.0.lock();
        if self.armed.is_none() {
            self.armed = Some(state.next_id);
            state.next_id += 1;
            state.counts.armed += 1;
        }
        state.sleepers.retain(|(id, ..)| Some(*id) != self.armed);
        if state.now >= self.deadline {
            state.counts.fired += 1;
            self.armed = None;
            return Poll::Ready(());
        }
        if let Some(id) = self.armed {
            state.sleepers.push((id, self.deadline, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if self.armed.is_some() {
            let mut state = self.clock.0.lock();
            state.sleepers.retain(|(id, ..)| Some(*id) != self.armed);
            state.counts.cancelled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll(sleep: &mut BoxFuture<'static, ()>) -> Poll<()> {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_timer_fires_once_its_instant_has_come() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_millis(25));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        clock.advance(Duration::from_millis(24));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        clock.advance(Duration::from_millis(1));
        assert_eq!(poll(&mut sleep), Poll::Ready(()));
        drop(sleep);
        assert_eq!(clock.timers(), TimerCounts { armed: 1, fired: 1, cancelled: 0 });
    }

    #[test]
    fn a_dropped_timer_is_counted_as_cancelled() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_millis(25));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        assert_eq!(clock.timers().pending(), 1);
        drop(sleep);
        assert_eq!(clock.timers(), TimerCounts { armed: 1, fired: 0, cancelled: 1 });
        assert_eq!(clock.next_timer(), None);
    }
}
