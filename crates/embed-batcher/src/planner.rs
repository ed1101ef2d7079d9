//! The policy: which items form the next batch, and when. It knows no thread, no clock and no text.
//!
//! The planner is a pure state machine: [`Planner::step`] takes an [`Event`] and the time and returns
//! [`Action`]s; [`wants_permit`](Planner::wants_permit), [`next_wake_up`](Planner::next_wake_up) and
//! [`ended`](Planner::ended) are functions of the state. The worker does what it says.
//!
//! # In words
//!
//! *Items wait, batches do not.* The queue holds items until the moment in which a slot is free and the
//! gate is granted, together called the *permit*. The planner wants a permit as soon as any group of
//! items is due: at once without a linger; else when its oldest has waited so long, when its items
//! fill a budget, or when the drain has begun. Only when the permit is there are items chosen, so that
//! a batch has everything that came in the meantime.
//!
//! *Equal items ride along.* When an item is chosen, every equal one that waits gets its row too,
//! without cost; and an item that arrives while an equal one is with the backend joins that row and
//! is never chosen itself. It stays counted as queued until the row is there, because it takes memory.
//!
//! *Answers come once.* An item is waiting, running or gone. A request that is withdrawn or expires takes
//! its waiting items out; those that run stay in their batch, and their rows go nowhere.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Instant;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::config::{BatchConfig, Class};
use crate::fair_queue::{Charge, FairQueue, Group, RequestId};
use crate::fault::{Fault, Seeded};
use crate::ledger::Amount;
use crate::observer::CloseCause;

/// Names one batch.
pub(crate) type BatchId = u64;

/// One item of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryId {
    pub(crate) request: RequestId,
    pub(crate) index: usize,
}

/// As many as a request or a row has, mostly one.
pub(crate) type Few<T> = SmallVec<[T; 1]>;

/// A request as the planner sees it.
#[derive(Debug)]
pub(crate) struct Arrival<G, K> {
    /// Grows from request to request.
    pub(crate) request: RequestId,
    pub(crate) group: G,
    pub(crate) class: Class,
    /// When its caller sent it.
    pub(crate) sent: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) entries: Few<Arriving<K>>,
}

