//! Short plain words that are looked up together, those of a usual text all at once.
//!
//! A batch is filled one word after the other and then turned into ids in three steps:
//!
//! 1. Every word is looked up among the seeds. The few that are not there are listed, and what is
//!    remembered of them is asked for.
//! 2. The listed ones get their ids: remembered, or put together from pieces.
//! 3. The ids of all words are written one after the other, and pushed in one go.
//!
//! Most words have one id and some have two to four, in no order that a processor could foresee. So
//! the first and the last step do the same for every word, without a branch: the last one writes four
//! ids for each and goes on behind those that count. Every surprise throws away the work ahead of it:
//! branches where a word is compared with its places in the table, and where it has one id or more, cost a
//! fifth on technical English, where every eighth word has several ids.
//!
//! Tried without gain: storing room for all four ids in the first step, keys of pieces side by side.

use std::ops::{ControlFlow, Range};

use super::spell::{Answer, Memory, Speller};
use super::words::{Hash, Key, MEMO_IDS, NO_ID, Seeds, remembered};
use crate::tokenizer::IdSink;

/// Words that are looked up together.
pub(super) const CAPACITY: usize = 192;

/// Words waiting for their ids.
#[derive(Debug)]
pub(super) struct Batch {
    words: [Cut; CAPACITY],
    len: usize,
    /// The ids of each word, and how many of them count.
    ids: [[u32; MEMO_IDS]; CAPACITY],
    counts: [u8; CAPACITY],
    /// Numbers of the words that were not found at a glance.
    others: [u8; CAPACITY],
    /// Words with more ids than fit: the number of the word, and where in `many_ids` they are.
    many: Vec<(usize, Range<usize>)>,
    many_ids: Vec<u32>,
    /// Ids one after the other, for the sink.
    row: [u32; CAPACITY * MEMO_IDS],
}

/// A word that was cut out of the text.
#[derive(Clone, Copy, Debug)]
struct Cut {
    key: Key,
    hash: Hash,
}

impl Batch {
    pub(super) fn new() -> Self {
        let key = Key::default();
        Self {
            words: [Cut { key, hash: key.hash() }; CAPACITY],
            len: 0,
            ids: [[NO_ID; MEMO_IDS]; CAPACITY],
            counts: [0; CAPACITY],
            others: [0; CAPACITY],
            many: Vec::new(),
            many_ids: Vec::new(),
            row: [NO_ID; CAPACITY * MEMO_IDS],
        }
    }

    /// Places for more words.
    #[inline]
    pub(super) fn room(&self) -> usize {
        CAPACITY - self.len
    }

    /// Takes a word; there must be room. Its line among the seeds should have been asked for.
    #[inline]
    pub(super) fn push(&mut self, key: Key, hash: Hash) {
        self.words[self.len] = Cut { key, hash };
        self.len += 1;
    }

    /// Pushes the ids of all words, and is empty then.
    #[inline]
    pub(super) fn flush(
        &mut self,
        speller: &Speller,
        memory: &mut Memory,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let count = std::mem::take(&mut self.len);
        self.many.clear();
        self.many_ids.clear();
        let others = self.glance(count, &speller.seeds);
        for &other in &self.others[..others] {
            memory.prefetch(self.words[usize::from(other)].hash);
        }
        for other in 0..others {
            self.look_up(self.others[other].into(), speller, memory);
        }
        if self.many.is_empty() {
            self.push_ids(0..count, sink)
        } else {
            self.push_many(count, sink)
        }
    }

    /// Looks up the first `count` words among the seeds; the number of those that are not found.
    #[inline]
    fn glance(&mut self, count: usize, seeds: &Seeds) -> usize {
        let mut others = 0;
        self.counts[..count].fill(1);
        let words = self.words[..count].iter().zip(&mut self.ids[..count]);
        for (number, (&Cut { key, hash }, ids)) in words.enumerate() {
            let id = seeds.glance(key, hash);
            let known = id != NO_ID;
            ids[0] = id;
            #[expect(clippy::cast_possible_truncation, reason = "below the capacity")]
            {
                self.others[others] = number as u8;
            }
            others += usize::from(!known);
        }
        others
    }

    /// Finds the ids of a word that was not found at a glance.
    #[inline]
    fn look_up(&mut self, word: usize, speller: &Speller, memory: &mut Memory) {
        let Cut { key, hash } = self.words[word];
        match speller.look_up(key, hash, memory) {
            Answer::One(id) => self.ids[word][0] = id,
            Answer::Few(ids) => self.set(word, ids),
            Answer::Spelled(ids) => {
                if let Some(few) = remembered(ids) {
                    self.set(word, few);
                } else {
                    let start = self.many_ids.len();
                    self.many_ids.extend_from_slice(ids);
                    self.many.push((word, start..self.many_ids.len()));
                }
            }
        }
    }

    fn set(&mut self, word: usize, ids: [u32; MEMO_IDS]) {
        self.ids[word] = ids;
        self.counts[word] = ids.iter().map(|&id| u8::from(id != NO_ID)).sum();
    }

    /// Pushes the ids of some words in a row, each of them with few.
    #[inline]
    fn push_ids(&mut self, words: Range<usize>, sink: &mut impl IdSink) -> ControlFlow<()> {
        let mut end = 0;
        for (ids, &count) in self.ids[words.clone()].iter().zip(&self.counts[words]) {
            self.row[end..end + MEMO_IDS].copy_from_slice(ids);
            end += usize::from(count);
        }
        sink.push_all(&self.row[..end])
    }

    /// Pushes the ids of all words, where some have many.
    #[cold]
    fn push_many(&mut self, count: usize, sink: &mut impl IdSink) -> ControlFlow<()> {
        let many = std::mem::take(&mut self.many);
        let many_ids = std::mem::take(&mut self.many_ids);
        let mut next = 0;
        for (word, ids) in &many {
            self.push_ids(next..*word, sink)?;
            sink.push_all(&many_ids[ids.clone()])?;
            next = word + 1;
        }
        // Their memory is used again.
        (self.many, self.many_ids) = (many, many_ids);
        self.push_ids(next..count, sink)
    }
}
