//! A cache of words and their ids: most words of a text were in an earlier one, or earlier in it.
//!
//! The ids of a word depend on its bytes alone, so a cache cannot change a result. It is filled as
//! words come by, rather than with the vocabulary at load: a token is not always what its own text is
//! merged into, and to find out costs as much at load as it does later for the words that occur.
//!
//! Up to [`PACKED`] bytes, which is nearly every word, a word *is* its key: its bytes and its length
//! fill 16 bytes, which are loaded at once and compared as two numbers. Up to two ids are kept in the
//! slot itself; more of them, and the bytes of longer words, are kept in lists on the side.
//!
//! # Bounds
//!
//! A word is looked for in [`WINDOW`] slots, whatever the others hold, and when all of them are taken
//! the new word replaces one of them. When a list on the side is full, everything is forgotten. So a
//! text of words that never come again costs a constant time for each on top of the merges, and
//! nobody can make a search longer. Memory, at most: 65,536 slots of 24 bytes for short words, 16,384
//! of 24 bytes for long ones, 1 MiB of ids, 1 MiB of text: 4 MiB together for each set of working
//! memory, of which there are as many as calls at the same time. The tables start small and double.

/// Bytes of a word that is its own key.
const PACKED: usize = 15;

/// Bytes of the longest word that is kept.
const LONGEST: usize = 256;

/// Slots in which a word can be.
const WINDOW: usize = 4;

const FIRST_SLOTS: usize = 1 << 10;
const SHORT_SLOTS: usize = 1 << 16;
const LONG_SLOTS: usize = 1 << 14;
const MAX_IDS: usize = 1 << 18;
const MAX_TEXT: usize = 1 << 20;

/// In place of the second id: there is only one.
const ONE: u32 = u32::MAX;

/// In place of the second id: a list of this many ids, and the first id is where it begins.
const LIST: u32 = 1 << 31;

/// A word that may be in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Short([u64; 2]),
    Long(u64),
    /// Too long to be kept.
    Never,
}

