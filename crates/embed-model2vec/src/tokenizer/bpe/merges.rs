//! The merges of a BPE model: a table of pairs, and the loop that applies it to a word.
//!
//! A word starts as one symbol for each byte. Of all neighbors that the table knows, the pair with the
//! lowest rank becomes one symbol, the leftmost of equals first, until no pair is left. This is what
//! the queue of the `tokenizers` crate does too: its entries are ordered by rank and position, and an
//! entry whose pair has changed meanwhile is passed over. (It recognizes such an entry by the new
//! token alone; as no two tokens of a vocabulary that we serve share an id, and a run of symbols spells
//! the same text before and after a merge, the pair is then the same one.)
//!
//! There are two loops with the same result:
//!
//! - Short words: the ranks of all neighbors lie in one array, and each round looks through all of
//!   it. Quadratic, but over a handful of adjacent numbers.
//! - Long words: a heap of (rank, position) over a doubly linked list, `n log n` in time and linear in
//!   memory. An entry counts if its rank is still that of the pair at its position: a rank belongs to
//!   one pair only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Symbols up to which a word takes the simple loop.
const SHORT: usize = 96;

/// No rank, no position, no symbol.
const NONE: u32 = u32::MAX;

/// Pairs of ids that become one, with their ranks.
#[derive(Debug)]
pub(super) struct Merges {
    /// Open addressing; the length is a power of two and at least twice the number of pairs.
    slots: Vec<Slot>,
    /// Shifts a hash down to a slot.
    shift: u32,
    /// The merged id for each rank.
    merged: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    pair: [u32; 2],
    /// [`NONE`] in an empty slot.
    rank: u32,
}

/// Working memory for merging.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The word; the result as well.
    pub(super) symbols: Vec<u32>,
    /// For each symbol the rank of the pair that it begins.
    ranks: Vec<u32>,
    previous: Vec<u32>,
    next: Vec<u32>,
    heap: Vec<Reverse<(u32, u32)>>,
}

impl Merges {
    /// A table of (left, right, merged) in the order of their ranks; of a pair that is listed twice,
    /// the last entry counts.
    pub(super) fn new(listed: &[[u32; 3]]) -> Self {
        let slots = (listed.len() * 2).next_power_of_two().max(2);
        let mut merges = Self {
            slots: vec![Slot { pair: [NONE; 2], rank: NONE }; slots],
            shift: 64 - slots.trailing_zeros(),
            merged: Vec::with_capacity(listed.len()),
        };
        for (rank, &[left, right, merged]) in (0..NONE).zip(listed) {
            let place = merges.place(left, right);
            merges.slots[place] = Slot { pair: [left, right], rank };
            merges.merged.push(merged);
        }
        merges
    }

