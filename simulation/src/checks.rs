//! The invariants, checked on a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use embed_batcher::{BatchConfig, Class, Error};

use crate::invariant::Invariant;
use crate::model::{Entry, Model, Waiting};
use crate::script::{Call, Outcome, ScriptError, row_of};
use crate::trace::{Answer, Event, Moment, Trace};

/// An invariant that does not hold, and how it shows.
pub type Violation = (Invariant, String);

/// Checks everything that one trace can tell.
pub fn check(trace: &Trace) -> Vec<Violation> {
    let Some((start, _)) = trace.events.first() else { return Vec::new() };
    let mut checker = Checker {
        model: Model::new(trace, *start),
        config: &trace.setup.config,
        violations: Vec::new(),
        pairs: BTreeMap::new(),
        unanswered: BTreeSet::new(),
        idle_arrival: None,
        last: None,
        is_settled: false,
    };
    for (at, event) in &trace.events {
        checker.before(*at, event);
        let before = matches!(event, Event::Handed { .. }).then(|| checker.model.waiting.clone());
        let unmatched = checker.model.step(*at, event);
        checker.after(event, &unmatched, before.as_ref());
    }
    checker.at_the_end();
    let back = trace.events.windows(2).any(|pair| pair[0].0 > pair[1].0);
    if back {
        checker.violations.retain(|(invariant, _)| TIMELESS.contains(invariant));
    }
    checker.violations
}

/// What a clock that is set back cannot excuse. The model goes by the latest time that was seen, and
/// cannot know when the batcher last looked.
const TIMELESS: &[Invariant] =
    &[Invariant::I2, Invariant::I3, Invariant::I4, Invariant::I8, Invariant::I10, Invariant::I22];

/// Tokens that two requests got since they both wait.
type Pairs = BTreeMap<(usize, usize), [usize; 2]>;

struct Checker<'a> {
    model: Model<'a>,
    config: &'a BatchConfig,
    violations: Vec<Violation>,
    pairs: Pairs,
    /// Requests that wait for an answer.
    unanswered: BTreeSet<usize>,
    /// A request that arrived when nothing else was there.
    idle_arrival: Option<usize>,
    last: Option<Moment>,
    /// Whether nothing has happened since `last`: the worker knows everything.
    is_settled: bool,
}

