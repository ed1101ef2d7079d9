//! A simple model of what waits and what runs, fed with the events of a trace.
//!
//! It knows nothing of order or fairness: only which entries exist, where they are, and which batch
//! they went with. A batch is matched to entries by its texts, which are unique or, where they are
//! not, shared by all equal entries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use embed_batcher::{Amount, Class};

use crate::script::Outcome;
use crate::trace::{Event, Request, Trace};

/// An item of a request: the request and the position.
pub(crate) type Entry = (usize, usize);

/// An entry that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) options: u8,
    pub(crate) class: Class,
    pub(crate) tokens: usize,
    pub(crate) text: String,
}

pub(crate) struct Model<'a> {
    pub(crate) trace: &'a Trace,
    /// The latest time that was seen.
    pub(crate) now: Instant,
    pub(crate) waiting: BTreeMap<Entry, Waiting>,
    /// Entries that joined a running batch: they are counted as queued until it is back.
    pub(crate) joined: BTreeMap<Entry, (usize, Waiting)>,
    /// Batches with the backend.
    pub(crate) running: BTreeSet<usize>,
    /// Which entries went with each batch.
    pub(crate) members: BTreeMap<usize, Vec<Entry>>,
    pub(crate) drain: Option<Instant>,
    pub(crate) dropped: bool,
    /// Came back, and the worker does not know it yet.
    pub(crate) back: Vec<usize>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(trace: &'a Trace, start: Instant) -> Self {
        Self {
            trace,
            now: start,
            waiting: BTreeMap::new(),
            joined: BTreeMap::new(),
            running: BTreeSet::new(),
            members: BTreeMap::new(),
            drain: None,
            dropped: false,
            back: Vec::new(),
        }
    }

    pub(crate) fn request(&self, index: usize) -> &'a Request {
        &self.trace.requests[index]
    }

    pub(crate) fn queued(&self) -> Amount {
        let joined = self.joined.values().map(|(_, entry)| entry);
        self.waiting.values().chain(joined).fold(Amount::default(), |sum, entry| Amount {
            texts: sum.texts + 1,
            tokens: sum.tokens + entry.tokens,
            bytes: sum.bytes + entry.text.len(),
        })
    }

    /// Takes an event in. Returns the texts of a batch that matched nothing.
    pub(crate) fn step(&mut self, at: Instant, event: &Event) -> Vec<String> {
        self.now = self.now.max(at);
        match event {
            Event::Queued { request } => self.queue(*request),
            Event::Polled => self.poll(),
            Event::Handed { batch } => return self.hand(*batch),
            Event::Ran { batch } => self.back.push(*batch),
            Event::Cancelled { request } | Event::Answered { request } => self.forget(*request),
            Event::Drain { deadline } => {
                self.drain = Some(self.drain.map_or(*deadline, |drain| drain.min(*deadline)));
            }
            Event::HandlesDropped => self.dropped = true,
            Event::AtOnce { .. } | Event::Settled(_) | Event::Panicked(_) | Event::Spins => {}
        }
        Vec::new()
    }

    fn queue(&mut self, index: usize) {
        let request = self.request(index);
        for (position, text) in request.texts.iter().enumerate() {
            let entry = (index, position);
            let waiting = Waiting {
                arrived: self.now,
                deadline: request.deadline,
                options: request.options,
                class: request.class,
                tokens: request.tokens[position],
                text: text.clone(),
            };
            if let Some(batch) = self.batch_that_computes(text, request.options) {
                self.members.entry(batch).or_default().push(entry);
                self.joined.insert(entry, (batch, waiting));
            } else {
                self.waiting.insert(entry, waiting);
            }
        }
    }

    fn batch_that_computes(&self, text: &String, options: u8) -> Option<usize> {
        let shares = self.trace.setup.config.single_flight;
        self.running.iter().copied().filter(|_| shares).find(|batch| {
            let call = self.trace.calls[*batch].as_ref();
            call.is_some_and(|call| call.options == options && call.texts.contains(text))
        })
    }

    fn poll(&mut self) {
        let now = self.now;
        let in_time = |entry: &Waiting| entry.deadline.is_none_or(|deadline| deadline > now);
        self.waiting.retain(|_, entry| in_time(entry));
        self.joined.retain(|_, (_, entry)| in_time(entry));
        if self.dropped || self.drain.is_some_and(|deadline| deadline <= now) {
            self.waiting.clear();
            self.joined.clear();
        }
        for batch in std::mem::take(&mut self.back) {
            self.running.remove(&batch);
            self.joined.retain(|_, (joined, _)| *joined != batch);
            let failed =
                self.trace.calls[batch].as_ref().is_some_and(|call| call.outcome != Outcome::Rows);
            if failed {
                for (request, _) in self.members.get(&batch).cloned().unwrap_or_default() {
                    self.forget(request);
                }
            }
        }
    }

    fn hand(&mut self, batch: usize) -> Vec<String> {
        self.running.insert(batch);
        let Some(call) = &self.trace.calls[batch] else { return Vec::new() };
        let mut unmatched = Vec::new();
        let mut members = Vec::new();
        for text in &call.texts {
            let equal = |(_, entry): &(&Entry, &Waiting)| {
                entry.text == *text && entry.options == call.options
            };
            let takers: Vec<Entry> =
                self.waiting.iter().filter(equal).map(|(entry, _)| *entry).collect();
            if takers.is_empty() {
                unmatched.push(text.clone());
            }
            for taker in takers {
                self.waiting.remove(&taker);
                members.push(taker);
            }
        }
        self.members.insert(batch, members);
        unmatched
    }

    fn forget(&mut self, request: usize) {
        self.waiting.retain(|(index, _), _| *index != request);
        self.joined.retain(|(index, _), _| *index != request);
    }
}
