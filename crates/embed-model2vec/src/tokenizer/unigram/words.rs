//! A cache from words to what became of them.
//!
//! # Layout
//!
//! A table of slots, each with a part of the hash and a place, leads into one list of integers. There,
//! an entry is a header, its values and its key, padded to whole integers. A lookup touches one or two
//! lines of the table and mostly one of the list, and compares the key itself: a hash alone never
//! decides.
//!
//! # Bounds
//!
//! The table has 2^17 slots of 8 bytes and the list at most 2^20 integers: **5 MiB** in all, and less
//! as long as few words were seen. When either is full, everything is forgotten, which costs less than
//! computing the words that filled it. A lookup tries at most eight slots, whatever the text: words
//! with colliding hashes make it miss, not search.

use std::ops::Range;

const SLOTS: usize = 1 << 17;
const MOST_VALUES: usize = 1 << 20;
/// Above this, free slots are too rare.
const MOST_ENTRIES: usize = SLOTS / 2;
const PROBES: usize = 8;
/// Longer words are not worth their place: they hardly come again.
pub(super) const LONGEST_KEY: usize = 255;
const MOST_IDS: usize = 255;

/// What is known of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Its ids: a place in [`Words::ids`].
    Ids(Range<usize>),
    /// What it was normalized to: a place for [`Words::text`], and a number of bytes.
    Text(Range<usize>, usize),
}

/// Words and what became of them.
#[derive(Debug)]
pub(super) struct Words {
    slots: Box<[Slot]>,
    values: Vec<u32>,
    entries: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    /// One more than the place of the entry; 0 is a free slot.
    place: u32,
}

// A header: bytes of the key, number of values, circumstance, kind.
const KEY_BITS: u32 = 8;
const LEN_BITS: u32 = 16;
const MODE_SHIFT: u32 = KEY_BITS + LEN_BITS;
const IS_TEXT: u32 = 1 << 31;

/// What tells two words of the same text apart: the circumstance that they were found in.
pub(super) type Mode = u8;

impl Words {
    pub(super) fn new() -> Self {
        Self { slots: vec![Slot::default(); SLOTS].into(), values: Vec::new(), entries: 0 }
    }

    /// Reads what a lookup will read, so that it is near when the lookup comes. Called for several
    /// words in advance, it makes their misses of the processor's cache overlap.
    #[inline]
    pub(super) fn touch(&self, hash: u64) {
        let place = self.slots[slot_index(hash, 0)].place as usize;
        // The place of a free slot is 0, and reading nothing is fine.
        std::hint::black_box(self.values.get(place.wrapping_sub(1)).copied());
    }

    /// What is known of a word.
    #[inline]
    pub(super) fn get(&self, key: &[u8], mode: Mode, hash: u64) -> Option<Known> {
        let tag = tag(hash);
        let wanted = key.len() | usize::from(mode) << MODE_SHIFT;
        for probe in 0..PROBES {
            let slot = self.slots[slot_index(hash, probe)];
            if slot.place == 0 {
                return None;
            }
            if slot.tag == tag {
                let place = slot.place as usize - 1;
                let header = self.values[place];
                let len = (header >> KEY_BITS) as usize & ((1 << LEN_BITS) - 1);
                let found = header & !IS_TEXT & !(((1 << LEN_BITS) - 1) << KEY_BITS);
                let is_text = header & IS_TEXT != 0;
                let values = place + 1..place + 1 + if is_text { len.div_ceil(4) } else { len };
                let stored: &[u8] = bytemuck::cast_slice(&self.values[values.end..]);
                if found as usize == wanted && are_equal(&stored[..key.len()], key) {
                    return Some(if is_text {
                        Known::Text(values, len)
                    } else {
                        Known::Ids(values)
                    });
                }
            }
        }
        None
    }

    /// The ids at a place.
    #[inline]
    pub(super) fn ids(&self, place: Range<usize>) -> &[u32] {
        &self.values[place]
    }

    /// Copies the text at a place.
    pub(super) fn text(&self, place: Range<usize>, len: usize, into: &mut String) {
        let bytes: &[u8] = bytemuck::cast_slice(&self.values[place]);
        into.push_str(std::str::from_utf8(&bytes[..len]).unwrap_or_default());
    }

    /// Remembers the ids of a word that is not in here.
    pub(super) fn insert_ids(&mut self, key: &[u8], mode: Mode, hash: u64, ids: &[u32]) {
        if ids.len() <= MOST_IDS
            && let Some(header) = self.reserve(key, mode, hash, ids.len(), ids.len())
        {
            self.values.push(header);
            self.values.extend_from_slice(ids);
            self.push_bytes(key);
        }
    }

    /// Remembers the normalized text of a word that is not in here.
    pub(super) fn insert_text(&mut self, key: &[u8], mode: Mode, hash: u64, text: &str) {
        if text.len() <= 4 * MOST_IDS
            && let Some(header) = self.reserve(key, mode, hash, text.len(), text.len().div_ceil(4))
        {
            self.values.push(header | IS_TEXT);
            self.push_bytes(text.as_bytes());
            self.push_bytes(key);
        }
    }

