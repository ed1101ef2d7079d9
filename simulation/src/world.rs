//! Plays a case against the real batcher, on one thread and in virtual time.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use embed_batcher::{
    Acquire, Batcher, Clock, DeviceGate, Drained, Fault, GateGuard, Job, ManualClock,
    ManualExecutor, Observation, Observer, Owner, Pending, RequestOptions, Worker,
};
use embed_core::BoxFuture;

use crate::op::{Op, Setup, Text};
use crate::script::{Call, Outcome, PANICKING, ScriptedBackend};
use crate::trace::{Event, Moment, Request, Trace};

/// Polls of one `settle` after which something wakes without end.
const MOST_ROUNDS: usize = 500;

/// Remembers that somebody was woken. Nobody is polled who was not: a lost wake-up shows.
struct Flag(AtomicBool);

impl Flag {
    fn raised() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    fn lower(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// A request that waits for its answer.
struct Open {
    request: usize,
    pending: Pending<ScriptedBackend>,
    flag: Arc<Flag>,
}

/// Counts texts: admitted, completed, failed, closed, cancelled, expired.
#[derive(Default)]
struct Account([AtomicU64; 6]);

impl Observer for Account {
    fn observe(&self, observation: &Observation<'_>) {
        let (place, texts) = match *observation {
            Observation::Admitted { texts, .. } => (0, texts),
            Observation::Completed { texts, .. } => (1, texts),
            Observation::Failed { texts } => (2, texts),
            Observation::Closed { texts } => (3, texts),
            Observation::Cancelled { queued, running } => (4, queued + running),
            Observation::Expired { queued, running } => (5, queued + running),
            _ => return,
        };
        self.0[place].fetch_add(texts as u64, Ordering::SeqCst);
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A batcher, its surroundings, and what was seen so far.
pub struct World {
    clock: ManualClock,
    backend: ScriptedBackend,
    foreign: Owner,
    foreign_guard: Option<GateGuard>,
    foreign_wait: Option<Acquire>,
    parked: ManualExecutor,
    /// Jobs that were handed over, with their calls.
    jobs: Vec<(usize, Job)>,
    batcher: Option<Batcher<ScriptedBackend>>,
    worker: Option<Worker<ScriptedBackend>>,
    drain: Option<BoxFuture<'static, Drained>>,
    open: Vec<Open>,
    worker_flag: Arc<Flag>,
    others_flag: Arc<Flag>,
    account: Arc<Account>,
    texts: usize,
    trace: Trace,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl World {
    /// A batcher with these settings, and a fault if one is given.
    ///
    /// # Panics
    ///
    /// If the settings are not valid.
    pub fn new(setup: &Setup, fault: Option<Fault>) -> Self {
        let clock = ManualClock::new();
        let backend = ScriptedBackend::default();
        let parked = ManualExecutor::default();
        let account = Arc::new(Account::default());
        let mut builder = Batcher::builder(backend.clone())
            .config(setup.config.clone())
            .clock(clock.clone())
            .executor(parked.clone())
            .observer(account.clone());
        if setup.gated {
            builder = builder.gate(backend.gate.clone(), Owner::shared("batcher"));
        }
        if let Some(fault) = fault {
            builder = builder.fault(fault);
        }
        let (batcher, worker) = builder.pair().expect("a setup is valid");
        Self {
            clock,
            backend,
            foreign: Owner::exclusive("foreign"),
            foreign_guard: None,
            foreign_wait: None,
            parked,
            jobs: Vec::new(),
            batcher: Some(batcher),
            worker: Some(worker),
            drain: None,
            open: Vec::new(),
            worker_flag: Flag::raised(),
            others_flag: Flag::raised(),
            account,
            texts: 0,
            trace: Trace {
                setup: setup.clone(),
                requests: Vec::new(),
                calls: Vec::new(),
                events: Vec::new(),
                account: [0; 6],
                counts: std::collections::BTreeMap::new(),
            },
        }
    }

    /// Plays a whole case and brings it to its end.
    pub fn play(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Trace {
        let mut world = Self::new(setup, fault);
        for op in ops {
            world.apply(op);
        }
        world.finish()
    }

    /// Sends requests, lets every batch succeed, and returns the trace.
    pub fn rows(setup: &Setup, requests: &[Vec<String>], fault: Option<Fault>) -> Trace {
        let mut world = Self::new(setup, fault);
        for texts in requests {
            world.submit(texts.clone(), 0, RequestOptions::default(), Outcome::Rows);
            world.settle();
        }
        world.finish()
    }

    fn note(&mut self, event: Event) {
        self.trace.events.push((self.clock.now(), event));
    }

    fn count(&mut self, what: &'static str) {
        *self.trace.counts.entry(what).or_default() += 1;
    }

    /// Lets something happen.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Submit { texts, class, options, deadline, outcome } => {
                let deadline = deadline.map(|ms| Duration::from_millis(u64::from(ms)));
                let deadline = deadline.map(|after| self.clock.now() + after);
                let request = RequestOptions { class: *class, deadline };
                let texts = texts.iter().map(|text| self.name(*text)).collect();
                self.count("submit");
                self.submit(texts, *options, request, *outcome);
            }
            Op::SubmitPanickingCost => {
                self.count("cost panics");
                self.submit(
                    vec![PANICKING.to_owned()],
                    0,
                    RequestOptions::default(),
                    Outcome::Rows,
                );
            }
            Op::Cancel(which) => self.cancel(usize::from(*which)),
            Op::Advance(ms) => self.advance(Duration::from_millis(u64::from(*ms))),
            Op::Jump(ms) => {
                self.count("jump ahead");
                self.clock.advance(Duration::from_millis(u64::from(*ms)));
                self.settle();
            }
            Op::TurnBack(ms) => {
                self.count("jump back");
                self.clock.turn_back(Duration::from_millis(u64::from(*ms)));
                self.settle();
            }
            Op::Finish(which, outcome) => self.come_back(usize::from(*which), *outcome),
            Op::HoldGate => {
                if self.foreign_guard.is_none() && self.foreign_wait.is_none() {
                    self.count("gate asked for");
                    self.foreign_wait = Some(self.gate().acquire(&self.foreign));
                    self.others_flag.0.store(true, Ordering::SeqCst);
                    self.settle();
                }
            }
            Op::ReleaseGate => {
                self.foreign_guard = None;
                self.foreign_wait = None;
            }
            Op::Settle => self.settle(),
            Op::Drain(ms) => self.start_drain(Duration::from_millis(u64::from(*ms))),
            Op::DropHandles => {
                if self.batcher.take().is_some() {
                    self.count("handles dropped");
                    self.drain = None;
                    self.note(Event::HandlesDropped);
                }
            }
        }
    }

    fn gate(&self) -> DeviceGate {
        self.backend.gate.clone()
    }

    fn name(&mut self, text: Text) -> String {
        self.texts += 1;
        let name = if self.trace.setup.unique { self.texts } else { usize::from(text.name) };
        format!("{name}/{}", text.tokens)
    }

    fn submit(
        &mut self,
        texts: Vec<String>,
        options: u8,
        request: RequestOptions,
        outcome: Outcome,
    ) {
        let Some(batcher) = self.batcher.clone() else { return };
        let tokens = |text: &String| {
            text.split_once('/').and_then(|(_, tokens)| tokens.parse().ok()).unwrap_or(0)
        };
        let index = self.trace.requests.len();
        self.trace.requests.push(Request {
            tokens: texts.iter().map(tokens).collect(),
            texts: texts.clone(),
            class: request.class,
            options,
            deadline: request.deadline,
            answer: None,
            cancelled: false,
        });
        self.backend.set(outcome);
        let before = batcher.stats().queued;
        let sent = catch_unwind(AssertUnwindSafe(|| {
            let mut pending = batcher.submit(texts, &options, &request);
            let mut context = Context::from_waker(Waker::noop());
            (Pin::new(&mut pending).poll(&mut context), pending)
        }));
        let calls = self.backend.take_calls();
        let inline = calls.into_iter().next().map(|call| self.record(call));
        match sent {
            Err(_) => self.note(Event::Panicked("submit".to_owned())),
            Ok((Poll::Pending, pending)) => {
                self.count("queued");
                self.note(Event::Queued { request: index });
                self.open.push(Open { request: index, pending, flag: Flag::raised() });
            }
            Ok((Poll::Ready(answer), _)) => {
                self.count(match (&answer, inline) {
                    (_, Some(_)) => "inline",
                    (Ok(_), None) => "from the cache",
                    (Err(_), None) => "refused",
                });
                self.trace.requests[index].answer = Some(answer);
                let queued = [before, batcher.stats().queued];
                self.note(Event::AtOnce { request: index, queued, call: inline });
            }
        }
    }

    fn record(&mut self, call: Call) -> usize {
        self.trace.calls.push(Some(call));
        self.trace.calls.len() - 1
    }

    fn cancel(&mut self, which: usize) {
        if self.open.is_empty() {
            return;
        }
        let Open { request, pending, .. } = self.open.remove(which % self.open.len());
        drop(pending);
        self.count("cancel");
        self.trace.requests[request].cancelled = true;
        self.note(Event::Cancelled { request });
    }

    fn start_drain(&mut self, within: Duration) {
        let Some(batcher) = self.batcher.clone() else { return };
        if self.drain.is_some() {
            return;
        }
        self.count("drain");
        let deadline = self.clock.now() + within;
        let mut drain: BoxFuture<'static, Drained> =
            Box::pin(async move { batcher.drain(deadline).await });
        if drain.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.drain = Some(drain);
            self.others_flag.0.store(true, Ordering::SeqCst);
        }
        self.note(Event::Drain { deadline });
    }

    fn come_back(&mut self, which: usize, outcome: Outcome) {
        if self.jobs.is_empty() {
            return;
        }
        let (batch, job) = self.jobs.remove(which % self.jobs.len());
        self.count(match outcome {
            Outcome::Rows => "batch succeeds",
            Outcome::Fails => "batch fails",
            Outcome::Panics => "batch panics",
            Outcome::OneRowMissing | Outcome::OneRowMore => "batch with a wrong count",
            Outcome::ShortRow => "batch with a wrong width",
            Outcome::NotANumber => "batch with a NaN",
        });
        self.backend.set(outcome);
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            self.note(Event::Panicked("a job".to_owned()));
        }
        self.trace.calls[batch] = self.backend.take_calls().into_iter().next();
        self.note(Event::Ran { batch });
    }

    fn advance(&mut self, by: Duration) {
        self.count("advance");
        let target = self.clock.now() + by;
        self.settle();
        for _ in 0..MOST_ROUNDS {
            let now = self.clock.now();
            let next = self.clock.next_timer().filter(|next| *next <= target);
            self.clock.advance(next.unwrap_or(target).saturating_duration_since(now));
            self.settle();
            if next.is_none() {
                return;
            }
        }
        self.note(Event::Spins);
    }

    /// Lets callers and worker do what they can, until all is quiet.
    pub fn settle(&mut self) {
        for round in 0.. {
            let worker = self.poll_worker();
            self.take_handed();
            let callers = self.poll_callers();
            let others = self.poll_others();
            if !(worker || callers || others) {
                break;
            }
            if round == MOST_ROUNDS {
                self.note(Event::Spins);
                // A worker that spins would keep the case from ending.
                self.worker = None;
                break;
            }
        }
        let holders = self.gate().occupancy().holders;
        let queued = self.batcher.as_ref().map(|batcher| batcher.stats().queued);
        self.note(Event::Settled(Moment {
            queued: queued.unwrap_or_default(),
            running: self.jobs.len(),
            holders,
            foreign_holds: self.foreign_guard.is_some(),
            foreign_waits: self.foreign_wait.is_some(),
            timers: self.clock.timers().pending(),
            ended: self.worker.is_none(),
        }));
    }

    fn take_handed(&mut self) {
        for job in self.parked.take() {
            self.trace.calls.push(None);
            let batch = self.trace.calls.len() - 1;
            self.jobs.push((batch, job));
            self.note(Event::Handed { batch });
        }
    }

    fn poll_worker(&mut self) -> bool {
        if !self.worker_flag.lower() {
            return false;
        }
        self.note(Event::Polled);
        let waker = Waker::from(Arc::clone(&self.worker_flag));
        let mut context = Context::from_waker(&waker);
        if let Some(worker) = &mut self.worker {
            match catch_unwind(AssertUnwindSafe(|| Pin::new(worker).poll(&mut context))) {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(())) => self.worker = None,
                Err(_) => {
                    self.worker = None;
                    self.note(Event::Panicked("the worker".to_owned()));
                }
            }
        }
        true
    }

