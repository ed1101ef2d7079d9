//! WordPiece over BERT's normalizer and pre-tokenizer, straight from text to ids.
//!
//! # How
//!
//! A text is a sequence of words: runs of letters and digits, single punctuation characters, single
//! ideographs. A word's ids are found by taking the longest piece of the vocabulary that it begins
//! with, then the longest continuing piece that the rest begins with, and so on; a word that does not
//! come out even, or is too long, is one unknown token.
//!
//! Plain ASCII text is taken 64 bytes at a time ([`scan`]): bit masks say where words begin and end,
//! the first 16 bytes of a word are loaded, folded to lower case and cut to its length in two
//! registers, and that number is looked up in a table of whole words ([`words`]). Punctuation goes the
//! same way, as words of one byte. What is not in the table was perhaps computed before ([`Memo`]),
//! or is put together from pieces ([`pieces`]).
//!
//! A block ends early where something else than plain ASCII comes. Then the careful way takes over,
//! at the beginning of the word that touches it: one character after the other, through the
//! normalizer's tables ([`bert`](super::bert)), into a buffer for the current word. It hands back at the
//! first ASCII character that begins something new.
//!
//! # Why the results are the same
//!
//! - ASCII letters, digits, punctuation and blanks mean the same under every setting of the
//!   normalizer, but for lower-casing, which is one bit. Nothing in the normalizer moves a character
//!   across an ASCII character that stays, so a text may be cut before any of them, except inside a
//!   word.
//! - A word that is an entry of the vocabulary is its own longest piece.
//! - Words are independent of each other, so that remembering them is exact.
//! - Memory for a word is bounded by the length at which it becomes unknown.

mod pieces;
mod scan;
#[cfg(test)]
mod tests;
mod words;

use std::ops::ControlFlow;

use serde_json::Value;

use super::added::{AddedTokens, Matcher, Part};
use super::bert::{self, BertNormalizer, Class, Marks, Rewritten, Settings};
use super::definition::{Definition, Vocab};
use super::scratch::{Borrowed, Pool};
use super::{IdSink, Vocabulary};
use pieces::Pieces;
use scan::{BLOCK, Scanner};
use words::{KEY_BYTES, Key, Memo, Seeds};

/// Bytes that are looked at together: a block, and the rest of a word that begins in it.
const WINDOW: usize = BLOCK + KEY_BYTES;

/// A WordPiece tokenizer.
#[derive(Debug)]
pub(super) struct WordPiece {
    scanner: Scanner,
    normalizer: BertNormalizer,
    raw: Matcher,
    /// Tokens that are searched in normalized text, with the normalizer for what is left of it:
    /// one that changes nothing.
    normalized: Option<(Matcher, BertNormalizer)>,
    seeds: Seeds,
    /// Pieces that begin a word.
    beginning: Pieces,
    /// Pieces that continue a word, without their prefix.
    continuing: Pieces,
    /// The model's unknown token. Without one, an unknown word has no id.
    unk_id: Option<u32>,
    max_word_chars: usize,
    scratch: Pool<Scratch>,
}

/// Working memory of a session.
#[derive(Debug)]
pub(super) struct Scratch {
    memo: Memo,
    word: Word,
    marks: Marks,
    ids: Vec<u32>,
    normalized: String,
}

impl WordPiece {
    /// The tokenizer of a file, unless the file asks for something else than this module does.
    pub(super) fn new(definition: &Definition<'_>) -> Option<(Self, Vocabulary)> {
        let model = &definition.model;
        let (Vocab::Ids(entries), "WordPiece") = (&model.vocab, model.kind.as_str()) else {
            return None;
        };
        if definition.pre_tokenizer.get("type")? != "BertPreTokenizer" {
            return None;
        }
        let normalizer = match &definition.normalizer {
            Value::Null => BertNormalizer::new(Settings::NOTHING),
            section => BertNormalizer::from_json(section)?,
        };
        let prefix = model.continuing_subword_prefix.as_ref()?.as_bytes();
        let max_word_chars = model.max_input_chars_per_word.filter(|&limit| limit > 0)?;

        let bytes = entries.iter().map(|(token, id)| (token.as_bytes(), *id));
        let beginning = Pieces::new(bytes.clone())?;
        let continuing = Pieces::new(
            bytes.clone().filter_map(|(token, id)| Some((token.strip_prefix(prefix)?, id))),
        )?;
        let model_id = |token: &str| beginning.id(token.as_bytes());
        let added = AddedTokens::new(&definition.added_tokens, entries.len(), model_id);
        let unk_token = model.unk_token.as_ref()?;
        let facts = Vocabulary::new(
            definition,
            entries.iter().map(|(token, id)| (token.as_ref(), *id)),
            &added,
            |token| model_id(token).is_some(),
            added.id(unk_token).or_else(|| model_id(unk_token)),
        );

        let normalized = added.normalized_matcher(|content| {
            let mut out = String::new();
            normalizer.normalize_into(content, &mut out);
            out
        })?;
        let normalized = normalized.ok().filter(|matcher| !matcher.is_empty());
        let tokenizer = Self {
            scanner: Scanner::detect(),
            raw: added.raw_matcher().ok()?,
            normalized: normalized.map(|matcher| (matcher, BertNormalizer::new(Settings::NOTHING))),
            seeds: Seeds::new(bytes),
            unk_id: model_id(unk_token),
            normalizer,
            beginning,
            continuing,
            max_word_chars,
            scratch: Pool::default(),
        };
        Some((tokenizer, facts))
    }

