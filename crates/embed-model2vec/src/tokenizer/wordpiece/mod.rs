//! WordPiece over BERT's normalizer and pre-tokenizer, straight from text to ids.
//!
//! # How
//!
//! A text is a sequence of words: runs of letters and digits, single punctuation characters, single
//! ideographs. A word's ids are found by taking the longest piece of the vocabulary that it begins
//! with, then the longest continuing piece that the rest begins with, and so on; a word that does not
//! come out even, or is too long, is one unknown token.
//!
//! Plain ASCII text is taken 64 bytes at a time (`walk.rs`): bit masks say where words begin and end
//! (`scan.rs`), the first 16 bytes of a word are loaded, folded to lower case and cut to its length in
//! two registers. That number is looked up in a table of whole words (`words.rs`), for all words of a
//! usual text at once (`batch.rs`). Punctuation goes the same way, as words of one byte. What is not in
//! the table was perhaps remembered, or is put together from pieces (`spell.rs`, `pieces.rs`).
//!
//! A block ends early where something else than plain ASCII comes. Then the careful way takes over,
//! at the beginning of the word that touches it: one character after the other, through the
//! normalizer's tables (`bert.rs`), into a buffer for the current word. It hands back at the first
//! ASCII character that begins something new.
//!
//! # Why the results are the same
//!
//! - ASCII letters, digits, punctuation and blanks mean the same under every setting of the
//!   normalizer, but for lower-casing, which is one bit. Nothing in the normalizer moves a character
//!   across an ASCII character that stays, so a text may be cut before any of them, except inside a
//!   word.
//! - A word that is an entry of the vocabulary is its own longest piece.
//! - Words are independent of each other, so that remembering them is exact.
//!
//! Memory: 2 MiB for a session, and the length at which a word becomes unknown for a word.

mod batch;
mod pieces;
mod scan;
mod spell;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::ops::ControlFlow;

use serde_json::Value;

use super::added::{AddedTokens, Matcher, Part};
use super::bert::{BertNormalizer, Settings};
use super::definition::{Definition, Vocab};
use super::scratch::{Borrowed, Pool};
use super::{IdSink, Vocabulary};
use scan::Scanner;
use spell::Speller;
use walk::{Steps, Walker};

/// A WordPiece tokenizer.
#[derive(Debug)]
pub(super) struct WordPiece {
    scanner: Scanner,
    normalizer: BertNormalizer,
    raw: Matcher,
    /// Tokens that are searched in normalized text, with the normalizer for what is left of it:
    /// one that changes nothing.
    normalized: Option<(Matcher, BertNormalizer)>,
    speller: Speller,
    scratch: Pool<Scratch>,
}

/// Working memory of a session.
#[derive(Debug)]
pub(super) struct Scratch {
    steps: Steps,
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
        let unk_token = model.unk_token.as_ref().filter(|token| !token.is_empty())?;
        let speller = Speller::new(
            entries.iter().map(|(token, id)| (token.as_bytes(), *id)),
            model.continuing_subword_prefix.as_ref()?.as_bytes(),
            unk_token,
            model.max_input_chars_per_word.filter(|&limit| limit > 0)?,
        )?;
        let model_id = |token: &str| speller.id(token);
        let added = AddedTokens::new(&definition.added_tokens, entries.len(), model_id)?;
        let facts = Vocabulary::new(
            definition,
            entries.iter().map(|(token, id)| (token.as_ref(), *id)).collect(),
            &added,
            |token| model_id(token).is_some(),
            added.id(unk_token).or_else(|| model_id(unk_token)),
        );

        let (raw, normalized) = added.matchers(|content| {
            let mut out = String::new();
            normalizer.normalize_into(content, &mut out);
            out
        })?;
        let normalized = Some(normalized).filter(|matcher| !matcher.is_empty());
        let tokenizer = Self {
            scanner: Scanner::detect(),
            raw,
            normalized: normalized.map(|matcher| (matcher, BertNormalizer::new(Settings::NOTHING))),
            normalizer,
            speller,
            scratch: Pool::default(),
        };
        Some((tokenizer, facts))
    }

    pub(super) fn scratch(&self) -> Borrowed<'_, Scratch> {
        self.scratch.take(|| Scratch { steps: Steps::new(), normalized: String::new() })
    }

    /// Pushes the ids of `text` until it ends or the sink breaks off.
    pub(super) fn tokenize(
        &self,
        text: &str,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let Scratch { steps, normalized } = scratch;
        self.raw.parts(text, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(text, _) => match &self.normalized {
                None => self.walker(&self.normalizer).walk(text, steps, sink),
                Some((matcher, identity)) => {
                    normalized.clear();
                    self.normalizer.normalize_into(text, normalized);
                    matcher.parts(normalized, |part| match part {
                        Part::Token(id) => sink.push(id),
                        Part::Text(text, _) => self.walker(identity).walk(text, steps, sink),
                    })
                }
            },
        })
    }

    /// A walker over text that `normalizer` has to rewrite.
    fn walker<'t>(&'t self, normalizer: &'t BertNormalizer) -> Walker<'t> {
        Walker { scanner: self.scanner, normalizer, speller: &self.speller }
    }
}
