//! Bringing pieces in order while they are read.
//!
//! The order of all pieces is cut into some hundred ranges, the buckets, by pieces of the first run. Each
//! run is arranged by buckets as soon as it is there, which takes a few steps down a small tree for each
//! piece and is done in the cache. What is left to do behind the last piece is to collect the pieces of
//! each bucket, from all runs, and to sort them: hundreds, where they are all near. Two threads
//! share that, one half of the pieces each.
//!
//! A vocabulary that begins unlike the rest makes some buckets larger than others, which costs time and
//! nothing else. Sorting each run and merging the runs in the end took longer than sorting everything in
//! the end.

use std::ops::Range;

use super::sorted::{self, Sorted};
use super::{RUN, Run, ScoredPieces};
use crate::both::both;
use crate::pages;

const BUCKET_BITS: u32 = 9;
const BUCKETS: usize = 1 << BUCKET_BITS;

/// So many pieces of the first run, for each bucket, say where the buckets begin.
const SAMPLES: usize = 4;

/// Room for so many pieces at once. What stays empty costs nothing, and blocks of less than 32 MiB would
/// cost memory in the end: glibc takes one that is given back as a hint to keep as much from then on.
const ROOM: usize = 1 << 20;

/// Many pieces that become an ordered list.
pub(super) struct Order<'a> {
    pieces: ScoredPieces<'a>,
    buckets: Buckets,
    /// All runs, one behind the other, each arranged by buckets.
    arranged: Vec<Sorted>,
    /// Where each bucket of each run ends, counted from the beginning of the run.
    ends: Vec<[u16; BUCKETS]>,
    /// Where the ordered list will be: as long as there are pieces, so that the memory is there when it
    /// is needed.
    room: Vec<Sorted>,
    /// Working memory: a run in the order of the file, and the bucket of each piece.
    run: Vec<Sorted>,
    bucket_of: Vec<u16>,
}

impl<'a> Order<'a> {
    /// An order without pieces. `first` is a full run, which is still to be added.
    pub(super) fn new(first: &Run<'a>) -> Self {
        Self {
            pieces: ScoredPieces::default(),
            buckets: Buckets::new(first),
            arranged: Vec::new(),
            ends: Vec::new(),
            room: Vec::new(),
            run: Vec::with_capacity(RUN),
            bucket_of: Vec::with_capacity(RUN),
        }
    }

    /// Takes the pieces of a run, which all but the last one fill.
    pub(super) fn add(&mut self, run: &mut Run<'a>) {
        self.run.clear();
        self.pieces.take(run, &mut self.run);
        self.bucket_of.clear();
        self.bucket_of.extend(self.run.iter().map(|piece| self.buckets.of(piece.head)));
        let mut places = [0; BUCKETS];
        for &bucket in &self.bucket_of {
            places[usize::from(bucket)] += 1;
        }
        let mut start = 0;
        for place in &mut places {
            (start, *place) = (start + *place, start);
        }
        for list in [&mut self.arranged, &mut self.room] {
            if list.capacity() - list.len() < self.run.len() {
                pages::reserve(list, ROOM);
            }
            list.resize(list.len() + self.run.len(), Sorted::NONE);
        }
        let start = self.arranged.len() - self.run.len();
        let arranged = &mut self.arranged[start..];
        for (piece, &bucket) in self.run.iter().zip(&self.bucket_of) {
            let place = &mut places[usize::from(bucket)];
            arranged[usize::from(*place)] = *piece;
            *place += 1;
        }
        // Each place has moved to the end of its bucket.
        self.ends.push(places);
    }

    /// All pieces, in order.
    pub(super) fn finish(mut self) -> ScoredPieces<'a> {
        let mut room = std::mem::take(&mut self.room);
        let (mut middle, mut lower) = (0, 0);
        while lower < room.len() / 2 {
            lower += self.parts(middle).map(<[_]>::len).sum::<usize>();
            middle += 1;
        }
        let (lower, upper) = room.split_at_mut(lower);
        let (lower_differ, upper_differ) =
            both(|| self.fill(lower, 0..middle), || self.fill(upper, middle..BUCKETS));
        ScoredPieces { all_differ: lower_differ && upper_differ, sorted: room, ..self.pieces }
    }

    /// What the runs have in a bucket.
    fn parts(&self, bucket: usize) -> impl Iterator<Item = &[Sorted]> {
        self.arranged.chunks(RUN).zip(&self.ends).map(move |(run, ends)| {
            let start = bucket.checked_sub(1).map_or(0, |before| ends[before]);
            &run[start.into()..ends[bucket].into()]
        })
    }

    /// Fills `room` with some buckets, in order; says whether all of their pieces differ.
    fn fill(&self, mut room: &mut [Sorted], buckets: Range<usize>) -> bool {
        let mut all_differ = true;
        for bucket in buckets {
            let mut len = 0;
            for part in self.parts(bucket) {
                room[len..][..part.len()].copy_from_slice(part);
                len += part.len();
            }
            let pieces;
            (pieces, room) = room.split_at_mut(len);
            all_differ &= sorted::sort(pieces, &self.pieces.texts);
        }
        all_differ
    }
}

/// Ranges of heads, with about as many pieces of a sample in each.
struct Buckets {
    /// The heads that ranges begin with, as a tree: the children of a node are at twice its place and
    /// behind that. The root is at 1.
    tree: [u128; BUCKETS],
}

impl Buckets {
    fn new(run: &Run<'_>) -> Self {
        let step = (run.len() / (SAMPLES * BUCKETS)).max(1);
        let sample = run.iter().step_by(step);
        let mut heads: Vec<u128> = sample.map(|(text, _)| sorted::head(text.as_bytes())).collect();
        heads.sort_unstable();
        let mut tree = [0; BUCKETS];
        for (node, head) in tree.iter_mut().enumerate().skip(1) {
            let level = node.ilog2();
            // Which of the ranges begins here.
            let range = (2 * (node - (1 << level)) + 1) << (BUCKET_BITS - 1 - level);
            *head = heads[range * heads.len() / BUCKETS];
        }
        Self { tree }
    }

    /// The bucket of pieces with this head.
    #[inline]
    fn of(&self, head: u128) -> u16 {
        let mut node = 1;
        for _ in 0..BUCKET_BITS {
            // The remainder is the node itself: the compiler does not know that a leaf comes last.
            let is_behind = self.tree[node % BUCKETS] <= head;
            node = 2 * node + usize::from(is_behind);
        }
        u16::try_from(node % BUCKETS).expect("there are less than 2^16 buckets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ranges_of_heads() {
        let texts: Vec<String> =
            (0..RUN).map(|number| format!("{:x}", number * 7919 % RUN)).collect();
        let run: Run<'_> = texts.iter().map(|text| (text.into(), 0.0)).collect();
        let buckets = Buckets::new(&run);
        let mut heads: Vec<u128> = texts.iter().map(|text| sorted::head(text.as_bytes())).collect();
        heads.sort_unstable();
        assert!(heads.is_sorted_by_key(|&head| buckets.of(head)));
        let mut counts = [0; BUCKETS];
        for head in heads {
            counts[usize::from(buckets.of(head))] += 1;
        }
        let even = RUN / BUCKETS;
        assert!(counts.iter().all(|count| (1..=2 * even).contains(count)), "{counts:?}");
        let ends = [0, u128::MAX].map(|head| usize::from(buckets.of(head)));
        assert_eq!(ends, [0, BUCKETS - 1]);
    }
}