    pub(super) fn scratch(&self) -> Borrowed<'_, Scratch> {
        self.scratch.take(|| Scratch {
            memo: Memo::new(),
            word: Word::default(),
            marks: Marks::default(),
            ids: Vec::new(),
            normalized: String::new(),
        })
    }

    /// Pushes the ids of `text` until it ends or the sink breaks off.
    pub(super) fn tokenize(
        &self,
        text: &str,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        self.raw.parts(text, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(text, _) => match &self.normalized {
                None => self.walk(&self.normalizer, text, scratch, sink),
                Some((matcher, identity)) => {
                    let mut normalized = std::mem::take(&mut scratch.normalized);
                    normalized.clear();
                    self.normalizer.normalize_into(text, &mut normalized);
                    let flow = matcher.parts(&normalized, |part| match part {
                        Part::Token(id) => sink.push(id),
                        Part::Text(text, _) => self.walk(identity, text, scratch, sink),
                    });
                    scratch.normalized = normalized;
                    flow
                }
            },
        })
    }

    /// Pushes the ids of a text without added tokens.
    fn walk(
        &self,
        normalizer: &BertNormalizer,
        text: &str,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        const LOWER: u64 = u64::from_le_bytes([0x20; 8]);
        let fold = if normalizer.settings().lowercase { LOWER } else { 0 };
        let longest_keyed = KEY_BYTES.min(self.max_word_chars);
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let mut padded = [b' '; WINDOW];
            let window = match rest.first_chunk::<WINDOW>() {
                Some(window) => window,
                None => {
                    padded[..rest.len()].copy_from_slice(rest);
                    &padded
                }
            };
            let block = window.first_chunk::<BLOCK>().expect("a window begins with a block");
            let masks = self.scanner.scan(block);
            // The part of the block in front of the first byte that is not plain.
            let clean = masks.other.trailing_zeros();
            let plain = u64::MAX.checked_shr(u64::BITS - clean).unwrap_or(0);
            let mut starts = (masks.word & !(masks.word << 1) | masks.punctuation) & plain;
            // Where to go on: behind that part, or at the word that goes on behind it.
            let mut done = clean as usize;
            while starts != 0 {
                let start = starts.trailing_zeros();
                starts &= starts - 1;
                // Punctuation is a word of one byte, and no run of word characters.
                let run = (masks.word >> start).trailing_ones();
                if run > 0 && start + run == clean {
                    done = start as usize;
                    break;
                }
                let (start, run) = (start as usize, run as usize);
                if run <= longest_keyed {
                    let first = window[start..].first_chunk().expect("16 bytes behind each block");
                    let fold = if run > 0 { fold } else { 0 };
                    let len = run.max(1);
                    self.push_keyed(Key::of_prefix(first, len, fold), len, scratch, sink)?;
                } else {
                    scratch.word.clear();
                    let word = block[start..start + run].iter().map(|&byte| char::from(byte));
                    for character in word {
                        let lower =
                            if fold == 0 { character } else { character.to_ascii_lowercase() };
                        scratch.word.push(lower, self.max_word_chars);
                    }
                    self.push_word(scratch, sink)?;
                }
            }
            at += done;
            if (clean as usize) < BLOCK || done == 0 {
                at = self.walk_carefully(normalizer, text, at, scratch, sink)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Pushes the ids of the words from byte `at` on, until an ASCII character begins something new,
    /// and returns where that is. Takes one character at least.
    fn walk_carefully(
        &self,
        normalizer: &BertNormalizer,
        text: &str,
        at: usize,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<(), usize> {
        scratch.word.clear();
        scratch.marks.clear();
        for (offset, character) in text[at..].char_indices() {
            let between_words = scratch.word.is_empty() && scratch.marks.is_empty();
            if between_words && character.is_ascii() && offset > 0 {
                return ControlFlow::Continue(at + offset);
            }
            let rewritten = normalizer.rewrite(character);
            if rewritten != Rewritten::Nothing && !scratch.marks.is_empty() {
                self.push_marks(scratch, sink)?;
            }
            match rewritten {
                Rewritten::Nothing => {}
                Rewritten::Word(c) => scratch.word.push(c, self.max_word_chars),
                Rewritten::Space(_) => self.push_word(scratch, sink)?,
                Rewritten::Punctuation(c) | Rewritten::Padded(c) => {
                    self.push_word(scratch, sink)?;
                    self.push_alone(c, scratch, sink)?;
                }
                Rewritten::Pieces(pieces) => {
                    for piece in pieces {
                        match piece.character {
                            Some(mark) if piece.combining_class > 0 => {
                                scratch.marks.hold(piece.combining_class, mark);
                            }
                            character => {
                                self.push_marks(scratch, sink)?;
                                if let Some(character) = character {
                                    self.push_character(character, piece.class, scratch, sink)?;
                                }
                            }
                        }
                    }
                }
            }
        }
        self.push_marks(scratch, sink)?;
        self.push_word(scratch, sink)?;
        ControlFlow::Continue(text.len())
    }

    /// Takes the marks that wait, in their order.
    fn push_marks(&self, scratch: &mut Scratch, sink: &mut impl IdSink) -> ControlFlow<()> {
        while let Some(mark) = scratch.marks.next() {
            self.push_character(mark, bert::class(mark), scratch, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Takes the next character of normalized text.
    fn push_character(
        &self,
        character: char,
        class: Class,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        match class {
            Class::Word => {
                scratch.word.push(character, self.max_word_chars);
                ControlFlow::Continue(())
            }
            Class::Space => self.push_word(scratch, sink),
            Class::Punctuation => {
                self.push_word(scratch, sink)?;
                self.push_alone(character, scratch, sink)
            }
        }
    }

    /// Pushes the ids of a word of one character.
    fn push_alone(
        &self,
        character: char,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        scratch.word.push(character, self.max_word_chars);
        self.push_word(scratch, sink)
    }

    /// Pushes the ids of the word in `scratch`, if there is one, and clears it.
    fn push_word(&self, scratch: &mut Scratch, sink: &mut impl IdSink) -> ControlFlow<()> {
        let word = std::mem::take(&mut scratch.word);
        let flow = match Key::of(&word.bytes) {
            _ if word.is_empty() => ControlFlow::Continue(()),
            _ if word.chars > self.max_word_chars => {
                self.unknown().try_for_each(|id| sink.push(id))
            }
            Some(key) => self.push_keyed(key, word.bytes.len(), scratch, sink),
            None => {
                self.split(&word.bytes, &mut scratch.ids);
                scratch.ids.iter().try_for_each(|&id| sink.push(id))
            }
        };
        scratch.word = word;
        scratch.word.clear();
        flow
    }

    /// Pushes the ids of a word of `len` bytes that has a key.
    #[inline]
    fn push_keyed(
        &self,
        key: Key,
        len: usize,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        if let Some(id) = self.seeds.get(key) {
            return sink.push(id);
        }
        if let Some(ids) = scratch.memo.get(key) {
            return ids.iter().try_for_each(|&id| sink.push(id));
        }
        self.split(&key.bytes()[..len], &mut scratch.ids);
        scratch.memo.put(key, &scratch.ids);
        scratch.ids.iter().try_for_each(|&id| sink.push(id))
    }

    /// The ids of a word that is not too long, by longest pieces.
    fn split(&self, word: &[u8], ids: &mut Vec<u32>) {
        ids.clear();
        let mut pieces = &self.beginning;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((len, id)) = pieces.longest(rest) else {
                ids.clear();
                ids.extend(self.unknown());
                return;
            };
            ids.push(id);
            rest = &rest[len..];
            pieces = &self.continuing;
        }
    }

    /// What stands for a word that has no pieces.
    fn unknown(&self) -> impl Iterator<Item = u32> {
        self.unk_id.into_iter()
    }
}

/// The word that characters are being collected for.
#[derive(Debug, Default)]
struct Word {
    bytes: Vec<u8>,
    /// Characters of the word, those behind the limit included.
    chars: usize,
}

impl Word {
    #[inline]
    fn is_empty(&self) -> bool {
        self.chars == 0
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.chars = 0;
    }

    /// Takes a character; only counts it where the word is longer than `limit` already.
    #[inline]
    fn push(&mut self, character: char, limit: usize) {
        if self.chars < limit {
            if character.is_ascii() {
                self.bytes.push(character as u8);
            } else {
                self.bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        self.chars += 1;
    }
}