#[derive(Debug)]
pub(crate) struct Arriving<K> {
    pub(crate) tokens: usize,
    pub(crate) bytes: usize,
    /// What makes it equal to others; `None` shares with nobody. It brings its own hash, a good one.
    pub(crate) content: Option<K>,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event<G, K> {
    Arrived(Arrival<G, K>),
    /// The caller went away, or the request was answered with an error.
    Withdrawn(RequestId),
    /// A slot and the gate are ours, for one batch.
    Permitted,
    /// A batch came back.
    Finished(BatchId),
    /// Nothing but time.
    TimePassed,
    /// No more requests come; the old ones end by the deadline.
    Drain(Instant),
    /// The last handle is gone: nobody needs the answers.
    Abandoned,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Items left the queue.
    Release(Amount),
    /// Send these to the backend, with the permit.
    Dispatch(Dispatch),
    /// The rows of a batch belong to these entries.
    Deliver { rows: Vec<Few<EntryId>> },
    /// Answer a request without rows.
    Answer {
        request: RequestId,
        verdict: Verdict,
        /// Its items that had not gone to the backend.
        queued: usize,
    },
    /// Items joined rows that were computed anyway.
    Shared { texts: usize },
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispatch {
    pub(crate) batch: BatchId,
    /// One entry for each row to compute.
    pub(crate) rows: Vec<EntryId>,
    /// The other entries that went, because their rows are computed anyway.
    pub(crate) riders: Vec<EntryId>,
    pub(crate) tokens: usize,
    pub(crate) cause: CloseCause,
    /// When the oldest of it arrived.
    pub(crate) oldest: Instant,
}

/// Why a request ends without rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Expired,
    Closed,
    Withdrawn,
}

#[derive(Debug)]
struct Request<K> {
    arrived: Instant,
    deadline: Option<Instant>,
    entries: Few<Entry<K>>,
    /// Entries before this one do not wait.
    first: usize,
    waiting: usize,
    waiting_tokens: usize,
    running: usize,
}

#[derive(Debug)]
struct Entry<K> {
    tokens: usize,
    bytes: usize,
    content: Option<K>,
    waits: bool,
    /// The row that it joined: batch and place.
    joined: Option<(BatchId, usize)>,
}

impl<K> Entry<K> {
    fn weight(&self) -> Amount {
        Amount { texts: 1, tokens: self.tokens, bytes: self.bytes }
    }
}

/// A batch that is with the backend.
#[derive(Debug)]
struct Running<K> {
    rows: Vec<Few<EntryId>>,
    contents: Vec<K>,
}

#[derive(Debug)]
pub(crate) struct Planner<G, K> {
    config: BatchConfig,
    seeded: Seeded,
    /// The latest time that was seen: it never goes back.
    now: Option<Instant>,
    queue: FairQueue<G>,
    requests: FxHashMap<RequestId, Request<K>>,
    deadlines: BTreeSet<(Instant, RequestId)>,
    waiting_contents: FxHashMap<K, Few<EntryId>>,
    running: FxHashMap<BatchId, Running<K>>,
    /// Where a running content is computed: batch and row.
    running_contents: FxHashMap<K, (BatchId, usize)>,
    next_batch: BatchId,
    drain: Option<Instant>,
    abandoned: bool,
    /// For two of the seeded faults.
    muted: bool,
    left_behind: Option<Instant>,
}

impl<G: Clone + Eq + Hash, K: Clone + Eq + Hash> Planner<G, K> {
    pub(crate) fn new(config: BatchConfig, seeded: Seeded) -> Self {
        Self {
            queue: FairQueue::new(config.aging, seeded),
            config,
            seeded,
            now: None,
            requests: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            waiting_contents: FxHashMap::default(),
            running: FxHashMap::default(),
            running_contents: FxHashMap::default(),
            next_batch: 0,
            drain: None,
            abandoned: false,
            muted: false,
            left_behind: None,
        }
    }

    /// Takes an event in and says what is to be done about it, in order.
    pub(crate) fn step(&mut self, event: Event<G, K>, now: Instant) -> Vec<Action> {
        let now = self.settle(now);
        let mut actions = Vec::new();
        // First of all what time alone decides: nothing that is over may be chosen.
        self.expire(now, &mut actions);
        match event {
            Event::Arrived(arrival) => self.arrive(arrival, now, &mut actions),
            Event::Withdrawn(request) => self.withdraw(request, Verdict::Withdrawn, &mut actions),
            Event::Permitted => self.form_batch(now, &mut actions),
            Event::Finished(batch) => self.finish(batch, &mut actions),
            Event::TimePassed => {}
            Event::Drain(deadline) => {
                let earlier = self.drain.map_or(deadline, |drain| drain.min(deadline));
                self.drain = Some(earlier);
                self.expire(now, &mut actions);
            }
            Event::Abandoned => {
                self.abandoned = !self.seeded.is(Fault::I21OutlivesItsHandles);
                if self.abandoned {
                    self.end_all(&mut actions);
                }
            }
        }
        actions
    }

    /// Whether there is something to dispatch as soon as a slot and the gate are free.
    pub(crate) fn wants_permit(&self) -> bool {
        let Some(now) = self.now else { return false };
        !self.muted && self.queue.groups().any(|group| self.due(group, now))
    }

    /// The tokens of what waits of a request; `None` if nothing does. What joined the row of another does not
    /// wait for its turn.
    pub(crate) fn waiting_tokens(&self, request: RequestId) -> Option<usize> {
        let request = self.requests.get(&request).filter(|request| request.waiting > 0)?;
        Some(request.waiting_tokens)
    }

