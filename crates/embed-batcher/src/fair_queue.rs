//! The order in which requests are served.
//!
//! # The rule
//!
//! Requests are served by *start-time fair queueing*: each request with waiting items carries a tag, the
//! service it has had, in tokens; the lowest tag goes next and is charged what was taken. A newcomer
//! starts at the *virtual time* of its class, which advances by the tokens served over the number of
//! requests that share them: what each would have had by now under perfect sharing. So an array of
//! 2,048 items and a lone query alternate item by item, and an endless stream of newcomers cannot
//! starve an array, because it moves the time from which newcomers start.
//!
//! Bulk requests have tags and a time of their own and go after all interactive ones. Whoever has
//! waited for the ageing bound goes before everybody younger, in order of arrival.
//!
//! Items of one batch share their options, so requests stand in groups by options. The request that is
//! next in the whole queue decides the group; the rest of the batch comes from that group, in the same
//! order. A group may not use this to run ahead: a request takes part only while its tag is within
//! one batch of the lowest tag of its class.
//!
//! # What follows
//!
//! Two requests of equal class that began to wait together stay within one batch (and, with a group
//! each, one item) of each other in tokens served. Within a request, items are taken in order. Equal
//! tags go to whoever was not served yet, then to the earlier request.
//!
//! Everything is a search tree: an item costs a few comparisons. Tags are fixed-point numbers with
//! 16 fractional bits; 128 bits never overflow.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::config::Class;
use crate::fault::{Fault, Seeded};

/// Names one request.
pub(crate) type RequestId = u64;

/// Service in tokens, times 2^16.
type Tag = u128;

/// Place in the order of a class: tag, whether it was served before, age.
type Rank = (Tag, bool, RequestId);

const FRACTION_BITS: u32 = 16;

#[derive(Debug)]
pub(crate) struct FairQueue<G> {
    members: HashMap<RequestId, Member<G>>,
    groups: HashMap<G, Group>,
    /// For each class.
    time: [Tag; 2],
    count: [usize; 2],
    ageing: Duration,
    seeded: Seeded,
}

#[derive(Debug)]
struct Member<G> {
    group: G,
    class: Class,
    arrived: Instant,
    tag: Tag,
    served: bool,
}

impl<G> Member<G> {
    fn rank(&self, id: RequestId) -> Rank {
        (self.tag, self.served, id)
    }
}

/// Requests with equal options.
#[derive(Debug, Default)]
pub(crate) struct Group {
    ranks: [BTreeSet<Rank>; 2],
    ages: BTreeSet<(Instant, RequestId)>,
    /// Items that wait.
    pub(crate) texts: usize,
    /// The sum of their costs.
    pub(crate) tokens: usize,
}

impl Group {
    /// When the oldest of it arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.ages.first().map(|(arrived, _)| *arrived)
    }

    /// When the youngest of it arrived.
    pub(crate) fn youngest(&self) -> Option<Instant> {
        self.ages.last().map(|(arrived, _)| *arrived)
    }
}

/// The highest tag, for each class, that may take part in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings([Tag; 2]);

