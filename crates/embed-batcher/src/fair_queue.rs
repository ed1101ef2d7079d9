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
//! waited for the aging bound goes before everybody younger, in order of arrival.
//!
//! Items of one batch share their options, so requests stand in groups by options. The request that is
//! next in the whole queue decides the group; the rest of the batch comes from that group, in the same
//! order. A group may not use this to run ahead: a request takes part only while its tag is within
//! one batch of the lowest tag of its class.
//!
//! # What follows
//!
//! Two requests of equal class that began to wait together stay within one item of each other in tokens
//! served, if their options are equal; if not, within one batch and one item. Within a request, items are
//! taken in order. Equal tags go to whoever was not served yet, then to the earlier request.
//!
//! Within a group everything is a search tree: an item costs a few comparisons. A batch looks at every
//! group once, and there are as many groups as different options that wait. Tags are fixed-point numbers with
//! 16 fractional bits; 128 bits never overflow.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::config::Class;
use crate::fault::{Fault, Seeded};

/// Names one request.
pub(crate) type RequestId = u64;

/// Service in tokens, times 2^16.
type Tag = u128;

/// Place in the order of a class: tag, whether it was served before, age.
type Rank = (Tag, bool, RequestId);

const FRACTION_BITS: u32 = 16;

/// Names the requests of equal options, while any of them waits.
pub(crate) type GroupId = u64;

#[derive(Debug)]
pub(crate) struct FairQueue<G> {
    members: FxHashMap<RequestId, Member>,
    groups: FxHashMap<GroupId, Group<G>>,
    ids: HashMap<G, GroupId>,
    next_group: GroupId,
    /// For each class.
    time: [Tag; 2],
    count: [usize; 2],
    aging: Duration,
    seeded: Seeded,
}

#[derive(Debug)]
struct Member {
    group: GroupId,
    class: Class,
    arrived: Instant,
    tag: Tag,
    served: bool,
    /// Items that wait.
    items: usize,
}

impl Member {
    fn rank(&self, id: RequestId) -> Rank {
        (self.tag, self.served, id)
    }
}

/// Requests with equal options.
#[derive(Debug)]
pub(crate) struct Group<G> {
    options: G,
    ranks: [BTreeSet<Rank>; 2],
    ages: BTreeSet<(Instant, RequestId)>,
    /// Items that wait.
    pub(crate) texts: usize,
    /// The sum of their costs.
    pub(crate) tokens: usize,
}

