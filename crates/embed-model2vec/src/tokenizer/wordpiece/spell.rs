//! Normalized words to ids.
//!
//! A word's ids are the longest piece that it begins with, then the longest continuing piece that the
//! rest begins with, and so on. A word that does not come out even, or is longer than the model's
//! limit, is one unknown token; in a vocabulary without one it has no id.
//!
//! Three ways lead there, and the later ones are taken only where the earlier ones do not know the
//! word: the seeds, what the session remembers, and the pieces themselves.

use std::ops::ControlFlow;

use super::pieces::Pieces;
use super::words::{Hash, KEY_BYTES, Key, MEMO_IDS, Memo, NO_ID, Seeds};
use crate::both::both;
use crate::tokenizer::IdSink;

/// The vocabulary, arranged for looking up words.
#[derive(Debug)]
pub(super) struct Speller {
    pub(super) seeds: Seeds,
    /// Pieces that begin a word.
    beginning: Pieces,
    /// Pieces that continue a word, without their prefix.
    continuing: Pieces,
    /// The model's unknown token.
    unk_id: Option<u32>,
    /// Characters of the longest word that is looked at.
    max_word_chars: usize,
}

impl Speller {
    /// Arranges a vocabulary; `None` if a token occurs twice in it, or an id is reserved.
    pub(super) fn new<'a>(
        entries: impl Iterator<Item = (&'a [u8], u32)> + Clone + Send,
        continuing_prefix: &[u8],
        unk_token: &str,
        max_word_chars: usize,
    ) -> Option<Self> {
        if entries.clone().any(|(_, id)| id == NO_ID) {
            return None;
        }
        let continuing = entries
            .clone()
            .filter_map(|(token, id)| Some((token.strip_prefix(continuing_prefix)?, id)));
        // The two halves take about the same time, most of it for memory that is touched first.
        let words = entries.clone();
        let ((seeds, continuing), beginning) =
            both(|| (Seeds::new(words), Pieces::new(continuing)), || Pieces::new(entries));
        let beginning = beginning?;
        Some(Self {
            continuing: continuing?,
            unk_id: beginning.id(unk_token.as_bytes()),
            beginning,
            seeds,
            max_word_chars,
        })
    }

    /// The id of a token of the vocabulary.
    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.beginning.id(token.as_bytes())
    }

    /// Bytes of the longest plain ASCII word that has a key and is not too long.
    pub(super) fn longest_keyed(&self) -> u32 {
        u32::try_from(KEY_BYTES.min(self.max_word_chars)).expect("at most 16")
    }

    pub(super) fn max_word_chars(&self) -> usize {
        self.max_word_chars
    }

    /// Pushes the ids of a collected word and clears it; does nothing if it is empty.
    pub(super) fn push(
        &self,
        word: &mut Word,
        memory: &mut Memory,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        if word.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = if word.chars > self.max_word_chars {
            self.unk_id.into_iter().try_for_each(|id| sink.push(id))
        } else if let Some(key) = word.key() {
            self.push_keyed(key, key.hash(), memory, sink)
        } else {
            self.spell(word.bytes(), &mut memory.ids);
            sink.push_all(&memory.ids)
        };
        word.clear();
        flow
    }

    /// Pushes the ids of a word that is not too long.
    fn push_keyed(
        &self,
        key: Key,
        hash: Hash,
        memory: &mut Memory,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        match self.look_up(key, hash, memory) {
            Answer::One(id) => sink.push(id),
            Answer::Few(ids) => {
                ids.iter().take_while(|&&id| id != NO_ID).try_for_each(|&id| sink.push(id))
            }
            Answer::Spelled(ids) => sink.push_all(ids),
        }
    }

    /// The ids of a word that is not too long.
    #[inline]
    pub(super) fn look_up<'m>(&self, key: Key, hash: Hash, memory: &'m mut Memory) -> Answer<'m> {
        if let Some(id) = self.seeds.get(key, hash) {
            return Answer::One(id);
        }
        let Memory { memo, ids } = memory;
        if let Some(ids) = memo.get(key, hash) {
            return Answer::Few(*ids);
        }
        self.spell(&key.bytes()[..key.len()], ids);
        memo.put(key, hash, ids);
        Answer::Spelled(ids)
    }

    /// Puts a word together from pieces.
    fn spell(&self, word: &[u8], ids: &mut Vec<u32>) {
        ids.clear();
        let mut pieces = &self.beginning;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((len, id)) = pieces.longest(rest) else {
                ids.clear();
                ids.extend(self.unk_id);
                return;
            };
            ids.push(id);
            rest = &rest[len..];
            pieces = &self.continuing;
        }
    }
}

/// The ids of a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'m> {
    /// It is a seed.
    One(u32),
    /// It was remembered; what follows the first [`NO_ID`] does not count.
    Few([u32; MEMO_IDS]),
    /// It was put together.
    Spelled(&'m [u32]),
}

/// What a session keeps for spelling.
#[derive(Debug)]
pub(super) struct Memory {
    memo: Memo,
    /// The ids of the current word.
    ids: Vec<u32>,
}

impl Memory {
    /// Asks for what is remembered of a word.
    #[inline]
    pub(super) fn prefetch(&self, hash: Hash) {
        self.memo.prefetch(hash);
    }

    pub(super) fn new() -> Self {
        Self { memo: Memo::new(), ids: Vec::new() }
    }
}

/// The word that characters are being collected for.
///
/// Its bytes stand at the beginning of a buffer whose first 16 bytes are zeros behind them, so that
/// they are a key as they are.
#[derive(Debug)]
pub(super) struct Word {
    buffer: Vec<u8>,
    len: usize,
    /// Characters of the word, those behind the limit included.
    chars: usize,
    has_nul: bool,
}

/// Bytes that a character takes at most.
const CHAR_BYTES: usize = 4;

impl Word {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; 4 * KEY_BYTES], len: 0, chars: 0, has_nul: false }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.chars == 0
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.buffer[..KEY_BYTES].fill(0);
        (self.len, self.chars, self.has_nul) = (0, 0, false);
    }

    /// Takes a character; only counts it where the word is longer than `limit` already.
    #[inline]
    pub(super) fn push(&mut self, character: char, limit: usize) {
        if self.chars < limit {
            if self.len + CHAR_BYTES > self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            self.len += character.encode_utf8(&mut self.buffer[self.len..]).len();
            self.has_nul |= character == '\0';
        }
        self.chars += 1;
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        let short = self.len <= KEY_BYTES && !self.has_nul;
        self.buffer.first_chunk().filter(|_| short).map(Key::load)
    }
}
