//! `Batcher`, the handle: admission, the inline call, and the wait for an answer.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::assembly::Assembly;
use crate::backend::{Backend, Cost};
use crate::config::{Class, RequestOptions};
use crate::content::Content;
use crate::direct::DirectArray;
use crate::error::Error;
use crate::execution::{Distinct, guarded, located, run};
use crate::fair_queue::RequestId;
use crate::fault::Fault;
use crate::gate::{DeviceGate, Owner};
use crate::ledger::Amount;
use crate::message::{Answer, Drained, Message, Submission};
use crate::observer::{Observation, Refusal, Route};
use crate::planner::Few;
use crate::shared::{Permit, Shared};
use crate::stats::Stats;
use crate::sync::interleave;

/// Something that can be looked at as an item and turned into a shared one: `&str` and `String` where
/// the item is `str`, an `Arc` of it anywhere.
pub trait IntoItem<I: ?Sized>: AsRef<I> + Into<Arc<I>> {}

impl<I: ?Sized, T: AsRef<I> + Into<Arc<I>>> IntoItem<I> for T {}

/// A handle on a batcher. Clones are cheap and feed the same queue.
///
/// Every method may be called from any task or thread. Items are anything that is an [`IntoItem`]: for texts
/// `&str` and `String` (of a `&String` take `as_str()`). When the last handle is dropped, whoever still waits
/// gets [`Error::Closed`].
pub struct Batcher<B: Backend> {
    pub(crate) shared: Arc<Shared<B>>,
    pub(crate) messages: mpsc::UnboundedSender<Message<B>>,
}

impl<B: Backend> Clone for Batcher<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), messages: self.messages.clone() }
    }
}

impl<B: Backend> fmt::Debug for Batcher<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<B: Backend> Batcher<B> {
    /// Computes the row of one item, under default options.
    ///
    /// Dropping the future withdraws the request: an item that has not gone to the backend never will.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`].
    pub async fn embed<T: IntoItem<B::Item>>(&self, item: T) -> Result<B::Row, Error<B::Error>>
    where
        B::Options: Default,
    {
        self.embed_with(item, &B::Options::default(), &RequestOptions::default()).await
    }