/// Words with their ids.
#[derive(Debug)]
pub(super) struct Words {
    short: Table<Short>,
    long: Table<Long>,
    ids: Vec<u32>,
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Short {
    /// The bytes, filled up with zeros, and the length as the last one: 0 in an empty slot.
    word: [u64; 2],
    ids: [u32; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Long {
    hash: u64,
    text: u32,
    /// 0 in an empty slot.
    length: u16,
    count: u16,
    ids: u32,
}

impl Words {
    pub(super) fn new() -> Self {
        Self {
            short: Table::new(SHORT_SLOTS),
            long: Table::new(LONG_SLOTS),
            ids: Vec::new(),
            text: Vec::new(),
        }
    }

    /// The ids of a word, if it is there. `pair` is a place for them.
    #[inline]
    pub(super) fn get<'a>(
        &'a self,
        key: Key,
        word: &[u8],
        pair: &'a mut [u32; 2],
    ) -> Option<&'a [u32]> {
        match key {
            Key::Short(key) => {
                let slot = self.short.find(hash_pair(key), |slot| slot.word == key)?;
                *pair = slot.ids;
                let [first, second] = slot.ids;
                Some(if second == ONE {
                    &pair[..1]
                } else if second < LIST {
                    &pair[..]
                } else {
                    &self.ids[first as usize..][..(second - LIST) as usize]
                })
            }
            Key::Long(hash) => {
                let slot = self.long.find(hash, |slot| {
                    slot.hash == hash
                        && self.text[slot.text as usize..].get(..slot.length.into()) == Some(word)
                })?;
                Some(&self.ids[slot.ids as usize..][..slot.count.into()])
            }
            Key::Never => None,
        }
    }

    /// Keeps the ids of a word that was not there. Ids are below 2^31.
    pub(super) fn insert(&mut self, key: Key, word: &[u8], ids: &[u32]) {
        match key {
            Key::Short(key) => {
                let ids = match *ids {
                    [one] => [one, ONE],
                    [first, second] => [first, second],
                    _ => [self.keep(ids, &[]).0, LIST + to_u32(ids.len())],
                };
                self.short.insert(hash_pair(key), Short { word: key, ids });
            }
            Key::Long(hash) => {
                let (first, text) = self.keep(ids, word);
                let [length, count] = [word.len(), ids.len()].map(|length| {
                    u16::try_from(length).expect("no more ids than bytes, and few bytes")
                });
                self.long.insert(hash, Long { hash, text, length, count, ids: first });
            }
            Key::Never => {}
        }
    }

    /// Appends to the lists on the side, and returns where.
    fn keep(&mut self, ids: &[u32], word: &[u8]) -> (u32, u32) {
        if self.ids.len() + ids.len() > MAX_IDS || self.text.len() + word.len() > MAX_TEXT {
            self.ids.clear();
            self.text.clear();
            self.short.clear();
            self.long.clear();
        }
        let starts = (to_u32(self.ids.len()), to_u32(self.text.len()));
        self.ids.extend_from_slice(ids);
        self.text.extend_from_slice(word);
        starts
    }
}

fn to_u32(length: usize) -> u32 {
    u32::try_from(length).expect("lists are bounded")
}

/// The key of the word from `start` to `end`, which is not empty.
#[inline]
pub(super) fn key(text: &[u8], start: usize, end: usize) -> Key {
    let length = end - start;
    if length > PACKED {
        return if length <= LONGEST {
            Key::Long(hash_bytes(&text[start..end]))
        } else {
            Key::Never
        };
    }
    let near_end = || {
        let mut sixteen = [0; 16];
        sixteen[..length].copy_from_slice(&text[start..end]);
        sixteen
    };
    let sixteen = text[start..].first_chunk::<16>().copied().unwrap_or_else(near_end);
    let word = u128::from_le_bytes(sixteen);
    // What follows the word is masked off.
    let word = word & ((1 << (8 * length)) - 1) | (length as u128) << 120;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    Key::Short([word as u64, (word >> 64) as u64])
}

/// Multiplies to 128 bits and folds the halves: every bit of the input reaches every bit above it.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    (product as u64 ^ (product >> 64) as u64)
}

#[inline]
fn hash_pair([low, high]: [u64; 2]) -> u64 {
    fold(low ^ 0x9E37_79B9_7F4A_7C15, high ^ 0xD1B5_4A32_D192_ED03)
}

fn hash_bytes(word: &[u8]) -> u64 {
    let (eights, rest) = word.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    eights.iter().chain([&last]).fold(word.len() as u64, |hash, eight| {
        fold(hash ^ 0x9E37_79B9_7F4A_7C15, u64::from_le_bytes(*eight) ^ 0xD1B5_4A32_D192_ED03)
    })
}

/// An open table with windows of slots.
#[derive(Debug)]
struct Table<S> {
    /// A power of two and [`WINDOW`] more, so that windows do not wrap around; or none at all.
    slots: Vec<S>,
    /// The largest power of two.
    limit: usize,
    used: usize,
    /// Chooses which one of a full window is replaced.
    turn: usize,
}

trait Slot: Copy + Default {
    fn is_empty(&self) -> bool;
    fn hash(&self) -> u64;
}

impl Slot for Short {
    #[inline]
    fn is_empty(&self) -> bool {
        self.word[1] == 0
    }

    fn hash(&self) -> u64 {
        hash_pair(self.word)
    }
}

impl Slot for Long {
    #[inline]
    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn hash(&self) -> u64 {
        self.hash
    }
}