impl<G> Group<G> {
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
    pub(crate) fn new(aging: Duration, seeded: Seeded) -> Self {
        Self {
            members: FxHashMap::default(),
            groups: FxHashMap::default(),
            ids: HashMap::new(),
            next_group: 0,
            time: [0; 2],
            count: [0; 2],
            aging,
            seeded,
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group<G>> {
        self.groups.values()
    }

    /// Adds a request of so many waiting items, one at least, that cost `tokens` together.
    pub(crate) fn insert(
        &mut self,
        id: RequestId,
        options: G,
        class: Class,
        arrived: Instant,
        (items, tokens): (usize, usize),
    ) {
        let next = self.next_group;
        let group_id = *self.ids.entry(options).or_insert_with_key(|options| {
            let options = options.clone();
            let (ranks, ages) = Default::default();
            self.groups.insert(next, Group { options, ranks, ages, texts: 0, tokens: 0 });
            next
        });
        self.next_group += u64::from(group_id == next);
        let tag = self.time[class as usize];
        let member = Member { group: group_id, class, arrived, tag, served: false, items };
        if let Some(group) = self.groups.get_mut(&group_id) {
            group.ranks[class as usize].insert(member.rank(id));
            group.ages.insert((arrived, id));
            group.texts += items;
            group.tokens = group.tokens.saturating_add(tokens);
        }
        self.count[class as usize] += 1;
        self.members.insert(id, member);
    }

    /// Takes one waiting item out, which costs `tokens`, and charges its request for it or not. With its
    /// last item a request is gone.
    pub(crate) fn take(&mut self, id: RequestId, tokens: usize, charge: Charge) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let class = member.class as usize;
        let before = member.rank(id);
        if charge == Charge::Tokens && !self.seeded.is(Fault::I17ChargesNothing) {
            // Free items would let a request take all of a batch.
            let service = (tokens.max(1) as Tag) << FRACTION_BITS;
            self.time[class] += service / self.count[class] as Tag;
            member.tag += service;
            member.served = true;
        }
        member.items -= 1;
        let (after, gone) = (member.rank(id), member.items == 0);
        let (arrived, group_id) = (member.arrived, member.group);
        let Some(group) = self.groups.get_mut(&group_id) else { return };
        group.texts -= 1;
        group.tokens = group.tokens.saturating_sub(tokens);
        if gone {
            group.ranks[class].remove(&before);
            group.ages.remove(&(arrived, id));
            self.count[class] -= 1;
            self.members.remove(&id);
            if group.ages.is_empty() {
                self.ids.remove(&group.options);
                self.groups.remove(&group_id);
            }
        } else if after != before {
            group.ranks[class].remove(&before);
            group.ranks[class].insert(after);
        }
    }

    /// The group of the request that is next, among the groups that are due.
    pub(crate) fn lead(&self, now: Instant, due: impl Fn(&Group<G>) -> bool) -> Option<GroupId> {
        let candidates = self.groups.iter().filter(|(_, group)| due(group));
        let next = candidates.filter_map(|(group_id, group)| {
            if let Some((arrived, id)) = self.aged(group, now) {
                // Aged ones first, by age.
                return Some(((0, Some(arrived), 0, false), id, *group_id));
            }
            let mut ranks = group.ranks.iter().enumerate();
            let (class, (tag, served, id)) =
                ranks.find_map(|(class, ranks)| Some((class, *ranks.first()?)))?;
            Some(((1 + class, None, tag, served), id, *group_id))
        });
        next.min().map(|(.., group_id)| group_id)
    }

    /// The request of `group` that is next, if any may take part under `ceilings`.
    pub(crate) fn next(
        &self,
        group: GroupId,
        now: Instant,
        ceilings: Ceilings,
    ) -> Option<RequestId> {
        let group = self.groups.get(&group)?;
        if let Some((_, id)) = self.aged(group, now) {
            return Some(id);
        }
        // The first of the first class: if that one may not take part, nobody goes before it.
        let mut firsts = group.ranks.iter().zip(ceilings.0);
        let ((tag, _, id), ceiling) =
            firsts.find_map(|(ranks, ceiling)| Some((*ranks.first()?, ceiling)))?;
        (tag <= ceiling).then_some(id)
    }

    /// Whether anything of `group` waits.
    pub(crate) fn waits(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
    }

    fn aged(&self, group: &Group<G>, now: Instant) -> Option<(Instant, RequestId)> {
        let oldest = *group.ages.first()?;
        let aged = now.saturating_duration_since(oldest.0) >= self.aging;
        (aged && !self.seeded.is(Fault::I16IgnoresAge)).then_some(oldest)
    }

    /// How far ahead of the others that are due a request of a batch of `max_tokens` may be.
    pub(crate) fn ceilings(&self, max_tokens: usize, due: impl Fn(&Group<G>) -> bool) -> Ceilings {
        let reach = (max_tokens as Tag) << FRACTION_BITS;
        Ceilings([0, 1].map(|class| {
            let candidates = self.groups.values().filter(|group| due(group));
            let lowest = candidates.filter_map(|group| group.ranks[class].first());
            lowest.map(|(tag, ..)| *tag).min().unwrap_or(0) + reach
        }))
    }
}

/// Whether an item that leaves the queue was a service to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// It was: the request moves back.
    Tokens,
    /// It was not: withdrawn, or computed for another.
    Nothing,
}
