//! Whole words to ids, for words of at most 16 bytes: two tables with a 16-byte key.
//!
//! [`Seeds`] is made at load and never changes: every vocabulary entry is the one id of the word that
//! it spells, because the longest match at the beginning of that word is the whole word. It serves
//! most words of a text in one probe.
//!
//! [`Memo`] belongs to one session and remembers what longer computation gave for other words. Its size
//! is fixed; each word has one place for itself and one more word, and the older of the two makes room.
//! Sessions come one after the other, so that text made to fill it up costs the next ones the benefit,
//! for as long as it takes to meet their words again; ids do not depend on it.

use std::hint::select_unpredictable;

use bytemuck::{Pod, Zeroable};

use crate::prefetch::{CACHE_LINE, prefetch};

/// A word of 1 to 16 bytes without NUL, padded with NULs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// Bytes of the longest word that has a key.
pub(super) const KEY_BYTES: usize = 16;

/// `MASKS[n]` keeps the first `n` bytes.
const MASKS: [Key; KEY_BYTES + 1] = {
    let mut masks = [Key { low: 0, high: 0 }; KEY_BYTES + 1];
    let mut n = 1;
    while n <= KEY_BYTES {
        masks[n] = match n {
            ..8 => Key { low: (1 << (8 * n)) - 1, high: 0 },
            8 => Key { low: u64::MAX, high: 0 },
            9..16 => Key { low: u64::MAX, high: (1 << (8 * (n - 8))) - 1 },
            _ => Key { low: u64::MAX, high: u64::MAX },
        };
        n += 1;
    }
    masks
};

impl Key {
    const EMPTY: Self = Self { low: 0, high: 0 };

    /// The key of a word; `None` if it has none.
    #[inline]
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        if word.is_empty() || word.len() > KEY_BYTES || word.contains(&0) {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        bytes[..word.len()].copy_from_slice(word);
        Some(Self::load(&bytes))
    }

    /// The key of the first `len` bytes, of which there are 1 to 16 and none NUL, with the bits of
    /// `fold` set in each: 0x20 turns ASCII letters into lower case and leaves digits alone.
    #[inline]
    pub(super) fn of_prefix(bytes: &[u8; KEY_BYTES], len: usize, fold: u64) -> Self {
        let Self { low, high } = Self::load(bytes);
        let mask = MASKS[len];
        Self { low: (low | fold) & mask.low, high: (high | fold) & mask.high }
    }

    /// Equality as one comparison.
    #[inline]
    fn is(self, other: &Self) -> bool {
        (self.low ^ other.low) | (self.high ^ other.high) == 0
    }

    /// Bytes of the word.
    pub(super) fn len(self) -> usize {
        let padding = match self.high {
            0 => 8 + self.low.leading_zeros() / 8,
            high => high.leading_zeros() / 8,
        };
        KEY_BYTES - padding as usize
    }

    /// The word, with its padding.
    pub(super) fn bytes(self) -> [u8; KEY_BYTES] {
        let mut bytes = [0; KEY_BYTES];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        bytes
    }

    /// The key of a word that is padded with NULs already.
    #[inline]
    pub(super) fn load(bytes: &[u8; KEY_BYTES]) -> Self {
        let (low, high) = bytes.split_at(8);
        let number = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        Self { low: number(low), high: number(high) }
    }

    /// The product of both halves, folded: each bit of it depends on most of the word.
    #[inline]
    pub(super) fn hash(self) -> Hash {
        // Digits of pi's fractional part, so that no usual word gives a factor of zero.
        const LOW: u64 = 0x243F_6A88_85A3_08D3;
        const HIGH: u64 = 0x1319_8A2E_0370_7345;
        let (low, high) = (self.low ^ LOW, self.high ^ HIGH);
        let product = u128::from(low) * u128::from(high);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
        Hash(product as u64 ^ (product >> 64) as u64)
    }
}

/// A hash of a [`Key`], the same in all tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

impl Hash {
    /// The upper bits, as a number below `2^bits`.
    #[inline]
    fn top(self, bits: u32) -> usize {
        // At most 63 bits are asked for, and tables are smaller than memory.
        usize::try_from(self.0 >> (u64::BITS - bits)).unwrap_or(0)
    }
}

/// The words that are vocabulary entries.
#[derive(Debug)]
pub(super) struct Seeds {
    /// Between a third and two thirds of the room are taken, so that few lines overflow.
    lines: Box<[SeedLine]>,
    /// The number of lines is 2 to this power.
    bits: u32,
}

