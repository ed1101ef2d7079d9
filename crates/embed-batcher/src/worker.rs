//! The one task that owns the queue. It does what the planner says, and decides nothing.
//!
//! Each poll takes in, in this order, everything that callers sent, everything that came back from the
//! backend, and the timer; only then does it use a permit, so that a batch has everything that came
//! before it. The order also makes a withdrawal that was sent before a dispatch effective.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use embed_core::BoxFuture;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::assembly::Assembly;
use crate::backend::Backend;
use crate::content::Content;
use crate::error::Error;
use crate::execution::{Failure, ItemResult, located, run};
use crate::fair_queue::RequestId;
use crate::fault::Fault;
use crate::ledger::InLine;
use crate::message::{Answer, BatchContent, Drained, Finished, Message, Submission};
use crate::observer::{Observation, Route};
use crate::planner::{Action, Arrival, Arriving, Dispatch, EntryId, Event, Few, Planner, Verdict};
use crate::shared::{Permit, Shared};
use crate::sync::interleave;

/// The worker of a batcher, as a future that ends after a drain or with the last handle.
///
/// [`Builder::spawn`](crate::Builder::spawn) gives it to the runtime. Dropping it answers every waiter
/// with [`Error::Closed`].
#[must_use = "nothing is answered unless the worker is polled"]
pub struct Worker<B: Backend> {
    shared: Arc<Shared<B>>,
    messages: mpsc::UnboundedReceiver<Message<B>>,
    finished: mpsc::UnboundedReceiver<Finished<B>>,
    /// For the batches; kept here too, so that the channel never ends.
    report: mpsc::UnboundedSender<Finished<B>>,
    planner: Planner<B::Options, Content<B>>,
    requests: FxHashMap<RequestId, Request<B>>,
    /// The time of this round.
    now: Instant,
    permit: Option<PermitWait>,
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
    drains: Vec<oneshot::Sender<Drained>>,
    abandoned: usize,
    /// Every slot, at the end of a drain.
    all_slots: Option<BoxFuture<'static, Option<[OwnedSemaphorePermit; 2]>>>,
    /// For one of the seeded faults.
    failed_before: bool,
}

/// Rounds of one poll before other tasks have a turn.
const MOST_ROUNDS: usize = 64;

/// The wait for a slot and the gate.
struct PermitWait {
    since: Instant,
    permit: BoxFuture<'static, Option<Permit>>,
}

struct Request<B: Backend> {
    /// Those that have not gone to the backend: what has gone is not counted as queued any more.
    items: Few<Option<Arc<B::Item>>>,
    options: B::Options,
    assembly: Assembly<B>,
    reply: oneshot::Sender<Answer<B>>,
    /// Of an interactive request, until nothing of it waits any more.
    in_line: Option<InLine>,
    sent: Instant,
    dispatched: Option<Instant>,
}

impl<B: Backend> Request<B> {
    /// Answers it with an error, though some of it may still wait.
    fn end(self, error: Error<B::Error>) {
        // Before the answer: what its caller asks for next need not wait for it.
        drop(self.in_line);
        // Nobody listens after a withdrawal.
        let _ = self.reply.send(Err(error));
    }
}

/// What the actions of a step may use up.
struct Means<B: Backend> {
    permit: Option<(Permit, Duration)>,
    finished: Option<Finished<B>>,
}

impl<B: Backend> Means<B> {
    const NONE: Self = Self { permit: None, finished: None };
}

// Futures inside are boxed.
impl<B: Backend> Unpin for Worker<B> {}

