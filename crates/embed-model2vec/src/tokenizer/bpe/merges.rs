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
//! - Short words, up to [`SHORT`] symbols: for each neighborhood, one number with the rank in its upper
//!   bits and the position in its lower ones. The smallest number is the next merge, and finding it is
//!   one pass of vector instructions over a few words of memory. A symbol that is merged into the one
//!   before it stays where it was, without its bit in a mask of the living; so nothing is moved.
//! - Long words: a heap of (rank, position) over a doubly linked list, `n log n` in time and linear in
//!   memory. An entry counts if its rank is still that of the pair at its position: a rank belongs to
//!   one pair only.
//!
//! The ranks of two single bytes, with which every word begins, have a table of their own: a quarter of
//! a megabyte, of which text uses a few dozen lines, so that they come from the nearest cache.
//!
//! A first version of the short loop kept symbols and ranks in vectors and removed what was merged;
//! multilingual text, with many words that are not in the cache, took a fifth longer with it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Symbols up to which a word takes the simple loop: one for each bit of a mask.
const SHORT: usize = 64;

/// Bits of a position in a short word.
const POSITION_BITS: u32 = SHORT.trailing_zeros();

const POSITION_MASK: u32 = (1 << POSITION_BITS) - 1;

/// Short words are searched in steps of this many symbols.
const STEP: usize = 8;

/// Elements for which working memory keeps room from one word to the next.
const KEPT: usize = 1 << 14;

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
    /// The id of each byte, or [`NONE`].
    byte_ids: [u32; 256],
    /// The rank of each pair of bytes, or [`NONE`]; the left one chooses the row.
    byte_ranks: Vec<[u32; 256]>,
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

impl Scratch {
    /// Makes room for the next word.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.symbols.shrink_to(KEPT);
    }
}

impl Merges {
    /// A table of (left, right, merged) in the order of their ranks; of a pair that is listed twice,
    /// the last entry counts. `None` if there are more merges than any model has.
    pub(super) fn new(listed: &[[u32; 3]], byte_ids: &[u32; 256]) -> Option<Self> {
        if listed.len() >= 1 << (u32::BITS - POSITION_BITS - 1) {
            return None;
        }
        let slots = (listed.len() * 2).next_power_of_two().max(2);
        let mut merges = Self {
            slots: vec![Slot { pair: [NONE; 2], rank: NONE }; slots],
            shift: 64 - slots.trailing_zeros(),
            merged: Vec::with_capacity(listed.len()),
            byte_ids: *byte_ids,
            byte_ranks: vec![[NONE; 256]; 256],
        };
        for (rank, &[left, right, merged]) in (0..NONE).zip(listed) {
            let place = merges.place(left, right);
            merges.slots[place] = Slot { pair: [left, right], rank };
            merges.merged.push(merged);
        }
        for (row, left) in merges.byte_ids.into_iter().enumerate() {
            for (column, right) in merges.byte_ids.into_iter().enumerate() {
                merges.byte_ranks[row][column] = merges.rank(left, right);
            }
        }
        Some(merges)
    }

    /// The id of each byte, or `u32::MAX`.
    #[inline]
    pub(super) fn byte_ids(&self) -> &[u32; 256] {
        &self.byte_ids
    }

