//! The device gate: who may use the device now.
//!
//! A device that generates text and embeds at once does both badly, and may run out of memory. The
//! gate lets one *owner* in at a time:
//!
//! - holders of the same shared owner overlap; anything else excludes;
//! - whoever waits is served in the order of arrival. A foreign owner that waits blocks later
//!   arrivals of the owner inside, so that nobody starves;
//! - a waiter that gives up leaves no trace, and those that only it blocked go on;
//! - dropping the guard releases, also during a panic.
//!
//! Make as many gates as there are devices; there is no global one.
//!
//! # How it works
//!
//! One lock guards the holder, a count, and a line of waiters. Only the front of the line is ever let
//! in, by whoever releases or gives up (`admit`), which also moves the count: a waiter is inside from
//! the moment it is let in, not from the moment it wakes up. If its future is dropped in between, the
//! drop releases. Wakers are called and dropped after the lock is given back, because they may run
//! anything, the drop of another guard of this gate included.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use embed_core::block_on;

use crate::clock::{Clock, before};
use crate::execution::guarded;
use crate::observer::{Observation, Observer};
use crate::sync::Mutex;

/// Exclusion by owner, first come, first served. Clones are the same gate.
///
/// ```
/// use embed_batcher::{DeviceGate, Owner};
///
/// let gate = DeviceGate::new();
/// let (embedding, generation) = (Owner::shared("embedding"), Owner::exclusive("generation"));
/// let first = gate.try_acquire(&embedding).expect("the gate is free");
/// let second = gate.try_acquire(&embedding).expect("the same shared owner overlaps");
/// assert!(gate.try_acquire(&generation).is_none());
/// drop((first, second));
/// assert!(gate.try_acquire(&generation).is_some());
/// ```
#[derive(Clone, Default)]
pub struct DeviceGate {
    state: Arc<Mutex<State>>,
    observed: Option<Arc<Observed>>,
}

/// Where waiting and holding times go.
struct Observed {
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
}

/// Somebody who uses a device. Clones are the same owner; every call of a constructor makes a new one.
#[derive(Clone, Debug)]
pub struct Owner {
    id: u64,
    name: Arc<str>,
    overlaps: bool,
}

impl Owner {
    /// An owner whose holders may be inside together.
    pub fn shared(name: &str) -> Self {
        Self::new(name, true)
    }

    /// An owner who is inside alone, even among its own kind.
    pub fn exclusive(name: &str) -> Self {
        Self::new(name, false)
    }

    fn new(name: &str, overlaps: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), name: name.into(), overlaps }
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Debug, Default)]
struct State {
    /// The owner inside, while `holders` is not zero.
    inside: u64,
    holders: usize,
    next_ticket: u64,
    line: VecDeque<Waiter>,
    /// Tickets that were let in and whose futures do not know it yet.
    admitted: Vec<u64>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    owner: u64,
    overlaps: bool,
    waker: Waker,
}

impl State {
    fn fits(&self, owner: u64, overlaps: bool) -> bool {
        self.holders == 0 || (overlaps && self.inside == owner)
    }

    fn enter(&mut self, owner: u64) {
        self.inside = owner;
        self.holders += 1;
    }

    /// Lets in whoever stands in front and fits; returns whom to wake.
    #[must_use]
    fn admit(&mut self) -> Vec<Waker> {
        let mut wake = Vec::new();
        while let Some(front) = self.line.pop_front() {
            if !self.fits(front.owner, front.overlaps) {
                self.line.push_front(front);
                break;
            }
            self.enter(front.owner);
            self.admitted.push(front.ticket);
            wake.push(front.waker);
        }
        wake
    }

    #[must_use]
    fn leave(&mut self) -> Vec<Waker> {
        self.holders -= 1;
        self.admit()
    }

    /// Takes a ticket out of the admitted ones, if it is there.
    fn collect(&mut self, ticket: u64) -> bool {
        let position = self.admitted.iter().position(|admitted| *admitted == ticket);
        position.map(|position| self.admitted.swap_remove(position)).is_some()
    }
}

impl DeviceGate {
    /// A free gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// A free gate that reports every hold as [`Observation::GateHeld`] when it ends.
    pub fn observed(clock: Arc<dyn Clock>, observer: Arc<dyn Observer>) -> Self {
        Self { state: Arc::default(), observed: Some(Arc::new(Observed { clock, observer })) }
    }

    /// Goes in if nobody excludes `owner` and nobody waits.
    pub fn try_acquire(&self, owner: &Owner) -> Option<GateGuard> {
        let mut state = self.state.lock();
        if !state.line.is_empty() || !state.fits(owner.id, owner.overlaps) {
            return None;
        }
        state.enter(owner.id);
        drop(state);
        let now = self.now();
        Some(self.guard(owner, now, now))
    }