/// Words with the same place: one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct SeedLine {
    keys: [Key; SEEDS],
    /// [`NO_ID`] where there is no word.
    ids: [u32; SEEDS],
}

/// Words in a line.
const SEEDS: usize = 3;

impl Seeds {
    /// Takes the entries that can be words; those that come first get the best places.
    pub(super) fn new<'a>(entries: impl Iterator<Item = (&'a [u8], u32)> + Clone) -> Self {
        let keyed = entries
            .filter(|(word, _)| can_be_a_word(word))
            .filter_map(|(word, id)| Key::of(word).map(|key| (key, id)));
        let count = keyed.clone().count().div_ceil(2).next_power_of_two().max(2);
        let empty = SeedLine { keys: [Key::EMPTY; SEEDS], ids: [NO_ID; SEEDS] };
        let mut seeds = Self { lines: vec![empty; count].into(), bits: count.trailing_zeros() };
        for (key, id) in keyed {
            let (line, place) = seeds.place(key, key.hash());
            seeds.lines[line].keys[place] = key;
            seeds.lines[line].ids[place] = id;
        }
        seeds
    }

    /// The id of a word.
    #[inline]
    pub(super) fn get(&self, key: Key, hash: Hash) -> Option<u32> {
        let (line, place) = self.place(key, hash);
        Some(self.lines[line].ids[place]).filter(|&id| id != NO_ID)
    }

    /// Asks for the line where the search for a word begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: Hash) {
        prefetch(&self.lines[hash.top(self.bits)]);
    }

    /// The id of a word if it stands in its first line, [`NO_ID`] otherwise: a look without a branch,
    /// since which of the places it is cannot be foreseen.
    #[inline]
    pub(super) fn glance(&self, key: Key, hash: Hash) -> u32 {
        let SeedLine { keys, ids } = &self.lines[hash.top(self.bits)];
        keys.iter()
            .zip(ids)
            .fold(NO_ID, |found, (other, &id)| select_unpredictable(key.is(other), id, found))
    }

    /// The place of `key`, or the free one where it would go.
    #[inline]
    fn place(&self, key: Key, hash: Hash) -> (usize, usize) {
        let mut line = hash.top(self.bits);
        loop {
            for (place, &found) in self.lines[line].keys.iter().enumerate() {
                if found == key || found == Key::EMPTY {
                    return (line, place);
                }
            }
            line = (line + 1) % self.lines.len();
        }
    }
}

/// Whether the pre-tokenizer can give this word: ASCII punctuation is only ever alone.
fn can_be_a_word(word: &[u8]) -> bool {
    word.len() == 1 || !word.iter().any(u8::is_ascii_punctuation)
}

/// Stands for no id; it is none itself.
pub(super) const NO_ID: u32 = u32::MAX;

/// What was computed for other words, as long as nothing newer takes the place.
#[derive(Debug)]
pub(super) struct Memo {
    /// Lines of [`LINE`] words each. Zeros from the system cost nothing until they are touched, which is
    /// true of numbers only: a type with an alignment of its own would be zeroed by hand.
    words: Vec<u64>,
    /// Where the first line of the processor's cache begins.
    start: usize,
}

/// 2^15 lines: 2 MiB for a session.
const MEMO_BITS: u32 = 15;

/// Words of 64 bits in a line of the processor's cache.
const LINE: usize = CACHE_LINE / size_of::<u64>();

/// Ids that fit beside a key.
pub(super) const MEMO_IDS: usize = 4;

/// A word and its ids; a line has two with the same place, the newer one first.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Remembered {
    key: Key,
    /// Filled up with [`NO_ID`].
    ids: [u32; MEMO_IDS],
}

impl Memo {
    pub(super) fn new() -> Self {
        let words = vec![0; (LINE << MEMO_BITS) + LINE - 1];
        let start = words.as_ptr().addr().wrapping_neg() % CACHE_LINE / size_of::<u64>();
        Self { words, start }
    }

    #[inline]
    fn line(&self, hash: Hash) -> &[Remembered; 2] {
        let line = self.words[self.start + hash.top(MEMO_BITS) * LINE..].first_chunk::<LINE>();
        bytemuck::cast_ref(line.expect("as many lines as hashes"))
    }

