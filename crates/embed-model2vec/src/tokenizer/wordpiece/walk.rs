//! From text to words: 64 bytes of plain ASCII at a time, and one character at a time elsewhere.
//!
//! Of a block of plain ASCII, words are cut out by counting bits, and the places of the table that they
//! may be in are asked for; they are looked up together when the text ends, the [`Batch`] has no room for
//! another block, or something else than a short plain word comes, so that the processor has many
//! lookups under way at once.

use std::ops::ControlFlow;

use super::batch::Batch;
use super::scan::{BLOCK, Scanner};
use super::spell::{Memory, Speller, Word};
use super::words::{KEY_BYTES, Key};
use crate::tokenizer::IdSink;
use crate::tokenizer::bert::{self, BertNormalizer, Class, Marks, Rewritten};

/// Bytes that are looked at together: a block, and the rest of a word that begins in it.
const WINDOW: usize = BLOCK + KEY_BYTES;

/// Lower-cases ASCII letters and leaves digits alone, in eight bytes.
const LOWER: u64 = u64::from_le_bytes([0x20; 8]);

/// Walks over the texts of one tokenizer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walker<'t> {
    pub(super) scanner: Scanner,
    pub(super) normalizer: &'t BertNormalizer,
    pub(super) speller: &'t Speller,
}

/// Working memory of a walk.
#[derive(Debug)]
pub(super) struct Steps {
    batch: Batch,
    memory: Memory,
    word: Word,
    marks: Marks,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            batch: Batch::new(),
            memory: Memory::new(),
            word: Word::new(),
            marks: Marks::default(),
        }
    }
}

impl Walker<'_> {
    /// Pushes the ids of a text without added tokens.
    pub(super) fn walk(
        self,
        text: &str,
        steps: &mut Steps,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let mut padded = [b' '; WINDOW];
            let window = if let Some(window) = rest.first_chunk::<WINDOW>() {
                window
            } else {
                padded[..rest.len()].copy_from_slice(rest);
                &padded
            };
            let (done, finished) = self.cut_block(window, steps, sink)?;
            at += done;
            if !finished || steps.batch.room() < BLOCK || at >= bytes.len() {
                steps.batch.flush(self.speller, &mut steps.memory, sink)?;
            }
            if !finished {
                at = self.walk_carefully(text, at, steps, sink)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Cuts out the words of a block and returns how far that went, and whether the walk can go on
    /// there in the same way.
    #[inline]
    fn cut_block(
        self,
        window: &[u8; WINDOW],
        steps: &mut Steps,
        sink: &mut impl IdSink,
    ) -> ControlFlow<(), (usize, bool)> {
        let block = window.first_chunk::<BLOCK>().expect("a window begins with a block");
        let masks = self.scanner.scan(block);
        // The part in front of the first byte that is not plain, less a word that goes on there.
        let plain = masks.other.trailing_zeros();
        let done = plain - trailing_run(masks.word, plain);
        let mut starts = (masks.word & !(masks.word << 1) | masks.punctuation) & below(done);

        let fold = if self.normalizer.settings().lowercase { LOWER } else { 0 };
        let longest = self.speller.longest_keyed();
        while starts != 0 {
            let start = starts.trailing_zeros() % u64::BITS;
            starts &= starts - 1;
            // Punctuation is a word of one byte, and no run of word characters.
            let run = (masks.word >> start).trailing_ones();
            if run > longest {
                let word = &block[start as usize..][..run as usize];
                self.push_long(word, fold, steps, sink)?;
                continue;
            }
            let first = window[start as usize..].first_chunk().expect("16 bytes behind a block");
            let key = Key::of_prefix(first, run.max(1) as usize, if run > 0 { fold } else { 0 });
            let hash = key.hash();
            self.speller.seeds.prefetch(hash);
            steps.batch.push(key, hash);
        }
        ControlFlow::Continue((done as usize, plain as usize == BLOCK && done > 0))
    }

    /// Pushes the ids of a plain word that is too long for a key.
    #[cold]
    fn push_long(
        self,
        word: &[u8],
        fold: u64,
        steps: &mut Steps,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        steps.batch.flush(self.speller, &mut steps.memory, sink)?;
        for &byte in word {
            let lower = if fold == 0 { byte } else { byte.to_ascii_lowercase() };
            steps.word.push(char::from(lower), self.speller.max_word_chars());
        }
        self.speller.push(&mut steps.word, &mut steps.memory, sink)
    }

    /// Pushes the ids of the words from byte `at` on, until an ASCII character begins something new,
    /// and returns where that is. Takes one character at least.
    fn walk_carefully(
        self,
        text: &str,
        at: usize,
        steps: &mut Steps,
        sink: &mut impl IdSink,
    ) -> ControlFlow<(), usize> {
        let limit = self.speller.max_word_chars();
        steps.word.clear();
        steps.marks.clear();
        for (offset, character) in text[at..].char_indices() {
            let between_words = steps.word.is_empty() && steps.marks.is_empty();
            if between_words && character.is_ascii() && offset > 0 {
                return ControlFlow::Continue(at + offset);
            }
            match self.normalizer.rewrite(character) {
                Rewritten::Nothing => {}
                Rewritten::Word(c) => {
                    self.push_marks(steps, sink)?;
                    steps.word.push(c, limit);
                }
                Rewritten::Space(c) => {
                    self.push_marks(steps, sink)?;
                    self.push_character(c, Class::Space, steps, sink)?;
                }
                Rewritten::Punctuation(c) | Rewritten::Padded(c) => {
                    self.push_marks(steps, sink)?;
                    self.push_character(c, Class::Punctuation, steps, sink)?;
                }
                Rewritten::Pieces(pieces) => {
                    for piece in pieces {
                        match piece.character {
                            Some(mark) if piece.combining_class > 0 => {
                                steps.marks.hold(piece.combining_class, mark);
                            }
                            character => {
                                self.push_marks(steps, sink)?;
                                if let Some(character) = character {
                                    self.push_character(character, piece.class, steps, sink)?;
                                }
                            }
                        }
                    }
                }
            }
        }
        self.push_marks(steps, sink)?;
        self.speller.push(&mut steps.word, &mut steps.memory, sink)?;
        ControlFlow::Continue(text.len())
    }

    /// Takes the marks that wait, in their order.
    #[inline]
    fn push_marks(self, steps: &mut Steps, sink: &mut impl IdSink) -> ControlFlow<()> {
        if steps.marks.is_empty() {
            return ControlFlow::Continue(());
        }
        while let Some(mark) = steps.marks.next() {
            self.push_character(mark, bert::class(mark), steps, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Takes the next character of normalized text.
    #[inline]
    fn push_character(
        self,
        character: char,
        class: Class,
        steps: &mut Steps,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let limit = self.speller.max_word_chars();
        if class != Class::Word {
            self.speller.push(&mut steps.word, &mut steps.memory, sink)?;
        }
        if class != Class::Space {
            steps.word.push(character, limit);
        }
        if class == Class::Punctuation {
            self.speller.push(&mut steps.word, &mut steps.memory, sink)?;
        }
        ControlFlow::Continue(())
    }
}

/// The positions below `end`, which is at most 64.
fn below(end: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - end).unwrap_or(0)
}

/// The number of word characters in a row that end at `end`, which is at most 64.
fn trailing_run(word: u64, end: u32) -> u32 {
    // With `end` at the top, ones behind it are shifted out.
    word.checked_shl(u64::BITS - end).map_or(0, u64::leading_ones)
}