impl Checker<'_> {
    fn require(&mut self, invariant: Invariant, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.violations.push((invariant, message()));
        }
    }

    fn before(&mut self, at: Instant, event: &Event) {
        let Event::Queued { request } = event else { return };
        let quiet = self.model.waiting.is_empty() && self.model.running.is_empty();
        let free = self.last.is_none_or(|moment| !self.gate_taken(&moment));
        let open = self.model.drain.is_none() && !self.model.dropped;
        let patient = self.model.request(*request).deadline.is_none_or(|deadline| deadline > at);
        if quiet && free && open && patient && self.config.linger.is_zero() {
            self.idle_arrival = Some(*request);
        }
        let needless = self.is_settled && free && open && self.fits_beside(*request);
        self.require(Invariant::I12, !needless, || {
            format!("request {request} is queued, a slot for small ones is free")
        });
    }

    /// Whether a request is small and interactive, and no interactive one waits.
    fn fits_beside(&self, request: usize) -> bool {
        let (config, this) = (self.config, self.model.request(request));
        let interactive = |class: Class| class == Class::Interactive;
        let bytes: usize = this.texts.iter().map(String::len).sum();
        let one_call = this.texts.len() == 1
            || (this.texts.len() <= config.max_rows
                && this.tokens.iter().sum::<usize>() <= config.max_tokens);
        // Calls at once come back before anything else happens here: none of their slots is ever taken.
        config.inline_slots > 0
            && config.linger.is_zero()
            && (1..=config.inline_bytes).contains(&bytes)
            && one_call
            && interactive(this.class)
            && !self.model.waiting.values().any(|entry| interactive(entry.class))
    }

    fn gate_taken(&self, moment: &Moment) -> bool {
        self.model.trace.setup.gated && (moment.foreign_holds || moment.foreign_waits)
    }

    fn after(
        &mut self,
        event: &Event,
        unmatched: &[String],
        before: Option<&BTreeMap<Entry, Waiting>>,
    ) {
        self.is_settled = matches!(event, Event::Settled(_));
        match event {
            Event::Queued { request } => {
                self.unanswered.insert(*request);
            }
            Event::Answered { request } | Event::Cancelled { request } => {
                self.unanswered.remove(request);
            }
            _ => {}
        }
        match event {
            Event::Queued { request } => self.queued(*request),
            Event::AtOnce { request, queued, call } => self.at_once(*request, *queued, *call),
            Event::Handed { batch } => {
                self.idle_arrival = None;
                let Some(before) = before else { return };
                self.handed(*batch, unmatched, before);
            }
            Event::Ran { batch } => self.ran(*batch),
            Event::Cancelled { request } if self.idle_arrival == Some(*request) => {
                self.idle_arrival = None;
            }
            Event::Answered { request } => self.answered(*request),
            Event::Settled(moment) => self.settled(moment),
            Event::Panicked(what) => {
                let what = what.clone();
                self.require(Invariant::I22, false, || format!("{what} panicked"));
            }
            Event::Spins => {
                self.require(Invariant::I15, false, || "wakes itself without end".to_owned());
            }
            _ => {}
        }
    }

    fn queued(&mut self, request: usize) {
        let late = self.model.drain.is_some();
        self.require(Invariant::I20, !late, || format!("request {request} queued after a drain"));
        // Pairs for fairness: requests of equal class that begin to wait together.
        let this = self.model.request(request);
        let partners = self.model.waiting.iter().filter(|((other, position), entry)| {
            *position == 0
                && *other != request
                && entry.class == this.class
                && entry.arrived == self.model.now
                && self.model.request(*other).texts.len() > 1
        });
        let partners: Vec<usize> = partners
            .map(|((other, _), _)| *other)
            .filter(|other| self.waits(*other) == self.model.request(*other).texts.len())
            .collect();
        if self.model.trace.setup.unique && this.texts.len() > 1 {
            for other in partners {
                self.pairs.insert((other, request), [0, 0]);
            }
        }
    }

    fn waits(&self, request: usize) -> usize {
        self.model.waiting.range((request, 0)..(request + 1, 0)).count()
    }

    fn at_once(&mut self, request: usize, queued: [embed_batcher::Amount; 2], call: Option<usize>) {
        let answer = self.model.request(request).answer.clone();
        if call.is_none() {
            self.require(Invariant::I10, queued[0] == queued[1], || {
                format!("request {request} was refused: {queued:?}")
            });
        }
        let ending = self.model.drain.is_some();
        let taken = call.is_some() || matches!(answer, Some(Ok(_)));
        self.require(Invariant::I20, !(ending && taken), || {
            format!("request {request} was served after a drain")
        });
        let this = self.model.request(request);
        let bytes = this.texts.iter().map(String::len).sum();
        let asked = [this.texts.len(), this.tokens.iter().sum(), bytes];
        let limits = [self.config.queue_texts, self.config.queue_tokens, self.config.queue_bytes];
        let before = [queued[0].texts, queued[0].tokens, queued[0].bytes];
        let too_large = (0..3).any(|resource| asked[resource] > limits[resource]);
        let too_much = (0..3).any(|resource| before[resource] + asked[resource] > limits[resource]);
        let needed = match answer {
            Some(Err(Error::TooLarge { .. })) => too_large,
            Some(Err(Error::Overloaded { .. })) => too_much && !too_large,
            _ => true,
        };
        self.require(Invariant::I10, needed, || {
            format!("request {request} was refused without need: {answer:?}")
        });
        if let Some(call) = call.and_then(|call| self.model.trace.calls[call].as_ref()) {
            self.called(call, self.config.slots + self.config.inline_slots);
            self.overtakes_nobody(request);
        }
    }

    /// What runs at once goes before nobody of its class, and bulk work before nobody at all.
    fn overtakes_nobody(&mut self, request: usize) {
        let class = self.model.request(request).class;
        let overtaken = self.model.waiting.iter();
        let overtaken =
            overtaken.filter(|(_, entry)| entry.class <= class).map(|(entry, _)| *entry).next();
        self.require(Invariant::I19, overtaken.is_none(), || {
            format!("request {request} ran at once before {overtaken:?}")
        });
    }

    /// Answers that only time or the end can justify do not come before it.
    fn answered(&mut self, request: usize) {
        let now = self.model.now;
        let this = self.model.request(request);
        let (over, late) = (
            self.model.dropped || self.model.drain.is_some_and(|deadline| deadline <= now),
            this.deadline.is_some_and(|deadline| deadline <= now),
        );
        match this.answer {
            Some(Err(Error::Closed)) => {
                self.require(Invariant::I20, over, || {
                    format!("request {request} closed too early")
                });
            }
            Some(Err(Error::Expired)) => {
                self.require(Invariant::I18, late, || {
                    format!("request {request} expired too early")
                });
            }
            _ => {}
        }
    }

    /// A call of the backend, from the queue or inline.
    fn called(&mut self, call: &Call, slots: usize) {
        let cost = |text: &String| text.split_once('/').map_or(0, |(_, t)| t.parse().unwrap_or(0));
        let tokens: usize = call.texts.iter().map(cost).sum();
        let rows = call.texts.len();
        let within = rows <= self.config.max_rows && tokens <= self.config.max_tokens;
        self.require(Invariant::I3, rows >= 1 && (within || rows == 1), || {
            format!("a call with {rows} rows and {tokens} tokens")
        });
        // This one, and those that have not come back: each is a slot, and each holds the gate once.
        let running = self.model.running.len() - self.model.back.len() + 1;
        self.require(Invariant::I4, running <= slots, || format!("{running} calls, {slots} slots"));
        let gated = self.model.trace.setup.gated;
        // The worker may just have been let in for the batch after.
        let holders = running..=running + 1;
        self.require(Invariant::I4, !gated || holders.contains(&call.holders), || {
            format!("{} hold the gate in one of {running} calls", call.holders)
        });
    }

    fn ran(&mut self, batch: usize) {
        let call = self.model.trace.calls[batch].clone();
        self.require(Invariant::I4, call.is_some(), || format!("job {batch} called nothing"));
        if let Some(call) = call {
            self.called(&call, self.config.slots);
        }
    }

    fn handed(&mut self, batch: usize, unmatched: &[String], before: &BTreeMap<Entry, Waiting>) {
        let slots = self.config.slots;
        let running = self.model.running.len();
        self.require(Invariant::I4, running <= slots, || format!("{running} calls, {slots} slots"));
        let members = self.model.members.get(&batch).cloned().unwrap_or_default();
        self.window(batch, &members, before);
        if !self.model.trace.setup.unique {
            return;
        }
        for text in unmatched {
            self.stale(text);
        }
        self.order(&members, before);
        self.age(&members, before);
        self.shares(&members);
    }

    /// A text went to the backend that did not wait any more.
    fn stale(&mut self, text: &str) {
        let owner = self
            .model
            .trace
            .requests
            .iter()
            .find(|request| request.texts.iter().any(|t| t == text));
        let Some(owner) = owner else { return };
        let (cancelled, expired) =
            (owner.cancelled, owner.deadline.is_some_and(|deadline| deadline <= self.model.now));
        self.require(Invariant::I6, !cancelled, || format!("cancelled text {text} was dispatched"));
        self.require(Invariant::I18, !expired, || format!("expired text {text} was dispatched"));
        self.require(Invariant::I1, cancelled || expired, || {
            format!("{text} was dispatched again")
        });
    }

    /// A window that is neither over nor full is kept.
    fn window(&mut self, batch: usize, members: &[Entry], before: &BTreeMap<Entry, Waiting>) {
        let Some(first) = members.first().and_then(|member| before.get(member)) else { return };
        if self.config.linger.is_zero() || self.model.drain.is_some() {
            return;
        }
        let group: Vec<&Waiting> =
            before.values().filter(|entry| entry.options == first.options).collect();
        let over = self.overdue(&group);
        let full = self.full(&group);
        self.require(Invariant::I14, over || full, || {
            format!("batch {batch} closed before its window")
        });
    }

    fn overdue(&self, group: &[&Waiting]) -> bool {
        let oldest = group.iter().map(|entry| entry.arrived).min();
        oldest.is_some_and(|oldest| {
            self.model.now.saturating_duration_since(oldest) >= self.config.linger
        })
    }

    fn full(&self, group: &[&Waiting]) -> bool {
        let tokens: usize = group.iter().map(|entry| entry.tokens).sum();
        group.len() >= self.config.max_rows || tokens >= self.config.max_tokens
    }

    /// First in, first out: positions of a request, and lone texts of a class and options.
    fn order(&mut self, members: &[Entry], before: &BTreeMap<Entry, Waiting>) {
        for (index, member) in members.iter().enumerate() {
            let later = |other: &&Entry| other.0 == member.0 && other.1 < member.1;
            let overtaken =
                members[index + 1..].iter().chain(self.model.waiting.keys()).find(later);
            let overtaken = overtaken.copied();
            self.require(Invariant::I19, overtaken.is_none(), || {
                format!("{member:?} went before {overtaken:?}")
            });
        }
        let lone = |entry: &Entry| self.model.request(entry.0).texts.len() == 1;
        let earlier = self.model.waiting.iter().filter(|(entry, _)| lone(entry));
        let overtaken = earlier.flat_map(|(waiting, entry)| {
            members.iter().filter(|member| lone(member) && member.0 > waiting.0).filter_map(
                move |member| {
                    let other = before.get(member)?;
                    let equal = (other.class, other.options) == (entry.class, entry.options);
                    equal.then_some((*member, *waiting))
                },
            )
        });
        if let Some((member, waiting)) = overtaken.last() {
            self.require(Invariant::I19, false, || format!("{member:?} went before {waiting:?}"));
        }
    }

    fn aged(&self, entry: &Waiting) -> bool {
        self.model.now.saturating_duration_since(entry.arrived) >= self.config.aging
    }

    /// The aged go before the younger.
    fn age(&mut self, members: &[Entry], before: &BTreeMap<Entry, Waiting>) {
        if !self.config.linger.is_zero() {
            return;
        }
        let times = members.iter().filter_map(|member| before.get(member));
        let times: Vec<(Instant, u8)> = times.map(|entry| (entry.arrived, entry.options)).collect();
        let (Some(oldest), Some(youngest)) = (times.iter().min(), times.iter().max()) else {
            return;
        };
        let passed_over = self.model.waiting.values().find(|entry| {
            // A batch of other options may have younger ones if its oldest is no younger.
            let excused = entry.options != oldest.1 && oldest.0 <= entry.arrived;
            self.aged(entry) && entry.arrived < youngest.0 && !excused
        });
        let passed_over = passed_over.map(|entry| entry.text.clone());
        self.require(Invariant::I16, passed_over.is_none(), || {
            format!("{passed_over:?} is passed over")
        });
    }

    /// Two requests that wait together get equal shares.
    fn shares(&mut self, members: &[Entry]) {
        let cost = |model: &Model<'_>, (request, position): Entry| {
            model.request(request).tokens[position].max(1)
        };
        let largest = self.model.trace.requests.iter().flat_map(|request| &request.tokens).max();
        let largest = largest.copied().unwrap_or(0).max(1);
        let bound = self.config.max_tokens.max(largest) + largest;
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.retain(|(left, right), served| {
            for member in members {
                let got = cost(&self.model, *member);
                served[0] += if member.0 == *left { got } else { 0 };
                served[1] += if member.0 == *right { got } else { 0 };
            }
            let waiting = [*left, *right]
                .map(|request| self.model.waiting.range((request, 0)..(request + 1, 0)).next());
            let both =
                waiting.iter().all(|entry| entry.is_some_and(|(_, entry)| !self.aged(entry)));
            if both && served[0].abs_diff(served[1]) > bound {
                let message = format!("requests {left} and {right} got {served:?}, bound {bound}");
                self.violations.push((Invariant::I17, message));
            }
            both
        });
        self.pairs = pairs;
    }

    fn settled(&mut self, moment: &Moment) {
        self.counts(moment);
        self.waits_for_a_reason(moment);
        self.answers_in_time(moment);
        if let Some(request) = self.idle_arrival.take() {
            let waits = self.waits(request) == self.model.request(request).texts.len();
            self.require(Invariant::I11, !waits, || {
                format!("request {request} waits, all is idle")
            });
        }
        self.last = Some(*moment);
    }

    fn counts(&mut self, moment: &Moment) {
        let expected = self.model.queued();
        if !self.model.dropped {
            self.require(Invariant::I5, moment.queued == expected, || {
                format!("{:?} counted, {expected:?} live", moment.queued)
            });
        }
        let within = moment.queued.texts <= self.config.queue_texts
            && moment.queued.tokens <= self.config.queue_tokens
            && moment.queued.bytes <= self.config.queue_bytes;
        self.require(Invariant::I5, within, || format!("{:?} exceeds the caps", moment.queued));
        let holders = usize::from(moment.foreign_holds)
            + if self.model.trace.setup.gated { moment.running } else { 0 };
        self.require(Invariant::I4, moment.holders == holders, || {
            format!("{} hold the gate, expected {holders}", moment.holders)
        });
        let mut unanswered = self.unanswered.iter();
        let timed = unanswered.any(|request| self.model.request(*request).deadline.is_some());
        let lingering = !self.config.linger.is_zero() && !self.model.waiting.is_empty();
        let needed = timed || lingering || (self.model.drain.is_some() && !moment.ended);
        self.require(Invariant::I15, needed || moment.timers == 0, || {
            format!("{} timers armed, nothing to wait for", moment.timers)
        });
        self.require(Invariant::I15, moment.timers <= 1, || format!("{} timers", moment.timers));
    }

    fn waits_for_a_reason(&mut self, moment: &Moment) {
        let free = moment.running < self.config.slots && !self.gate_taken(moment) && !moment.ended;
        if !free || self.model.waiting.is_empty() {
            return;
        }
        if self.config.linger.is_zero() || self.model.drain.is_some() {
            let waiting: Vec<Entry> = self.model.waiting.keys().copied().collect();
            self.require(Invariant::I12, false, || format!("{waiting:?} wait, a slot is free"));
            return;
        }
        let options: Vec<u8> = self.model.waiting.values().map(|entry| entry.options).collect();
        for options in options {
            let group: Vec<&Waiting> =
                self.model.waiting.values().filter(|entry| entry.options == options).collect();
            let (overdue, full) = (self.overdue(&group), self.full(&group));
            self.require(Invariant::I13, !overdue, || format!("the window of {options} is over"));
            self.require(Invariant::I14, !full, || format!("the budget of {options} is full"));
        }
    }

    fn answers_in_time(&mut self, moment: &Moment) {
        let now = self.model.now;
        let mut sent = self.unanswered.iter().copied();
        let late = sent.find(|request| {
            self.model.request(*request).deadline.is_some_and(|deadline| deadline <= now)
        });
        self.require(Invariant::I18, late.is_none(), || format!("{late:?} has expired and waits"));
        let over = self.model.drain.is_some_and(|deadline| deadline <= now);
        let idle = self.model.waiting.is_empty() && self.model.running.is_empty();
        let done = self.model.drain.is_some() && idle;
        self.require(Invariant::I20, moment.ended || !(over || done), || {
            "the worker outlives the drain".to_owned()
        });
        self.require(Invariant::I21, moment.ended || !self.model.dropped, || {
            "the worker outlives its handles".to_owned()
        });
    }

    fn at_the_end(&mut self) {
        for index in 0..self.model.trace.requests.len() {
            let request = self.model.request(index);
            let answered = request.answer.is_some() || request.cancelled;
            let owed = if self.model.dropped { Invariant::I21 } else { Invariant::I1 };
            self.require(Invariant::I22, answered, || {
                format!("request {index} was never answered")
            });
            self.require(owed, answered, || format!("request {index} was never answered"));
            if let Some(answer) = &request.answer {
                self.answer(index, answer);
            }
        }
        let [admitted, ends @ ..] = self.model.trace.account;
        self.require(Invariant::I1, admitted == ends.iter().sum::<u64>(), || {
            format!(
                "{admitted} texts admitted, {ends:?} completed, failed, closed, cancelled, expired"
            )
        });
    }

    fn answer(&mut self, index: usize, answer: &Answer) {
        let request = self.model.request(index);
        let batches = self.model.members.iter();
        let batches =
            batches.filter(|(_, members)| members.iter().any(|(owner, _)| *owner == index));
        let queued = batches.map(|(batch, _)| *batch);
        let inline = self.model.trace.events.iter().find_map(|(_, event)| match event {
            Event::AtOnce { request, call, .. } if *request == index => *call,
            _ => None,
        });
        let calls = queued.chain(inline).filter_map(|call| self.model.trace.calls[call].as_ref());
        let failed: Vec<&Call> = calls.filter(|call| call.outcome != Outcome::Rows).collect();
        match answer {
            Ok(rows) => {
                let right: Vec<_> =
                    request.texts.iter().map(|text| row_of(text, request.options)).collect();
                let failed = failed.len();
                self.require(Invariant::I7, failed == 0, || {
                    format!("request {index} got rows from {failed} failed calls")
                });
                self.require(Invariant::I2, *rows == right || failed > 0, || {
                    format!("request {index} got {rows:?}, expected {right:?}")
                });
            }
            Err(error) => {
                let from_a_call = failed.iter().any(|call| {
                    // An item that failed alone is named by its place in the request.
                    let places = request.texts.iter().enumerate();
                    let alone = call.texts.len() == 1;
                    let last = call.texts.len() - 1;
                    let mut rows = places
                        .filter(|(_, text)| alone && call.texts[0] == **text)
                        .map(|(place, _)| place)
                        .chain((!alone).then_some(last));
                    rows.any(|row| *error == expected_error(call, row))
                });
                let shutdown = self.model.dropped || self.model.drain.is_some();
                let justified = match error {
                    Error::Closed | Error::Draining => shutdown,
                    Error::Expired => request.deadline.is_some(),
                    Error::Overloaded { .. } | Error::TooLarge { .. } => true,
                    Error::Panicked { message } => {
                        from_a_call || message.contains("cost of this text")
                    }
                    _ => from_a_call,
                };
                let owed = if failed.is_empty() { Invariant::I8 } else { Invariant::I7 };
                self.require(owed, justified, || {
                    format!("request {index} got {error:?}, its failed calls: {failed:?}")
                });
            }
        }
    }
}

/// The error that every waiter of a failed call gets, whose last row is the one at fault.
fn expected_error(call: &Call, row: usize) -> Error<ScriptError> {
    let expected = call.texts.len();
    match call.outcome {
        Outcome::Rows | Outcome::Fails => Error::Backend(ScriptError),
        Outcome::Panics => Error::Panicked { message: "as the script says".into() },
        Outcome::OneRowMissing => Error::RowCount { expected, received: expected - 1 },
        Outcome::OneRowMore => Error::RowCount { expected, received: expected + 1 },
        Outcome::ShortRow => Error::RowWidth { row, expected: 3, received: 2 },
        Outcome::NotANumber => Error::NotFinite { row, column: 1 },
    }
}