    fn poll_callers(&mut self) -> bool {
        let mut answered = Vec::new();
        let mut polled = false;
        self.open.retain_mut(|Open { request, pending, flag }| {
            if !flag.lower() {
                return true;
            }
            polled = true;
            let waker = Waker::from(Arc::clone(flag));
            let answer = Pin::new(pending).poll(&mut Context::from_waker(&waker));
            let Poll::Ready(answer) = answer else { return true };
            answered.push((*request, answer));
            false
        });
        for (request, answer) in answered {
            self.trace.requests[request].answer = Some(answer);
            self.note(Event::Answered { request });
        }
        polled
    }

    /// Whoever else wants the gate, and whoever waits for a drain.
    fn poll_others(&mut self) -> bool {
        if !self.others_flag.lower() {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.others_flag));
        let mut context = Context::from_waker(&waker);
        if let Some(wait) = &mut self.foreign_wait
            && let Poll::Ready(guard) = Pin::new(wait).poll(&mut context)
        {
            self.foreign_wait = None;
            self.foreign_guard = Some(guard);
        }
        if let Some(drain) = &mut self.drain
            && drain.as_mut().poll(&mut context).is_ready()
        {
            self.drain = None;
        }
        true
    }

    /// Forgets what has been answered and what has come back.
    pub(crate) fn forget(&mut self) {
        let mut requests = Vec::with_capacity(self.open.len());
        for open in &mut self.open {
            requests.push(self.trace.requests[open.request].clone());
            open.request = requests.len() - 1;
        }
        self.trace.requests = requests;
        for (index, (batch, _)) in self.jobs.iter_mut().enumerate() {
            *batch = index;
        }
        self.trace.calls = self.jobs.iter().map(|_| None).collect();
        self.trace.events.clear();
    }

    /// Lets everything end: batches succeed, others leave the gate, timers fire.
    pub fn finish(mut self) -> Trace {
        self.foreign_guard = None;
        self.foreign_wait = None;
        for _ in 0..MOST_ROUNDS {
            self.settle();
            while !self.jobs.is_empty() {
                self.come_back(0, Outcome::Rows);
            }
            self.settle();
            if !self.jobs.is_empty() {
                continue;
            }
            let Some(next) = self.clock.next_timer() else { break };
            self.clock.advance(next.saturating_duration_since(self.clock.now()));
        }
        self.trace.account = self.account.0.each_ref().map(|count| count.load(Ordering::SeqCst));
        self.trace
    }
}