impl<B: Backend> Future for Worker<B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..MOST_ROUNDS {
            this.now = this.shared.clock.now();
            let mut progress = this.take_messages(context);
            progress |= this.take_finished(context);
            if this.planner.ended() {
                if progress {
                    // Until both channels have nothing left and know whom to wake.
                    continue;
                }
                return this.poll_end(context);
            }
            // A request that was admitted just before a drain may come after it: its batch needs a slot.
            this.all_slots = None;
            progress |= this.poll_timer(context);
            if this.poll_permit(context) {
                // Others have a turn after every batch: a backend may be done with it before this thread goes
                // on, and a line of batches would keep the thread for as long as it is. Where more slots are
                // free, the next batch goes a turn of the runtime later.
                break;
            }
            if !progress {
                return Poll::Pending;
            }
        }
        // A batch, callers without end, or a clock whose timers fire early.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<B: Backend> Worker<B> {
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        messages: mpsc::UnboundedReceiver<Message<B>>,
    ) -> Self {
        let (report, finished) = mpsc::unbounded_channel();
        Self {
            planner: Planner::new(shared.config.clone(), shared.seeded),
            now: shared.clock.now(),
            shared,
            messages,
            finished,
            report,
            requests: FxHashMap::default(),
            permit: None,
            timer: None,
            drains: Vec::new(),
            abandoned: 0,
            all_slots: None,
            failed_before: false,
        }
    }

    fn step(&mut self, event: Event<B::Options, Content<B>>, means: Means<B>) {
        let actions = self.planner.step(event, self.now);
        self.act(actions, means);
    }

    /// Takes in what callers have sent so far. What they send meanwhile is for the next round, so that
    /// nobody can keep the worker from everything else.
    fn take_messages(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..=self.messages.len() {
            // Without waiting first, because a wait counts against tokio's budget for one poll and would
            // cut a long line of messages into small batches.
            let message = match self.messages.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => match self.messages.poll_recv(context) {
                    Poll::Pending => return progress,
                    Poll::Ready(Some(message)) => message,
                    Poll::Ready(None) => return self.abandon() || progress,
                },
                Err(TryRecvError::Disconnected) => return self.abandon() || progress,
            };
            progress = true;
            match message {
                Message::Submit(submission) => self.submit(submission),
                Message::Withdraw(id) => self.step(Event::Withdrawn(id), Means::NONE),
                Message::Drain { deadline, done } => {
                    self.drains.push(done);
                    self.step(Event::Drain(deadline), Means::NONE);
                }
            }
        }
        progress
    }

    fn abandon(&mut self) -> bool {
        let ended = self.planner.ended();
        if !ended {
            self.step(Event::Abandoned, Means::NONE);
        }
        !ended && self.planner.ended()
    }

    fn submit(&mut self, submission: Submission<B>) {
        let Submission {
            id,
            items,
            costs,
            contents,
            options,
            request,
            sent,
            assembly,
            reply,
            in_line,
        } = submission;
        let mut contents = contents.into_iter();
        let entries = costs.iter().map(|cost| Arriving {
            tokens: cost.tokens,
            bytes: cost.bytes,
            content: contents.next(),
        });
        let arrival = Arrival {
            request: id,
            group: options.clone(),
            class: request.class,
            sent,
            deadline: request.deadline,
            entries: entries.collect(),
        };
        let items = items.into_iter().map(Some).collect();
        self.requests.insert(
            id,
            Request { items, options, assembly, reply, in_line, sent, dispatched: None },
        );
        self.step(Event::Arrived(arrival), Means::NONE);
        // All of it may have joined rows that are computed already.
        self.move_up(id);
    }

    /// Makes the place of a request in the line as long as what still waits of it.
    fn move_up(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Some(in_line) = &mut request.in_line else { return };
        match self.planner.waiting_tokens(id) {
            Some(tokens) => in_line.shorten_to(tokens),
            // What is with the backend is nobody's to overtake.
            None => request.in_line = None,
        }
    }

    fn take_finished(&mut self, context: &mut Context<'_>) -> bool {
        let mut progress = false;
        while let Poll::Ready(Some(finished)) = self.finished.poll_recv(context) {
            progress = true;
            let batch = finished.content.id;
            self.step(Event::Finished(batch), Means { permit: None, finished: Some(finished) });
        }
        progress
    }

    /// Arms the timer that the planner asks for; says whether it fired.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> bool {
        let wanted = self.planner.next_wake_up();
        if self.timer.as_ref().map(|(deadline, _)| *deadline) != wanted {
            self.timer = wanted.map(|deadline| (deadline, self.shared.clock.sleep_until(deadline)));
        }
        let Some((_, sleep)) = &mut self.timer else { return false };
        if sleep.as_mut().poll(context).is_pending() {
            return false;
        }
        self.timer = None;
        self.step(Event::TimePassed, Means::NONE);
        true
    }

    /// Gets a permit when the planner has a use for one, and uses it.
    fn poll_permit(&mut self, context: &mut Context<'_>) -> bool {
        if !self.planner.wants_permit() {
            self.permit = None;
            return false;
        }
        let (shared, now) = (&self.shared, self.now);
        if self.permit.is_none()
            && let Some(permit) = shared.try_permit()
        {
            self.step(
                Event::Permitted,
                Means { permit: Some((permit, Duration::ZERO)), finished: None },
            );
            return true;
        }
        let wait = self
            .permit
            .get_or_insert_with(|| PermitWait { since: now, permit: Box::pin(shared.permit()) });
        let Poll::Ready(permit) = wait.permit.as_mut().poll(context) else { return false };
        let waited = now.saturating_duration_since(wait.since);
        self.permit = None;
        // Slots are closed only by the end of this worker.
        let permit = permit.map(|permit| (permit, waited));
        self.step(Event::Permitted, Means { permit, finished: None });
        true
    }

    fn act(&mut self, actions: Vec<Action>, mut means: Means<B>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Release(amount) => self.shared.ledger.release(amount),
                Action::Shared { texts } => self.shared.observe(&Observation::Shared { texts }),
                Action::Dispatch(dispatch) => {
                    if let Some((permit, waited)) = means.permit.take() {
                        self.dispatch(&dispatch, permit, waited);
                    }
                }
                Action::Deliver { rows } => {
                    if let Some(finished) = means.finished.take() {
                        actions.extend(self.deliver(&rows, finished));
                    }
                }
                Action::Answer { request, verdict, queued } => {
                    self.answer(request, verdict, queued);
                }
            }
        }
    }

    fn dispatch(&mut self, dispatch: &Dispatch, permit: Permit, permit_waited: Duration) {
        let now = self.now;
        let mut item = |entry: &EntryId| {
            let request = self.requests.get_mut(&entry.request)?;
            request.dispatched.get_or_insert(now);
            request.items[entry.index].take()
        };
        let items: Vec<Arc<B::Item>> = dispatch.rows.iter().filter_map(&mut item).collect();
        dispatch.riders.iter().for_each(|rider| drop(item(rider)));
        let mut moved = None;
        for EntryId { request, .. } in dispatch.rows.iter().chain(&dispatch.riders) {
            // The items of a request mostly follow each other.
            if moved.replace(*request) != Some(*request) {
                self.move_up(*request);
            }
        }
        let first = dispatch.rows.first().and_then(|entry| self.requests.get(&entry.request));
        let Some(options) = first.map(|request| request.options.clone()) else { return };
        self.shared.observe(&Observation::BatchStarted {
            rows: dispatch.rows.len(),
            texts: dispatch.rows.len() + dispatch.riders.len(),
            tokens: dispatch.tokens,
            cause: dispatch.cause,
            waited: now.saturating_duration_since(dispatch.oldest),
            permit_waited,
            route: Route::Queued,
        });
        let batch = Batch {
            shared: Arc::clone(&self.shared),
            report: self.report.clone(),
            permit: Some(permit),
            content: Some(BatchContent { id: dispatch.batch, items, options }),
            tokens: dispatch.tokens,
            results: None,
        };
        self.shared.execute(Box::new(move || batch.run()));
    }

    /// Hands out the rows of a batch; the requests that failed with it are withdrawn.
    fn deliver(&mut self, rows: &[Few<EntryId>], finished: Finished<B>) -> Vec<Action> {
        let Finished { content, mut results } = finished;
        self.shared.remember(&content.items, &content.options, &results);
        if self.shared.seeded.is(Fault::I8FailsTheBatchAfterAFailure) {
            let failed = results.iter().any(Result::is_err);
            if std::mem::replace(&mut self.failed_before, failed) {
                let failure = Failure { error: Error::Closed, alone: false };
                results.fill(Err(failure));
            }
        }
        let mut actions = Vec::new();
        for (takers, result) in rows.iter().zip(results) {
            for taker in takers {
                match &result {
                    Ok(row) => self.put(*taker, row.clone()),
                    Err(failure) => actions.extend(self.fail(*taker, failure.clone())),
                }
            }
        }
        actions
    }

    fn put(&mut self, entry: EntryId, row: B::Row) {
        let Some(request) = self.requests.get_mut(&entry.request) else { return };
        let lost = self.shared.seeded.is(Fault::I1LosesTheLastAnswer)
            && entry.index + 1 == request.assembly.len()
            && entry.index > 0;
        if lost {
            return;
        }
        request.assembly.put(entry.index, row);
        if request.assembly.missing() > 0 {
            return;
        }
        let Some(request) = self.requests.remove(&entry.request) else { return };
        let dispatched = request.dispatched.unwrap_or(request.sent);
        self.shared.observe(&Observation::Completed {
            texts: request.assembly.len(),
            waited: dispatched.saturating_duration_since(request.sent),
            took: self.now.saturating_duration_since(request.sent),
        });
        // The caller may have gone a moment ago: its withdrawal is on the way and will find nothing.
        let _ = request.reply.send(Ok(request.assembly.into_rows()));
    }

    fn fail(&mut self, entry: EntryId, failure: Failure<B::Error>) -> Vec<Action> {
        let Some(request) = self.requests.remove(&entry.request) else { return Vec::new() };
        let error = located(&*self.shared.backend, failure, request.assembly.position(entry.index));
        let texts = request.assembly.len();
        // Only a batch that was dropped by its executor ends like this.
        let lost = matches!(error, Error::Closed);
        let ended =
            if lost { Observation::Closed { texts } } else { Observation::Failed { texts } };
        self.shared.observe(&ended);
        request.end(error);
        // What else waits of the request is of no use any more.
        self.planner.step(Event::Withdrawn(entry.request), self.now)
    }

    fn answer(&mut self, id: RequestId, verdict: Verdict, queued: usize) {
        let Some(request) = self.requests.remove(&id) else { return };
        let texts = request.assembly.len();
        let running = texts - queued;
        let error = match verdict {
            Verdict::Expired => {
                self.shared.observe(&Observation::Expired { queued, running });
                Error::Expired
            }
            Verdict::Withdrawn => {
                self.shared.observe(&Observation::Cancelled { queued, running });
                Error::Closed
            }
            Verdict::Closed => {
                self.abandoned += 1;
                self.shared.observe(&Observation::Closed { texts });
                Error::Closed
            }
        };
        request.end(error);
    }

    /// The end. After a drain it waits for the calls that run outside the queue, until the deadline.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.permit = None;
        if let Some(deadline) = self.planner.drained_before() {
            let timer = self.timer.take().filter(|(armed, _)| *armed == deadline);
            let (_, sleep) = self.timer.insert(
                timer.unwrap_or_else(|| (deadline, self.shared.clock.sleep_until(deadline))),
            );
            if sleep.as_mut().poll(context).is_pending() {
                // Whoever is admitted and has not sent the message yet will, and that wakes this task.
                if self.shared.ledger.queued().texts > 0 {
                    return Poll::Pending;
                }
                let shared = &self.shared;
                let all = self.all_slots.get_or_insert_with(|| Box::pin(shared.all_slots()));
                let Poll::Ready(slots) = all.as_mut().poll(context) else { return Poll::Pending };
                // Held until the slots are closed, so that no late call slips in between.
                self.end();
                drop(slots);
                return Poll::Ready(());
            }
        }
        self.end();
        Poll::Ready(())
    }

    fn end(&mut self) {
        self.timer = None;
        self.shared.ledger.close();
        interleave();
        self.shared.slots.close();
        self.shared.inline_slots.close();
        interleave();
        self.shared.ended.close();
        self.messages.close();
        // Admitted a moment ago: their senders are dropped with them, which answers them.
        while let Ok(message) = self.messages.try_recv() {
            if let Message::Submit(Submission { items, .. }) = message {
                self.shared.observe(&Observation::Closed { texts: items.len() });
            }
        }
        for (_, request) in self.requests.drain() {
            self.shared.observe(&Observation::Closed { texts: request.assembly.len() });
        }
        let drained = Drained { abandoned: self.abandoned };
        for done in self.drains.drain(..) {
            // Whoever asked for the drain need not wait for it.
            let _ = done.send(drained);
        }
    }
}