impl<S: Slot> Table<S> {
    fn new(limit: usize) -> Self {
        Self { slots: vec![S::default(); FIRST_SLOTS + WINDOW], limit, used: 0, turn: 0 }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a hash: any bits will do")]
    fn window(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - WINDOW - 1)
    }

    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(&S) -> bool) -> Option<S> {
        let window = self.window(hash);
        // An empty slot is no word, and so not the one that is looked for.
        self.slots[window..window + WINDOW].iter().find(|slot| is_it(slot)).copied()
    }

    fn insert(&mut self, hash: u64, new: S) {
        let powers = self.slots.len() - WINDOW;
        if self.used * 2 > powers && powers < self.limit {
            self.grow();
        }
        let window = self.window(hash);
        let slots = &mut self.slots[window..window + WINDOW];
        if let Some(empty) = slots.iter_mut().find(|slot| slot.is_empty()) {
            *empty = new;
            self.used += 1;
        } else {
            self.turn = (self.turn + 1) % WINDOW;
            slots[self.turn] = new;
        }
    }

    fn grow(&mut self) {
        let slots = vec![S::default(); (self.slots.len() - WINDOW) * 2 + WINDOW];
        let old = std::mem::replace(&mut self.slots, slots);
        self.used = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            self.insert(slot.hash(), slot);
        }
    }

    fn clear(&mut self) {
        self.slots.fill(S::default());
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids_of(words: &Words, text: &str) -> Option<Vec<u32>> {
        let key = key(text.as_bytes(), 0, text.len());
        words.get(key, text.as_bytes(), &mut [0; 2]).map(<[u32]>::to_vec)
    }

    fn insert(words: &mut Words, text: &str, ids: &[u32]) {
        words.insert(key(text.as_bytes(), 0, text.len()), text.as_bytes(), ids);
    }

    #[test]
    fn words_of_all_lengths_are_found_with_all_their_ids() {
        let mut words = Words::new();
        let lengths = [1, 2, 7, 8, 14, 15, 16, 17, 255, 256];
        for length in lengths {
            for count in [0, 1, 2, 3, length] {
                let text = format!("{count:b}").repeat(length)[..length].to_owned();
                if ids_of(&words, &text).is_none() {
                    let ids: Vec<u32> = (0..).take(count).map(|id| id + (1 << 30)).collect();
                    insert(&mut words, &text, &ids);
                    assert_eq!(ids_of(&words, &text), Some(ids), "{text}");
                }
            }
        }
        insert(&mut words, &"a".repeat(257), &[1]);
        assert_eq!(ids_of(&words, &"a".repeat(257)), None, "too long to be kept");
    }

    #[test]
    fn zero_bytes_and_what_follows_a_word_make_a_difference_only_where_they_should() {
        let mut words = Words::new();
        insert(&mut words, "a", &[1]);
        insert(&mut words, "a\0", &[2]);
        assert_eq!(ids_of(&words, "a"), Some(vec![1]));
        assert_eq!(ids_of(&words, "a\0"), Some(vec![2]));
        assert_eq!(ids_of(&words, "a\0\0"), None);
        let text = b"xxa and more than sixteen bytes";
        let mut pair = [0; 2];
        assert_eq!(words.get(key(text, 2, 3), b"a", &mut pair), Some(&[1][..]));
    }

    #[test]
    fn memory_stays_within_its_bounds_and_words_stay_right() {
        let mut words = Words::new();
        for number in 0..400_000_u32 {
            let text = format!("{number}{}", "-".repeat(number as usize % 40));
            let ids: Vec<u32> = (0..number % 9).map(|offset| number + offset).collect();
            insert(&mut words, &text, &ids);
            assert_eq!(ids_of(&words, &text), Some(ids));
            let earlier = format!("{}{}", number / 2, "-".repeat(number as usize / 2 % 40));
            if let Some(found) = ids_of(&words, &earlier) {
                assert_eq!(found.len(), number as usize / 2 % 9, "{earlier}");
            }
        }
        let bytes = words.short.slots.len() * size_of::<Short>()
            + words.long.slots.len() * size_of::<Long>()
            + words.ids.capacity() * 4
            + words.text.capacity();
        assert!(bytes <= (4 << 20) + 1024, "{bytes}");
        assert_eq!(size_of::<Short>(), 24);
    }
}