    /// Makes room for an entry of some values and returns its header; `len` is what the header says.
    fn reserve(
        &mut self,
        key: &[u8],
        mode: Mode,
        hash: u64,
        len: usize,
        values: usize,
    ) -> Option<u32> {
        let key_len = u32::try_from(key.len()).ok().filter(|_| key.len() <= LONGEST_KEY)?;
        let len = u32::try_from(len).ok()?;
        if self.entries == MOST_ENTRIES
            || self.values.len() + 1 + values + key.len().div_ceil(4) > MOST_VALUES
        {
            self.slots.fill(Slot::default());
            self.values.clear();
            self.entries = 0;
        }
        let mut places = (0..PROBES).map(|probe| slot_index(hash, probe));
        let index = places.find(|&index| self.slots[index].place == 0)?;
        let place = u32::try_from(self.values.len() + 1).ok()?;
        self.slots[index] = Slot { tag: tag(hash), place };
        self.entries += 1;
        Some(key_len | len << KEY_BITS | u32::from(mode & 0x7F) << MODE_SHIFT)
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(4) {
            let mut padded = [0; 4];
            padded[..chunk.len()].copy_from_slice(chunk);
            self.values.push(u32::from_ne_bytes(padded));
        }
    }
}

/// Whether two words of the same length are equal.
#[inline]
fn are_equal(a: &[u8], b: &[u8]) -> bool {
    let (a_chunks, a_rest) = a.as_chunks::<4>();
    let (b_chunks, b_rest) = b.as_chunks::<4>();
    a_chunks.iter().zip(b_chunks).all(|(a, b)| u32::from_ne_bytes(*a) == u32::from_ne_bytes(*b))
        && a_rest.iter().zip(b_rest).all(|(a, b)| a == b)
}

#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
fn slot_index(hash: u64, probe: usize) -> usize {
    (hash as usize).wrapping_add(probe) & (SLOTS - 1)
}

/// A hash of a word.
#[inline]
pub(super) fn hash(key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(MULTIPLIER ^ 0x5851_F42D_4C95_7F2D);
        let [low, high] = bytemuck::cast::<u128, [u64; 2]>(product);
        low ^ high
    };
    let eight = |at: usize| {
        let bytes = key[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let mut state = MULTIPLIER ^ (key.len() as u64) << 56;
    match key.len() {
        0 => {}
        1..=3 => {
            let middle = key[key.len() / 2];
            let last = key[key.len() - 1];
            state = fold(state, u64::from_le_bytes([key[0], middle, last, 0, 0, 0, 0, 0]));
        }
        4..=7 => {
            let four = |at: usize| {
                let bytes = key[at..at + 4].try_into().expect("four bytes");
                u64::from(u32::from_le_bytes(bytes))
            };
            state = fold(state, four(0) | four(key.len() - 4) << 32);
        }
        len => {
            let mut at = 0;
            while at + 8 < len {
                state = fold(state, eight(at));
                at += 8;
            }
            state = fold(state, eight(len - 8));
        }
    }
    fold(state, MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(words: &Words, key: &str, mode: Mode) -> Option<Vec<u32>> {
        match words.get(key.as_bytes(), mode, hash(key.as_bytes()))? {
            Known::Ids(ids) => Some(words.ids(ids).to_vec()),
            Known::Text(..) => panic!("not a text"),
        }
    }

    #[test]
    fn words_are_found_under_their_circumstances() {
        let mut words = Words::new();
        for key in ["", "a", "ab", "abcd", "abcdefg", "abcdefgh", "abcdefghi", &"é".repeat(120)] {
            for mode in 0..3 {
                let ids = vec![u32::from(mode); key.len() % 7];
                words.insert_ids(key.as_bytes(), mode, hash(key.as_bytes()), &ids);
                assert_eq!(get(&words, key, mode), Some(ids), "{key}");
            }
            assert_eq!(get(&words, key, 3), None);
        }
        assert_eq!(get(&words, "abcdefgj", 0), None);
    }

    #[test]
    fn texts_come_back_whole() {
        let mut words = Words::new();
        for text in ["", "▁a", "▁don ▁' ▁t"] {
            let key = format!("key of {text}");
            let hash = hash(key.as_bytes());
            words.insert_text(key.as_bytes(), 1, hash, text);
            let Some(Known::Text(place, len)) = words.get(key.as_bytes(), 1, hash) else {
                panic!("a text")
            };
            let mut found = String::new();
            words.text(place, len, &mut found);
            assert_eq!(found, text);
        }
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut words = Words::new();
        for number in 0..300_000_u32 {
            let key = format!("{number}");
            words.insert_ids(key.as_bytes(), 0, hash(key.as_bytes()), &[number; 9]);
            assert!(words.values.len() <= MOST_VALUES);
            assert!(get(&words, &key, 0).is_none_or(|ids| ids == [number; 9]));
        }
        // Words that want the same slot: they are dropped, and the others stay.
        for number in 0..100_u32 {
            words.insert_ids(&number.to_le_bytes(), 0, 77, &[number]);
        }
        assert!(words.slots.len() == SLOTS);
    }
}