    /// The ids of a word; what follows the first [`NO_ID`] does not count.
    #[inline]
    pub(super) fn get(&self, key: Key, hash: Hash) -> Option<&[u32; MEMO_IDS]> {
        let [newer, older] = self.line(hash);
        if newer.key == key { Some(&newer.ids) } else { (older.key == key).then_some(&older.ids) }
    }

    /// Asks for the line of a word.
    #[inline]
    pub(super) fn prefetch(&self, hash: Hash) {
        prefetch(self.line(hash));
    }

    /// Remembers a word, if it does not have too many ids.
    pub(super) fn put(&mut self, key: Key, hash: Hash, ids: &[u32]) {
        if let Some(ids) = remembered(ids) {
            let [newer, _] = *self.line(hash);
            let line: [u64; LINE] = bytemuck::cast([Remembered { key, ids }, newer]);
            let at = self.start + hash.top(MEMO_BITS) * LINE;
            self.words[at..at + LINE].copy_from_slice(&line);
        }
    }
}

/// Ids as they are remembered, filled up with [`NO_ID`]; `None` if there are too many.
pub(super) fn remembered(ids: &[u32]) -> Option<[u32; MEMO_IDS]> {
    let mut few = [NO_ID; MEMO_IDS];
    few.get_mut(..ids.len())?.copy_from_slice(ids);
    Some(few)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(seeds: &Seeds, word: &[u8]) -> Option<u32> {
        let key = Key::of(word).expect("short");
        seeds.get(key, key.hash())
    }

    #[test]
    fn every_seed_is_found_and_nothing_else() {
        let words: Vec<String> = (0..5000).map(|number| format!("w{number}")).collect();
        let entries = words.iter().zip(0..).map(|(word, id)| (word.as_bytes(), id));
        let long = b"seventeen letters".as_slice();
        let seeds = Seeds::new(entries.clone().chain([(long, 7), (b"a\0".as_slice(), 8)]));
        for (word, id) in entries {
            assert_eq!(get(&seeds, word), Some(id));
        }
        assert_eq!(get(&seeds, b"w5000"), None);
        assert_eq!((Key::of(long), Key::of(b"a\0"), Key::of(b"")), (None, None, None));
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        let seeds = Seeds::new(std::iter::empty());
        assert_eq!(get(&seeds, b"a"), None);
    }

    #[test]
    fn a_prefix_has_the_key_of_the_word() {
        let text = b"ABCxyz0189ABCxyz";
        for len in 1..=KEY_BYTES {
            let lower = text.to_ascii_lowercase();
            let key = Key::of_prefix(text, len, u64::from_le_bytes([0x20; 8]));
            assert_eq!(Some(key), Key::of(&lower[..len]));
            assert_eq!(Some(Key::of_prefix(text, len, 0)), Key::of(&text[..len]));
        }
    }

    #[test]
    fn a_glance_finds_a_seed_or_says_nothing() {
        let words: Vec<String> = (0..5000).map(|number| format!("w{number}")).collect();
        let seeds = Seeds::new(words.iter().zip(0..).map(|(word, id)| (word.as_bytes(), id)));
        let seen = words.iter().zip(0..).filter(|&(word, id)| {
            let key = Key::of(word.as_bytes()).expect("short");
            let found = seeds.glance(key, key.hash());
            assert!(found == id || found == NO_ID);
            found == id
        });
        assert!(seen.count() > 3000, "most words are in their own slot");
    }

    #[test]
    fn the_newest_word_is_remembered() {
        let mut memo = Memo::new();
        let key = |number: u32| Key::of(&number.to_le_bytes().map(|byte| byte | 1)).expect("short");
        for number in 0..40_000 {
            memo.put(key(number), key(number).hash(), &[number, 1]);
            assert_eq!(memo.get(key(number), key(number).hash()), Some(&[number, 1, NO_ID, NO_ID]));
        }
        memo.put(key(0), key(0).hash(), &[9; MEMO_IDS + 1]);
        assert_ne!(memo.get(key(0), key(0).hash()), Some(&[9; MEMO_IDS]));
        memo.put(key(0), key(0).hash(), &[]);
        assert_eq!(memo.get(key(0), key(0).hash()), Some(&[NO_ID; MEMO_IDS]));
    }

    #[test]
    fn a_key_knows_its_length() {
        for len in 1..=KEY_BYTES {
            assert_eq!(Key::of(&[b'x'; KEY_BYTES][..len]).map(Key::len), Some(len));
        }
    }
}