    /// The slot of a pair, or the empty one where it belongs.
    #[inline]
    fn place(&self, left: u32, right: u32) -> usize {
        let pair = (u64::from(left) << 32) | u64::from(right);
        // Both halves have to reach the upper bits, which choose the slot.
        let mixed = (pair ^ (pair >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of slots")]
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

    /// Merges a word of bytes that all have an id.
    ///
    /// `false` if it is too long for this, or one of them has none; nothing has happened then.
    #[inline]
    pub(super) fn apply_to_bytes(&self, word: &[u8], scratch: &mut Scratch) -> bool {
        if word.len() > SHORT {
            return false;
        }
        let mut symbols = [NONE; SHORT];
        let mut keys = [NONE; SHORT];
        let mut missing = false;
        for (symbol, &byte) in symbols.iter_mut().zip(word) {
            *symbol = self.byte_ids[usize::from(byte)];
            missing |= *symbol == NONE;
        }
        if missing {
            return false;
        }
        for (at, &[left, right]) in (0..).zip(word.array_windows()) {
            keys[at as usize] = key(self.byte_ranks[usize::from(left)][usize::from(right)], at);
        }
        self.apply_by_search(&mut symbols, &mut keys, word.len(), &mut scratch.symbols);
        true
    }

    /// Merges the symbols of a word.
    pub(super) fn apply(&self, scratch: &mut Scratch) {
        let length = scratch.symbols.len();
        if length <= SHORT {
            let mut symbols = [NONE; SHORT];
            let mut keys = [NONE; SHORT];
            symbols[..length].copy_from_slice(&scratch.symbols);
            for (at, &[left, right]) in (0..).zip(scratch.symbols.array_windows()) {
                keys[at as usize] = key(self.rank(left, right), at);
            }
            self.apply_by_search(&mut symbols, &mut keys, length, &mut scratch.symbols);
        } else {
            self.apply_by_heap(scratch);
        }
    }

    /// `keys[i]` is that of the symbol `i` and the one after it.
    #[inline]
    fn apply_by_search(
        &self,
        symbols: &mut [u32; SHORT],
        keys: &mut [u32; SHORT],
        length: usize,
        out: &mut Vec<u32>,
    ) {
        let searched = length.next_multiple_of(STEP);
        let mut alive = if length == SHORT { u64::MAX } else { (1 << length) - 1 };
        loop {
            let (steps, _) = keys[..searched].as_chunks::<STEP>();
            let mut lowest = [NONE; STEP];
            for step in steps {
                for (lowest, &key) in lowest.iter_mut().zip(step) {
                    *lowest = key.min(*lowest);
                }
            }
            let lowest = lowest.into_iter().fold(NONE, u32::min);
            if lowest == NONE {
                break;
            }
            let at = lowest as usize % SHORT;
            let merged = self.merged[(lowest >> POSITION_BITS) as usize];
            // The living behind `at`: the first one is merged into it.
            let behind = alive & (u64::MAX - 1) << at;
            let gone = behind.trailing_zeros() as usize % SHORT;
            alive &= !(1 << gone);
            symbols[at] = merged;
            keys[gone] = NONE;
            keys[at] = match behind & (behind - 1) {
                0 => NONE,
                rest => key(self.rank(merged, symbols[rest.trailing_zeros() as usize]), lowest),
            };
            let before = alive & ((1 << at) - 1);
            if before != 0 {
                let before = before.ilog2();
                keys[before as usize] = key(self.rank(symbols[before as usize], merged), before);
            }
        }
        out.clear();
        while alive != 0 {
            out.push(symbols[alive.trailing_zeros() as usize]);
            alive &= alive - 1;
        }
    }

    fn apply_by_heap(&self, scratch: &mut Scratch) {
        let Scratch { symbols, ranks, previous, next, heap } = scratch;
        let count = u32::try_from(symbols.len()).expect("a word has less than four gigabytes");
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
        // A word of a megabyte must not occupy memory for as long as the process lives.
        heap.clear();
        heap.shrink_to(KEPT);
        for list in [ranks, previous, next] {
            list.clear();
            list.shrink_to(KEPT);
        }
    }
}

/// A number that orders pairs by rank and position, of which only the lower bits count.
#[inline]
fn key(rank: u32, position: u32) -> u32 {
    if rank == NONE { NONE } else { (rank << POSITION_BITS) | (position & POSITION_MASK) }
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
        fn all_loops_do_what_the_definition_says(
            pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..24),
            word in prop::collection::vec(0_u8..4, 0..=SHORT),
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
            let byte_ids = std::array::from_fn(|byte| match u32::try_from(byte) {
                Ok(id @ 0..4) => id,
                _ => NONE,
            });
            let merges = Merges::new(&listed, &byte_ids).expect("few merges");
            let symbols: Vec<u32> = word.iter().copied().map(u32::from).collect();
            let expected = by_definition(&listed, &symbols);
            prop_assert_eq!(&apply(&symbols, |scratch| merges.apply(scratch)), &expected);
            prop_assert_eq!(&apply(&symbols, |scratch| merges.apply_by_heap(scratch)), &expected);
            let by_bytes = apply(&symbols, |scratch| {
                assert!(merges.apply_to_bytes(&word, scratch));
            });
            prop_assert_eq!(&by_bytes, &expected);
        }
    }

    #[test]
    fn memory_for_a_very_long_word_is_given_back() {
        let merges = Merges::new(&[[0, 0, 1], [1, 1, 2]], &[NONE; 256]).expect("few merges");
        let mut scratch = Scratch { symbols: vec![0; 1 << 20], ..Scratch::default() };
        merges.apply(&mut scratch);
        assert_eq!(scratch.symbols, vec![2; 1 << 18]);
        scratch.clear();
        let Scratch { symbols, ranks, previous, next, heap } = scratch;
        let lists = [symbols.capacity(), ranks.capacity(), previous.capacity(), next.capacity()];
        assert!(lists.into_iter().chain([heap.capacity()]).all(|capacity| capacity <= KEPT));
    }

    #[test]
    fn bytes_without_an_id_are_left_to_the_caller() {
        let mut byte_ids = [7; 256];
        byte_ids[9] = NONE;
        let merges = Merges::new(&[], &byte_ids).expect("few merges");
        let mut scratch = Scratch::default();
        assert!(!merges.apply_to_bytes(&[1, 9, 2], &mut scratch));
        assert!(!merges.apply_to_bytes(&[1; SHORT + 1], &mut scratch));
        assert!(merges.apply_to_bytes(&[1; SHORT], &mut scratch));
        assert_eq!(scratch.symbols, [7; SHORT]);
    }
}