    /// Computes the row of one item.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`].
    #[expect(clippy::missing_panics_doc, reason = "one item gives one row")]
    pub async fn embed_with<T: IntoItem<B::Item>>(
        &self,
        item: T,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<B::Row, Error<B::Error>> {
        let mut pending = self.submit([item], options, request);
        let rows = poll_fn(|context| pending.poll_rows(context)).await?;
        Ok(rows.into_iter().next().expect("one row for one item"))
    }

    /// Computes the rows of many items, in their order. They are admitted together or not at all, and
    /// join the same queue as everybody else's.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`]; the first failure ends the request.
    pub async fn embed_many<T: IntoItem<B::Item>>(
        &self,
        items: impl IntoIterator<Item = T>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Vec<B::Row>, Error<B::Error>> {
        self.submit(items, options, request).await
    }

    /// Computes the rows of an array around the queue: in one slot and under one hold of the gate, in
    /// calls within the budgets. Whoever is queued waits meanwhile.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`]; the array counts against the limits of the queue while it waits.
    pub async fn embed_direct<T: IntoItem<B::Item>>(
        &self,
        items: impl IntoIterator<Item = T>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Vec<B::Row>, Error<B::Error>> {
        let items: Few<Arc<B::Item>> = items.into_iter().map(Into::into).collect();
        let (assembly, items) = self.look_up(items, options);
        if items.is_empty() {
            return self.submit_rest(items, assembly, options, request).await;
        }
        let texts = items.len();
        let array = self.costs(&items, options).and_then(|costs| {
            DirectArray::admit(&self.shared, (items, costs), assembly, options, request)
        });
        match array {
            Ok(array) => array.embed().await.map(Few::into_vec),
            Err(error) => {
                self.refused(texts, &error);
                Err(error)
            }
        }
    }

    /// Admits a request at once and returns the wait for its answer, which borrows nothing.
    ///
    /// A refusal comes out of the future too. Small requests are computed here and now if nothing waits, and
    /// interactive ones also if only bulk work does.
    pub fn submit<T: IntoItem<B::Item>>(
        &self,
        items: impl IntoIterator<Item = T>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Pending<B> {
        let items: Few<T> = items.into_iter().collect();
        if self.shared.cache.is_some() {
            let items: Few<Arc<B::Item>> = items.into_iter().map(Into::into).collect();
            let (assembly, items) = self.look_up(items, options);
            return self.submit_rest(items, assembly, options, request);
        }
        let assembly = Assembly::empty(items.len());
        self.submit_rest(items, assembly, options, request)
    }

    /// Takes no more requests, finishes or expires the old ones, and ends the worker.
    ///
    /// From the first poll on no request is admitted. Those from before complete, or get
    /// [`Error::Closed`] at the deadline. A call of the backend that runs then is not interrupted; it
    /// keeps its slot and the gate until it returns.
    pub async fn drain(&self, deadline: Instant) -> Drained {
        self.shared.ledger.drain();
        let (done, mut drained) = oneshot::channel();
        interleave();
        // A worker that is gone has answered everybody.
        if self.messages.send(Message::Drain { deadline, done }).is_err() {
            return Drained::default();
        }
        if self.shared.ledger.is_closed() {
            // It ended while the message was on its way, and may not have seen it any more.
            return drained.try_recv().unwrap_or_default();
        }
        drained.await.unwrap_or_default()
    }

    /// Totals since the start, and what waits and runs now.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot(self.shared.ledger.queued())
    }

    /// Whether requests are taken: it neither drains nor has ended.
    pub fn is_open(&self) -> bool {
        self.shared.ledger.idle::<B::Error>().is_ok()
    }

    /// How long what waits now before a request of `class` will take at the present pace, if all slots work
    /// on it; zero if nothing does. A guess: it knows neither the rest of what runs, nor bulk work so old
    /// that it goes before an interactive request, nor what will come and go before a bulk one.
    pub fn expected_wait(&self, class: Class) -> Duration {
        self.shared.ledger.expected_wait(class, self.shared.config.slots)
    }

    /// The instant `after` from now on the batcher's clock, for a deadline.
    pub fn deadline_in(&self, after: Duration) -> Instant {
        let now = self.shared.clock.now();
        // A deadline beyond what an instant can say is as good as a century away.
        now.checked_add(after).unwrap_or(now + Duration::from_hours(100 * 365 * 24))
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.shared.backend
    }

    /// The gate that every batch takes, and as whom.
    pub fn gate(&self) -> Option<(&DeviceGate, &Owner)> {
        self.shared.gate.as_ref().map(|(gate, owner)| (gate, owner))
    }

    fn look_up(
        &self,
        items: Few<Arc<B::Item>>,
        options: &B::Options,
    ) -> (Assembly<B>, Few<Arc<B::Item>>) {
        let Some(cache) = &self.shared.cache else {
            return (Assembly::empty(items.len()), items);
        };
        let contents: Few<Content<B>> =
            items.iter().map(|item| self.shared.content(options, item)).collect();
        let rows: Few<Option<B::Row>> = {
            let mut cache = cache.lock();
            contents.iter().map(|content| cache.get(content).cloned()).collect()
        };
        let rest: Few<_> = items
            .into_iter()
            .zip(&rows)
            .filter(|(_, row)| row.is_none())
            .map(|(item, _)| item)
            .collect();
        self.shared.observe(&Observation::CacheLookup {
            hits: rows.len() - rest.len(),
            misses: rest.len(),
        });
        (Assembly::partial(rows), rest)
    }

    fn submit_rest<T: IntoItem<B::Item>>(
        &self,
        items: Few<T>,
        assembly: Assembly<B>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Pending<B> {
        let texts = items.len();
        self.try_submit(items, assembly, options, request).unwrap_or_else(|error| {
            self.refused(texts, &error);
            Pending::ready(Err(error))
        })
    }

    fn try_submit<T: IntoItem<B::Item>>(
        &self,
        items: Few<T>,
        assembly: Assembly<B>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Pending<B>, Error<B::Error>> {
        self.in_time(request)?;
        if items.is_empty() {
            // Nothing to compute, but nothing is answered either once the batcher ends.
            self.shared.ledger.idle()?;
            return Ok(Pending::ready(Ok(assembly.into_rows())));
        }
        let costs = self.costs(&items, options)?;
        let amount = Amount::of(&costs);
        // A call that found the ledger open and got a slot ends before any drain does, because a drain
        // waits for all slots and then closes them.
        if self.fits_inline(amount)
            && let Some(permit) = self.inline_permit(request.class)?
        {
            let answer = self.run_inline(items, assembly, amount.tokens, options, request);
            drop(permit);
            return Ok(Pending::ready(answer));
        }
        self.enqueue(items, (costs, amount), assembly, options, request)
    }

    fn in_time(&self, request: &RequestOptions) -> Result<(), Error<B::Error>> {
        match request.deadline {
            Some(deadline) if deadline <= self.shared.clock.now() => Err(Error::Expired),
            _ => Ok(()),
        }
    }

    fn costs<T: AsRef<B::Item>>(
        &self,
        items: &[T],
        options: &B::Options,
    ) -> Result<Few<Cost>, Error<B::Error>> {
        let backend = &*self.shared.backend;
        let costs =
            guarded(|| items.iter().map(|item| backend.cost(item.as_ref(), options)).collect());
        Ok(costs?)
    }

    fn refused(&self, texts: usize, error: &Error<B::Error>) {
        let reason = match error {
            Error::Overloaded { .. } => Refusal::Overloaded,
            Error::TooLarge { .. } => Refusal::TooLarge,
            Error::Expired => Refusal::Expired,
            Error::Panicked { .. } => Refusal::Panicked,
            _ => Refusal::Closed,
        };
        self.shared.observe(&Observation::Refused { texts, reason });
    }

    /// Whether a request may run on the caller's thread: small, one batch, and no window to wait for.
    fn fits_inline(&self, amount: Amount) -> bool {
        let config = &self.shared.config;
        amount.bytes <= config.inline_bytes
            && config.inline_bytes > 0
            && config.linger.is_zero()
            && self.shared.ledger.inline_time_for(amount.tokens) <= config.inline_time
            && amount.texts <= config.max_rows
            && (amount.tokens <= config.max_tokens || amount.texts == 1)
    }

    /// A permit for a call on this thread, if it overtakes nobody with the same claim: a slot like any other
    /// if nothing waits, else, past bulk work, one of those beside them.
    fn inline_permit(&self, class: Class) -> Result<Option<Permit>, Error<B::Error>> {
        let shared = &*self.shared;
        if shared.ledger.idle()?
            && let Some(permit) = shared.try_permit()
        {
            return Ok(Some(permit));
        }
        let passes = class == Class::Interactive && !shared.ledger.has_interactive();
        Ok(if passes { shared.try_inline_permit() } else { None })
    }

    fn run_inline<T: IntoItem<B::Item>>(
        &self,
        items: Few<T>,
        mut assembly: Assembly<B>,
        tokens: usize,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Answer<B> {
        let shared = &*self.shared;
        let texts = items.len();
        let (class, route) = (request.class, Route::Inline);
        let started = shared.inline_start();
        shared.observe(&Observation::Admitted { texts, class, route, queued: Amount::default() });
        let took;
        let results = {
            let views = items.iter().map(AsRef::as_ref).collect();
            let distinct = Distinct::of(views, shared.config.single_flight);
            shared.observe_started(&distinct, texts, tokens, Duration::ZERO, route);
            let results = run(&*shared.backend, &distinct.items, options, shared.seeded);
            took = started.map_or(Duration::ZERO, |started| {
                let took = shared.clock.now().saturating_duration_since(started);
                shared.ledger.learn_inline_pace(tokens, took);
                took
            });
            shared.observe_finished(&results, tokens, took);
            distinct.spread(results)
        };
        if shared.cache.is_some() {
            let items: Vec<Arc<B::Item>> = items.into_iter().map(Into::into).collect();
            shared.remember(&items, options, &results);
        }
        let mut failure = None;
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Ok(row) => assembly.put(index, row),
                Err(failed) if failure.is_none() => {
                    failure = Some(located(&*shared.backend, failed, assembly.position(index)));
                }
                Err(_) => {}
            }
        }
        if let Some(error) = failure {
            shared.observe(&Observation::Failed { texts });
            return Err(error);
        }
        shared.observe(&Observation::Completed { texts, waited: Duration::ZERO, took });
        Ok(assembly.into_rows())
    }

    fn enqueue<T: IntoItem<B::Item>>(
        &self,
        items: Few<T>,
        (costs, amount): (Few<Cost>, Amount),
        assembly: Assembly<B>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Pending<B>, Error<B::Error>> {
        // All that calls functions of others comes before the admission: a panic must not leave anything
        // behind.
        let mut items: Few<Arc<B::Item>> = items.into_iter().map(Into::into).collect();
        let shares = if self.shared.config.single_flight { &items[..] } else { &[] };
        let contents = shares.iter().map(|item| self.shared.content(options, item)).collect();
        if self.shared.seeded.is(Fault::I23ArraysGetOneRow) {
            let first = Arc::clone(&items[0]);
            items.fill(first);
        }
        let (texts, class, route) = (items.len(), request.class, Route::Queued);
        // Relaxed: the number only has to be new; its order is that of the message queue, nearly.
        let id = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        let (reply, mut answer) = oneshot::channel();
        let in_line =
            (class == Class::Interactive).then(|| self.shared.ledger.line_up(amount.tokens));
        let submission = Submission {
            id,
            items,
            costs,
            contents,
            options: options.clone(),
            request: *request,
            sent: self.shared.clock.now(),
            assembly,
            reply,
            in_line,
        };
        let queued = self.shared.ledger.admit(amount)?;
        self.shared.observe(&Observation::Admitted { texts, class, route, queued });
        interleave();
        if self.messages.send(Message::Submit(submission)).is_err() {
            // The worker has just ended, and the ledger with it: there is nothing to release.
            self.shared.observe(&Observation::Closed { texts });
            return Ok(Pending::ready(Err(Error::Closed)));
        }
        if self.shared.ledger.is_closed() {
            // It ended while the message was on its way, and may not have seen it any more.
            return Ok(Pending::ready(answer.try_recv().unwrap_or(Err(Error::Closed))));
        }
        Ok(Pending { state: State::Waiting { answer, id, messages: self.messages.downgrade() } })
    }
}

/// The wait for the answer to a request. Dropping it withdraws the request.
///
/// It does not keep the batcher alive.
#[must_use = "dropping the wait withdraws the request"]
pub struct Pending<B: Backend> {
    state: State<B>,
}

enum State<B: Backend> {
    Ready(Answer<B>),
    Waiting {
        answer: oneshot::Receiver<Answer<B>>,
        id: RequestId,
        messages: mpsc::WeakUnboundedSender<Message<B>>,
    },
    Done,
}

impl<B: Backend> Pending<B> {
    fn ready(answer: Answer<B>) -> Self {
        Self { state: State::Ready(answer) }
    }

    fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Answer<B>> {
        if let State::Waiting { answer, .. } = &mut self.state {
            let Poll::Ready(answer) = Pin::new(answer).poll(context) else { return Poll::Pending };
            // The other end is dropped unanswered only when the worker is gone.
            self.state = State::Done;
            return Poll::Ready(answer.unwrap_or(Err(Error::Closed)));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Ready(answer) => Poll::Ready(answer),
            State::Waiting { .. } | State::Done => Poll::Ready(Err(Error::Closed)),
        }
    }
}

// Nothing in it is pinned: the one future inside is `Unpin`.
impl<B: Backend> Unpin for Pending<B> {}

impl<B: Backend> Future for Pending<B> {
    type Output = Result<Vec<B::Row>, Error<B::Error>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_rows(context).map(|answer| answer.map(Few::into_vec))
    }
}

impl<B: Backend> Drop for Pending<B> {
    fn drop(&mut self) {
        if let State::Waiting { id, messages, .. } = &self.state
            && let Some(messages) = messages.upgrade()
        {
            interleave();
            // A worker that is gone has nothing to withdraw.
            let _ = messages.send(Message::Withdraw(*id));
        }
    }
}

impl<B: Backend> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::Ready(_) => "Pending(ready)",
            State::Waiting { .. } => "Pending(waiting)",
            State::Done => "Pending(done)",
        })
    }
}