// A worker that is dropped before its end, for example by a runtime that shuts down, ends too.
impl<B: Backend> Drop for Worker<B> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<B: Backend> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("requests", &self.requests.len()).finish_non_exhaustive()
    }
}

/// A batch on its way through the backend. Its drop reports, whatever happens to it.
struct Batch<B: Backend> {
    shared: Arc<Shared<B>>,
    report: mpsc::UnboundedSender<Finished<B>>,
    permit: Option<Permit>,
    content: Option<BatchContent<B>>,
    tokens: usize,
    /// What came back, once something has.
    results: Option<Vec<ItemResult<B>>>,
}

impl<B: Backend> Batch<B> {
    fn run(mut self) {
        let Some(content) = &self.content else { return };
        if self.shared.seeded.is(Fault::I4RunsWithoutTheGate) {
            self.permit = None;
        }
        let started = self.shared.clock.now();
        let views: Vec<&B::Item> = content.items.iter().map(|item| &**item).collect();
        let results = run(&*self.shared.backend, &views, &content.options, self.shared.seeded);
        let ran = self.shared.clock.now().saturating_duration_since(started);
        self.shared.ledger.learn_pace(self.tokens, ran);
        self.shared.observe_finished(&results, self.tokens, ran);
        self.results = Some(results);
    }
}

impl<B: Backend> Drop for Batch<B> {
    fn drop(&mut self) {
        // Slot and gate are free before anybody is told: who acts on the answer finds them so.
        self.permit = None;
        let Some(content) = self.content.take() else { return };
        let results = self.results.take().unwrap_or_else(|| {
            // It never ran, because the executor has ended, or something of the user's panicked in it.
            let failure = || Err(Failure { error: Error::Closed, alone: false });
            let results: Vec<ItemResult<B>> = content.items.iter().map(|_| failure()).collect();
            self.shared.observe_finished(&results, 0, Duration::ZERO);
            results
        });
        interleave();
        // Without a worker there is nobody to tell.
        let _ = self.report.send(Finished { content, results });
    }
}