    /// When the planner next needs to be told the time, if ever. Ask after every step.
    pub(crate) fn next_wake_up(&self) -> Option<Instant> {
        if self.ended() {
            return None;
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        // A window matters only until something is due; from then on it is the permit that matters.
        let lingers = !self.wants_permit();
        let windows = self.queue.groups().filter(|_| lingers);
        let window = windows.filter_map(|group| self.window_end(group)).min();
        [deadline, window, self.drain, self.left_behind].into_iter().flatten().min()
    }

    /// Whether nothing can happen any more.
    pub(crate) fn ended(&self) -> bool {
        let idle = self.requests.is_empty() && self.running.is_empty();
        let over = self.drain.zip(self.now).is_some_and(|(deadline, now)| now >= deadline);
        self.abandoned || over || (self.drain.is_some() && idle)
    }

    /// The deadline of a drain that has nothing left to do before it.
    pub(crate) fn drained_before(&self) -> Option<Instant> {
        let deadline = self.drain.filter(|_| !self.abandoned)?;
        self.now.is_some_and(|now| now < deadline).then_some(deadline)
    }

    fn settle(&mut self, now: Instant) -> Instant {
        if self.seeded.is(Fault::I22TrustsTheClock) {
            let last = self.now.unwrap_or(now);
            now.checked_duration_since(last).expect("a clock never goes back");
        }
        let now = self.now.map_or(now, |last| last.max(now));
        self.now = Some(now);
        now
    }

    fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.seeded.is(Fault::I18IgnoresDeadlines) {
            self.deadlines.clear();
        }
        while let Some(&(deadline, request)) = self.deadlines.first()
            && deadline <= now
        {
            self.withdraw(request, Verdict::Expired, actions);
        }
        if self.drain.is_some_and(|drain| drain <= now) {
            self.end_all(actions);
        }
    }

    fn end_all(&mut self, actions: &mut Vec<Action>) {
        let mut open: Vec<RequestId> = self.requests.keys().copied().collect();
        open.sort_unstable();
        for request in open {
            self.withdraw(request, Verdict::Closed, actions);
        }
    }