impl<G: Clone + Eq + Hash> FairQueue<G> {
    pub(crate) fn new(ageing: Duration, seeded: Seeded) -> Self {
        Self {
            members: HashMap::new(),
            groups: HashMap::new(),
            time: [0; 2],
            count: [0; 2],
            ageing,
            seeded,
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    pub(crate) fn group_of(&self, id: RequestId) -> Option<&G> {
        self.members.get(&id).map(|member| &member.group)
    }

    /// Adds a request whose items wait from now on. Ids grow with every call.
    pub(crate) fn insert(&mut self, id: RequestId, group: G, class: Class, arrived: Instant) {
        let tag = self.time[class as usize];
        let member = Member { group, class, arrived, tag, served: false };
        let group = self.groups.entry(member.group.clone()).or_default();
        group.ranks[class as usize].insert(member.rank(id));
        group.ages.insert((arrived, id));
        self.count[class as usize] += 1;
        self.members.insert(id, member);
    }

    /// Notes an item that waits.
    pub(crate) fn add_item(&mut self, id: RequestId, tokens: usize) {
        if let Some(group) = self.group_mut(id) {
            group.texts += 1;
            group.tokens = group.tokens.saturating_add(tokens);
        }
    }

    /// Notes an item that waits no more. It is not charged for.
    pub(crate) fn remove_item(&mut self, id: RequestId, tokens: usize) {
        if let Some(group) = self.group_mut(id) {
            group.texts -= 1;
            group.tokens = group.tokens.saturating_sub(tokens);
        }
    }

    fn group_mut(&mut self, id: RequestId) -> Option<&mut Group> {
        let member = self.members.get(&id)?;
        self.groups.get_mut(&member.group)
    }

    /// Removes a request; all its items were removed before.
    pub(crate) fn remove(&mut self, id: RequestId) {
        let Some(member) = self.members.remove(&id) else { return };
        self.count[member.class as usize] -= 1;
        let Some(group) = self.groups.get_mut(&member.group) else { return };
        group.ranks[member.class as usize].remove(&member.rank(id));
        group.ages.remove(&(member.arrived, id));
        if group.ages.is_empty() {
            self.groups.remove(&member.group);
        }
    }

    /// Charges a request for service.
    pub(crate) fn charge(&mut self, id: RequestId, tokens: usize) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let class = member.class as usize;
        // Free items would let a request take all of a batch.
        let service = (tokens.max(1) as Tag) << FRACTION_BITS;
        if self.seeded.is(Fault::I17ChargesNothing) {
            return;
        }
        self.time[class] += service / self.count[class] as Tag;
        let before = member.rank(id);
        member.tag += service;
        member.served = true;
        let after = member.rank(id);
        if let Some(group) = self.groups.get_mut(&member.group) {
            group.ranks[class].remove(&before);
            group.ranks[class].insert(after);
        }
    }

    /// The group of the request that is next, among the groups that are due.
    pub(crate) fn lead(&self, now: Instant, due: impl Fn(&Group) -> bool) -> Option<G> {
        let candidates = self.groups.values().filter(|group| due(group));
        let next = candidates.filter_map(|group| {
            if let Some((arrived, id)) = self.aged(group, now) {
                // Aged ones first, by age.
                return Some(((0, Some(arrived), 0, false), id));
            }
            let ranks = group.ranks.iter().enumerate();
            let (class, (tag, served, id)) =
                ranks.filter_map(|(class, ranks)| Some((class, *ranks.first()?))).next()?;
            Some(((1 + class, None, tag, served), id))
        });
        let (_, id) = next.min()?;
        self.group_of(id).cloned()
    }

    /// The request of `group` that is next, if any may take part under `ceilings`.
    pub(crate) fn next(&self, group: &G, now: Instant, ceilings: Ceilings) -> Option<RequestId> {
        let group = self.groups.get(group)?;
        if let Some((_, id)) = self.aged(group, now) {
            return Some(id);
        }
        let firsts = group.ranks.iter().zip(ceilings.0);
        firsts
            .filter_map(|(ranks, ceiling)| ranks.first().filter(|(tag, ..)| *tag <= ceiling))
            .map(|(.., id)| *id)
            .next()
    }

    /// Whether anything of `group` waits.
    pub(crate) fn waits(&self, group: &G) -> bool {
        self.groups.contains_key(group)
    }

    fn aged(&self, group: &Group, now: Instant) -> Option<(Instant, RequestId)> {
        let oldest = *group.ages.first()?;
        let aged = now.saturating_duration_since(oldest.0) >= self.ageing;
        (aged && !self.seeded.is(Fault::I16IgnoresAge)).then_some(oldest)
    }

    /// How far ahead of the others that are due a request of a batch of `max_tokens` may be.
    pub(crate) fn ceilings(&self, max_tokens: usize, due: impl Fn(&Group) -> bool) -> Ceilings {
        let reach = (max_tokens as Tag) << FRACTION_BITS;
        Ceilings([0, 1].map(|class| {
            let candidates = self.groups.values().filter(|group| due(group));
            let lowest = candidates.filter_map(|group| group.ranks[class].first());
            lowest.map(|(tag, ..)| *tag).min().unwrap_or(0) + reach
        }))
    }
}