    /// Waits for its turn. Dropping the future gives the place up.
    ///
    /// The place in the line is taken by the first poll.
    pub fn acquire(&self, owner: &Owner) -> Acquire {
        Acquire { gate: self.clone(), owner: owner.clone(), ticket: None, asked: None }
    }

    /// Waits for its turn on a thread that may sleep: not on one that drives futures, nor on one of a pool
    /// whose other threads must run for the holder to leave (a runtime's blocking threads, if there are
    /// more waiters than threads).
    pub fn acquire_blocking(&self, owner: &Owner) -> GateGuard {
        block_on(self.acquire(owner))
    }

    /// Waits for its turn, but not beyond `deadline`: `None` then, without a trace.
    pub async fn acquire_before(
        &self,
        owner: &Owner,
        clock: &dyn Clock,
        deadline: Instant,
    ) -> Option<GateGuard> {
        before(clock, Some(deadline), self.acquire(owner)).await
    }

    /// How many hold the gate, and how many wait for it.
    pub fn occupancy(&self) -> Occupancy {
        let state = self.state.lock();
        Occupancy { holders: state.holders, waiting: state.line.len() }
    }

    fn now(&self) -> Option<Instant> {
        self.observed.as_ref().map(|observed| observed.clock.now())
    }

    fn guard(&self, owner: &Owner, asked: Option<Instant>, entered: Option<Instant>) -> GateGuard {
        GateGuard { gate: self.clone(), owner: owner.clone(), asked, entered }
    }
}

impl fmt::Debug for DeviceGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceGate").field("occupancy", &self.occupancy()).finish_non_exhaustive()
    }
}

/// How full a gate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Guards that exist, and waiters that were let in and do not know it yet.
    pub holders: usize,
    /// Waiters that were not let in yet.
    pub waiting: usize,
}

/// The wait for a [`DeviceGate`].
#[must_use = "a future does nothing unless it is polled"]
#[derive(Debug)]
pub struct Acquire {
    gate: DeviceGate,
    owner: Owner,
    /// The place in the line, from the first poll that had to wait until the guard is handed out.
    ticket: Option<u64>,
    asked: Option<Instant>,
}

impl Future for Acquire {
    type Output = GateGuard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<GateGuard> {
        let this = &mut *self;
        let Some(ticket) = this.ticket else {
            this.asked = this.gate.now();
            let mut state = this.gate.state.lock();
            if state.line.is_empty() && state.fits(this.owner.id, this.owner.overlaps) {
                state.enter(this.owner.id);
                drop(state);
                return Poll::Ready(this.gate.guard(&this.owner, this.asked, this.asked));
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.line.push_back(Waiter {
                ticket,
                owner: this.owner.id,
                overlaps: this.owner.overlaps,
                waker: context.waker().clone(),
            });
            this.ticket = Some(ticket);
            return Poll::Pending;
        };
        let mut state = this.gate.state.lock();
        if state.collect(ticket) {
            drop(state);
            this.ticket = None;
            return Poll::Ready(this.gate.guard(&this.owner, this.asked, this.gate.now()));
        }
        let waiter = state.line.iter_mut().find(|waiter| waiter.ticket == ticket);
        let replaced = waiter
            .filter(|waiter| !waiter.waker.will_wake(context.waker()))
            .map(|waiter| std::mem::replace(&mut waiter.waker, context.waker().clone()));
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.gate.state.lock();
        let (left, wake) = if state.collect(ticket) {
            (None, state.leave())
        } else {
            let place = state.line.iter().position(|waiter| waiter.ticket == ticket);
            (place.and_then(|place| state.line.remove(place)), state.admit())
        };
        drop(state);
        drop(left);
        wake.into_iter().for_each(Waker::wake);
    }
}

/// The right to use the device; dropping it gives the right back.
#[must_use = "dropping the guard gives the gate back"]
pub struct GateGuard {
    gate: DeviceGate,
    owner: Owner,
    asked: Option<Instant>,
    entered: Option<Instant>,
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        let wake = self.gate.state.lock().leave();
        wake.into_iter().for_each(Waker::wake);
        if let (Some(observed), Some(asked), Some(entered)) =
            (&self.gate.observed, self.asked, self.entered)
        {
            // Guards are dropped in the middle of everything, also while a panic unwinds.
            let told = guarded(|| {
                observed.observer.observe(&Observation::GateHeld {
                    owner: &self.owner.name,
                    waited: entered.saturating_duration_since(asked),
                    held: observed.clock.now().saturating_duration_since(entered),
                });
            });
            drop(told);
        }
    }
}

impl fmt::Debug for GateGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateGuard").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