    fn arrive(&mut self, arrival: Arrival<G, K>, now: Instant, actions: &mut Vec<Action>) {
        let Arrival { request: id, group, class, sent, deadline, entries } = arrival;
        self.muted = false;
        // It waits from the moment it was sent, however late the worker hears of it.
        let arrived = sent.min(now);
        let mut request = Request {
            arrived,
            deadline,
            entries: Few::new(),
            first: 0,
            waiting: 0,
            waiting_tokens: 0,
            running: 0,
        };
        let mut joined = 0;
        for (index, entry) in entries.into_iter().enumerate() {
            let Arriving { tokens, bytes, content } = entry;
            let this = EntryId { request: id, index };
            let running = content.as_ref().and_then(|content| self.running_contents.get(content));
            if let Some(&(batch, row)) = running
                && let Some(running) = self.running.get_mut(&batch)
            {
                running.rows[row].push(this);
                request.running += 1;
                joined += 1;
                let joined = Some((batch, row));
                request.entries.push(Entry { tokens, bytes, content: None, waits: false, joined });
                continue;
            }
            if let Some(content) = &content {
                self.waiting_contents.entry(content.clone()).or_default().push(this);
            }
            request.waiting += 1;
            request.waiting_tokens = request.waiting_tokens.saturating_add(tokens);
            request.entries.push(Entry { tokens, bytes, content, waits: true, joined: None });
        }
        if request.waiting > 0 {
            self.queue.insert(id, group, class, arrived, (request.waiting, request.waiting_tokens));
        }
        if joined > 0 {
            actions.push(Action::Shared { texts: joined });
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        self.requests.insert(id, request);
        self.expire(now, actions);
    }

    /// Ends a request without rows.
    fn withdraw(&mut self, id: RequestId, verdict: Verdict, actions: &mut Vec<Action>) {
        if verdict == Verdict::Withdrawn && self.seeded.is(Fault::I6DispatchesTheCancelled) {
            return;
        }
        let Some(mut request) = self.requests.remove(&id) else { return };
        if let Some(deadline) = request.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if self.seeded.is(Fault::I15LeavesATimerBehind) {
            self.left_behind = self.now.and_then(|now| now.checked_add(self.config.aging));
        }
        let queued = request.waiting;
        let mut released = Amount::default();
        for index in 0..request.entries.len() {
            let this = EntryId { request: id, index };
            let entry = &request.entries[index];
            if let Some((batch, row)) = entry.joined {
                released = released.plus(entry.weight());
                if let Some(running) = self.running.get_mut(&batch) {
                    running.rows[row].retain(|taker| *taker != this);
                }
            } else if entry.waits {
                let (queue, contents) = (&mut self.queue, &mut self.waiting_contents);
                released =
                    released.plus(take(queue, contents, &mut request, this, Charge::Nothing));
            }
        }
        let forgets = self.seeded.is(Fault::I5ForgetsToReleaseTheCancelled);
        if released.texts > 0 && !forgets {
            actions.push(Action::Release(released));
        }
        actions.push(Action::Answer { request: id, verdict, queued });
    }

    fn window_end(&self, group: &Group<G>) -> Option<Instant> {
        let from = if self.seeded.is(Fault::I13ArrivalsMoveTheWindow) {
            group.youngest()
        } else {
            group.oldest()
        };
        let mut linger = self.config.linger;
        if self.seeded.is(Fault::I11WaitsWhenIdle) && self.running.is_empty() {
            linger += std::time::Duration::from_millis(1);
        }
        from?.checked_add(linger)
    }

    fn due(&self, group: &Group<G>, now: Instant) -> bool {
        let full = group.texts >= self.config.max_rows || group.tokens >= self.config.max_tokens;
        self.drain.is_some()
            || (full && !self.seeded.is(Fault::I14IgnoresAFullBudget))
            || self.window_end(group).is_some_and(|end| end <= now)
    }

    fn form_batch(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let Some(group) = self.queue.lead(now, |group| self.due(group, now)) else { return };
        let max_rows =
            self.config.max_rows + usize::from(self.seeded.is(Fault::I3TakesOneRowTooMany));
        let due = |group: &Group<G>| self.due(group, now);
        let ceilings = self.queue.ceilings(self.config.max_tokens, due);
        let id = self.next_batch;
        self.next_batch += 1;
        let mut batch = Running { rows: Vec::new(), contents: Vec::new() };
        let (mut tokens, mut oldest) = (0, now);
        let (mut rows, mut riders) = (Vec::new(), Vec::new());
        let mut released = Amount::default();
        let cause = loop {
            if batch.rows.len() == max_rows {
                break CloseCause::Rows;
            }
            let Some(request) = self.queue.next(group, now, ceilings) else {
                let more = self.queue.waits(group);
                break if more { CloseCause::Fairness } else { CloseCause::Exhausted };
            };
            let Some((entry, cost)) = self.first_waiting(request) else {
                break CloseCause::Exhausted;
            };
            if !batch.rows.is_empty() && cost.saturating_add(tokens) > self.config.max_tokens {
                break CloseCause::Tokens;
            }
            tokens = tokens.saturating_add(cost);
            let Some((arrived, content, weight)) = self.start(entry, Charge::Tokens) else {
                break CloseCause::Exhausted;
            };
            oldest = oldest.min(arrived);
            released = released.plus(weight);
            let mut takers = Few::from_elem(entry, 1);
            if let Some(content) = content {
                for rider in self.equal_to(&content) {
                    if let Some((arrived, _, weight)) = self.start(rider, Charge::Nothing) {
                        oldest = oldest.min(arrived);
                        released = released.plus(weight);
                    }
                    takers.push(rider);
                    riders.push(rider);
                }
                self.running_contents.insert(content.clone(), (id, batch.rows.len()));
                batch.contents.push(content);
            }
            rows.push(entry);
            batch.rows.push(takers);
        };
        self.muted = self.seeded.is(Fault::I12ForgetsWhatStillWaits);
        actions.push(Action::Release(released));
        if !riders.is_empty() {
            actions.push(Action::Shared { texts: riders.len() });
        }
        self.running.insert(id, batch);
        let dispatch = Dispatch { batch: id, rows, riders, tokens, cause, oldest };
        actions.push(Action::Dispatch(dispatch));
    }

    /// The waiting entry of a request that goes next, and its cost.
    fn first_waiting(&mut self, id: RequestId) -> Option<(EntryId, usize)> {
        let request = self.requests.get_mut(&id)?;
        while request.entries.get(request.first).is_some_and(|entry| !entry.waits) {
            request.first += 1;
        }
        let mut index = request.first;
        if self.seeded.is(Fault::I19TakesTheLastFirst) {
            index = request.entries.iter().rposition(|entry| entry.waits)?;
        }
        let tokens = request.entries.get(index)?.tokens;
        Some((EntryId { request: id, index }, tokens))
    }

    /// Forgets the waiting entries with this content and returns them, oldest request first.
    fn equal_to(&mut self, content: &K) -> Few<EntryId> {
        let mut equal = self.waiting_contents.remove(content).unwrap_or_default();
        equal.sort_unstable_by_key(|entry| (entry.request, entry.index));
        equal
    }

    /// Moves an entry from waiting to running; says when it arrived, what it is, and its weight.
    fn start(&mut self, id: EntryId, charge: Charge) -> Option<(Instant, Option<K>, Amount)> {
        let request = self.requests.get_mut(&id.request)?;
        request.running += 1;
        let weight = take(&mut self.queue, &mut self.waiting_contents, request, id, charge);
        // A running entry is found by its batch: its content is of no more use here.
        Some((request.arrived, request.entries[id.index].content.take(), weight))
    }

    fn finish(&mut self, batch: BatchId, actions: &mut Vec<Action>) {
        let Some(Running { rows, contents }) = self.running.remove(&batch) else { return };
        for content in contents {
            self.running_contents.remove(&content);
        }
        let mut released = Amount::default();
        for entry in rows.iter().flatten() {
            let Some(request) = self.requests.get_mut(&entry.request) else { continue };
            request.running -= 1;
            if request.entries[entry.index].joined.take().is_some() {
                released = released.plus(request.entries[entry.index].weight());
            }
            if request.running == 0 && request.waiting == 0 {
                if let Some(deadline) = request.deadline {
                    self.deadlines.remove(&(deadline, entry.request));
                }
                self.requests.remove(&entry.request);
            }
        }
        if released.texts > 0 {
            actions.push(Action::Release(released));
        }
        actions.push(Action::Deliver { rows });
    }
}

/// Takes a waiting entry out of the queue and of the index of contents; says what it weighed.
fn take<G: Clone + Eq + Hash, K: Eq + Hash>(
    queue: &mut FairQueue<G>,
    contents: &mut FxHashMap<K, Few<EntryId>>,
    request: &mut Request<K>,
    id: EntryId,
    charge: Charge,
) -> Amount {
    let entry = &mut request.entries[id.index];
    entry.waits = false;
    if let Some(content) = &entry.content
        && let Some(equal) = contents.get_mut(content)
    {
        if let Some(place) = equal.iter().position(|other| *other == id) {
            equal.swap_remove(place);
        }
        if equal.is_empty() {
            contents.remove(content);
        }
    }
    queue.take(id.request, entry.tokens, charge);
    request.waiting -= 1;
    request.waiting_tokens = request.waiting_tokens.saturating_sub(entry.tokens);
    entry.weight()
}

#[cfg(test)]
mod tests;