    /// The slot of a pair, or the empty one where it belongs.
    #[inline]
    fn place(&self, left: u32, right: u32) -> usize {
        let pair = u64::from(left) << 32 | u64::from(right);
        // Both halves have to reach the upper bits, which choose the slot.
        let mixed = (pair ^ (pair >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut place = (mixed >> self.shift) as usize;
        loop {
            let slot = &self.slots[place];
            if slot.rank == NONE || slot.pair == [left, right] {
                return place;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// The rank of a pair, or [`NONE`].
    #[inline]
    fn rank(&self, left: u32, right: u32) -> u32 {
        self.slots[self.place(left, right)].rank
    }

    /// Merges the symbols of a word, of which there are at most `u32::MAX - 1`.
    pub(super) fn apply(&self, scratch: &mut Scratch) {
        if scratch.symbols.len() <= SHORT {
            self.apply_by_search(scratch);
        } else {
            self.apply_by_heap(scratch);
        }
    }

    fn apply_by_search(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, .. } = scratch;
        ranks.clear();
        ranks.extend(symbols.array_windows().map(|&[left, right]| self.rank(left, right)));
        // `ranks[i]` is that of symbols `i` and `i + 1`.
        while let Some(&lowest) = ranks.iter().min()
            && lowest != NONE
        {
            let at = ranks.iter().position(|&rank| rank == lowest).expect("it is in there");
            let merged = self.merged[lowest as usize];
            symbols[at] = merged;
            symbols.remove(at + 1);
            ranks.remove(at);
            if at > 0 {
                ranks[at - 1] = self.rank(symbols[at - 1], merged);
            }
            if at < ranks.len() {
                ranks[at] = self.rank(merged, symbols[at + 1]);
            }
        }
    }

    fn apply_by_heap(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, previous, next, heap } = scratch;
        let count = u32::try_from(symbols.len()).expect("the caller's promise");
        ranks.clear();
        ranks.extend(symbols.array_windows().map(|&[left, right]| self.rank(left, right)));
        ranks.push(NONE);
        previous.clear();
        // The first one wraps around to "none".
        previous.extend((0..count).map(|at| at.wrapping_sub(1)));
        next.clear();
        next.extend((1..count).chain([NONE]));
        heap.clear();
        heap.extend(
            ranks
                .iter()
                .zip(0..)
                .filter(|&(&rank, _)| rank != NONE)
                .map(|(&rank, at)| Reverse((rank, at))),
        );
        let mut queue = BinaryHeap::from(std::mem::take(heap));
        while let Some(Reverse((rank, at))) = queue.pop() {
            let here = at as usize;
            if ranks[here] != rank {
                continue;
            }
            let gone = next[here] as usize;
            let after = next[gone];
            let merged = self.merged[rank as usize];
            symbols[here] = merged;
            (symbols[gone], ranks[gone]) = (NONE, NONE);
            next[here] = after;
            ranks[here] = NONE;
            if after != NONE {
                previous[after as usize] = at;
                ranks[here] = self.rank(merged, symbols[after as usize]);
                if ranks[here] != NONE {
                    queue.push(Reverse((ranks[here], at)));
                }
            }
            let before = previous[here];
            if before != NONE {
                let rank = self.rank(symbols[before as usize], merged);
                ranks[before as usize] = rank;
                if rank != NONE {
                    queue.push(Reverse((rank, before)));
                }
            }
        }
        *heap = queue.into_vec();
        symbols.retain(|&symbol| symbol != NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: one merge after the other, found by looking at all pairs.
    fn by_definition(listed: &[[u32; 3]], word: &[u32]) -> Vec<u32> {
        let mut symbols = word.to_vec();
        loop {
            let best = symbols
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| {
                    let rank = listed.iter().rposition(|entry| entry[..2] == *pair)?;
                    Some((rank, at))
                })
                .min();
            let Some((rank, at)) = best else { return symbols };
            symbols.splice(at..at + 2, [listed[rank][2]]);
        }
    }

    fn apply(word: &[u32], loop_: impl Fn(&mut Scratch)) -> Vec<u32> {
        let mut scratch = Scratch { symbols: word.to_vec(), ..Scratch::default() };
        loop_(&mut scratch);
        scratch.symbols
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn both_loops_do_what_the_definition_says(
            pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..24),
            word in prop::collection::vec(0_u32..4, 0..40),
        ) {
            // A merged id belongs to the text that it spells, as it does in a vocabulary.
            let mut spelled: Vec<Vec<u32>> = (0..4).map(|id| vec![id]).collect();
            let mut listed = Vec::new();
            for (left, right) in pairs {
                let (Some(a), Some(b)) = (spelled.get(left as usize), spelled.get(right as usize))
                else {
                    continue;
                };
                let text = [a.as_slice(), b].concat();
                let id = spelled.iter().position(|known| *known == text).unwrap_or_else(|| {
                    spelled.push(text);
                    spelled.len() - 1
                });
                listed.push([left, right, u32::try_from(id).expect("small")]);
            }
            let merges = Merges::new(&listed);
            let expected = by_definition(&listed, &word);
            prop_assert_eq!(&apply(&word, |scratch| merges.apply_by_search(scratch)), &expected);
            prop_assert_eq!(&apply(&word, |scratch| merges.apply_by_heap(scratch)), &expected);
            prop_assert_eq!(&apply(&word, |scratch| merges.apply(scratch)), &expected);
        }
    }
}
