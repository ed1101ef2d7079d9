//! Byte-level BPE: GPT-2 and its many relatives.
//!
//! # The way of a text
//!
//! 1. Added tokens that are not normalized are taken out ([`AddedTokens`]).
//! 2. The stretches between are brought to a Unicode form, if the file asks for it (`normalize.rs`),
//!    and the remaining added tokens are taken out of them.
//! 3. A stretch gets a blank before it, if the file asks for it and there is none, and is split into
//!    words by one of two fixed patterns (`pretokenize.rs`).
//! 4. The bytes of a word are its first symbols; pairs of them are merged by rank (`merges.rs`). What
//!    is left are the ids. Most words have been seen before: `words.rs` remembers them.
//!
//! The alphabet of printable characters in which the vocabulary writes bytes is undone at load
//! (`alphabet.rs`): text stays as it is from beginning to end, and nothing is allocated for a word.
//!
//! # What is served
//!
//! [`Bpe::new`] takes a file if it knows everything that decides on ids; all others are left to the
//! `tokenizers` crate. It wants a pre-tokenizer of `pipeline.rs` and a normalizer of `normalize.rs`;
//! no prefix or suffix for parts of words; tokens and ids that are a bijection; merges between tokens
//! of the vocabulary. `ignore_merges` (a word that is a token is not merged), `unk_token` and
//! `fuse_unk` are obeyed. `byte_fallback` is refused unless each byte has a token, when it means
//! nothing.
//!
//! # Bytes without a token
//!
//! A byte that the vocabulary has no token for becomes the unknown token, or a run of such bytes does
//! with `fuse_unk`. Without `unk_token` it vanishes *before* merging, so that its neighbors may merge.
//! An unknown token that is named but missing stands between its neighbors, and gives no id.

mod alphabet;
mod classes;
mod merges;
mod normalize;
mod pipeline;
mod pretokenize;
#[cfg(test)]
mod tests;
mod words;

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;

use super::added::{AddedTokens, Matcher, Part};
use super::definition::{Definition, Model, Vocab};
use super::scratch::{Borrowed, Pool};
use super::{IdSink, Vocabulary};
use merges::Merges;
use normalize::Normalizer;
use pipeline::Pipeline;
use pretokenize::{Splitter, gpt2_end, llama3_end};
use words::Words;

/// Ids are below this, so that the tables have room for marks.
const MAX_ID: u32 = 1 << 31;

/// A byte without a token.
const NO_ID: u32 = u32::MAX;

/// A byte-level BPE tokenizer.
#[derive(Debug)]
pub(super) struct Bpe {
    normalizer: Normalizer,
    pipeline: Pipeline,
    raw_tokens: Matcher,
    normalized_tokens: Matcher,
    model: Merging,
    pool: Pool<Memory>,
}

/// From the bytes of a word to its ids.
#[derive(Debug)]
struct Merging {
    merges: Merges,
    unknown: Unknown,
    /// Tokens by their bytes, if a word that is one of them is not merged.
    whole_words: Option<FxHashMap<Vec<u8>, u32>>,
}

/// What becomes of bytes that have no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    Vanishes,
    /// Stands between its neighbors, but is no id.
    Placeholder(u32),
    Token {
        id: u32,
        fused: bool,
    },
}

/// Working memory of one call.
#[derive(Debug)]
pub(super) struct Memory {
    words: Words,
    scratch: merges::Scratch,
    normalized: String,
    /// Text with a blank before it.
    with_blank: String,
}

impl Bpe {
    /// A tokenizer for the file, if it is one that is served here.
    pub(super) fn new(definition: &Definition<'_>) -> Option<(Self, Vocabulary)> {
        let model = &definition.model;
        let is_plain = |affix: &Option<String>| affix.as_deref().is_none_or(str::is_empty);
        if model.kind != "BPE"
            || !is_plain(&model.continuing_subword_prefix)
            || !is_plain(&model.end_of_word_suffix)
        {
            return None;
        }
        let Vocab::Ids(entries) = &model.vocab else { return None };
        let pipeline = Pipeline::from_json(&definition.pre_tokenizer)?;
        let normalizer = Normalizer::from_json(&definition.normalizer)?;

        let ids: FxHashMap<&str, u32> =
            entries.iter().map(|(token, id)| (token.as_ref(), *id)).collect();
        let size = one_to_one(&ids, entries.len())?;
        let id_of = |token: &str| ids.get(token).copied();
        let added = AddedTokens::new(&definition.added_tokens, ids.len(), id_of)?;
        let normalize = |text: &str| normalizer.apply(text, &mut String::new()).to_owned();
        let (raw_tokens, normalized_tokens) = added.matchers(normalize)?;

        let (unk_id, unknown) = match &model.unk_token {
            None => (None, Unknown::Vanishes),
            Some(name) => match id_of(name) {
                Some(id) => (Some(id), Unknown::Token { id, fused: model.fuse_unk }),
                None => (added.id(name), Unknown::Placeholder(size)),
            },
        };
        let merging = Merging::new(model, &ids, unknown)?;
        let entries = ids.iter().map(|(&token, &id)| (token, id)).collect();
        let is_entry = |token: &str| ids.contains_key(token);
        let facts = Vocabulary::new(definition, entries, &added, is_entry, unk_id);
        let pool = Pool::default();
        let tokenizer =
            Self { normalizer, pipeline, raw_tokens, normalized_tokens, model: merging, pool };
        Some((tokenizer, facts))
    }

    /// Working memory for [`tokenize`](Self::tokenize), from an earlier call if there was one.
    pub(super) fn memory(&self) -> Borrowed<'_, Memory> {
        self.pool.take(|| Memory {
            words: Words::new(),
            scratch: merges::Scratch::default(),
            normalized: String::new(),
            with_blank: String::new(),
        })
    }

    /// Pushes the ids of `text` until it ends or the sink breaks off.
    pub(super) fn tokenize(
        &self,
        text: &str,
        memory: &mut Memory,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let Memory { words, scratch, normalized, with_blank } = memory;
        let Pipeline { splitter, adds_blank } = self.pipeline;
        let mut words = Remembering { model: &self.model, words, scratch };
        self.raw_tokens.parts(text, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(part, _) => {
                let part = self.normalizer.apply(part, normalized);
                self.normalized_tokens.parts(part, |part| match part {
                    Part::Token(id) => sink.push(id),
                    Part::Text(part, _) if adds_blank && !part.starts_with(' ') => {
                        with_blank.clear();
                        with_blank.push(' ');
                        with_blank.push_str(part);
                        words.push_all(with_blank, splitter, sink)
                    }
                    Part::Text(part, _) => words.push_all(part, splitter, sink),
                })
            }
        })
    }
}

/// One more than the largest id, if each of `entries` tokens has an id of its own.
fn one_to_one(ids: &FxHashMap<&str, u32>, entries: usize) -> Option<u32> {
    let mut sorted: Vec<u32> = ids.values().copied().collect();
    sorted.sort_unstable();
    let distinct = ids.len() == entries && sorted.is_sorted_by(|a, b| a < b);
    let size = sorted.last().map_or(0, |largest| largest.saturating_add(1));
    (distinct && size < MAX_ID).then_some(size)
}

impl Merging {
    fn new(model: &Model<'_>, ids: &FxHashMap<&str, u32>, unknown: Unknown) -> Option<Self> {
        let byte_ids = alphabet::characters()
            .map(|character| ids.get(character.encode_utf8(&mut [0; 4]) as &str).copied());
        if model.byte_fallback && byte_ids.contains(&None) {
            return None;
        }
        let mut spelled = String::new();
        let listed: Option<Vec<[u32; 3]>> = model
            .merges
            .as_ref()?
            .0
            .iter()
            .map(|(left, right)| {
                spelled.clear();
                spelled.extend([left.as_ref(), right.as_ref()]);
                Some([*ids.get(&**left)?, *ids.get(&**right)?, *ids.get(spelled.as_str())?])
            })
            .collect();
        let whole_words = model.ignore_merges.then(|| {
            ids.iter().filter_map(|(token, &id)| Some((alphabet::bytes(token)?, id))).collect()
        });
        Some(Self {
            merges: Merges::new(&listed?, &byte_ids.map(|id| id.unwrap_or(NO_ID)))?,
            unknown,
            whole_words,
        })
    }

    /// The ids of a word.
    fn ids<'s>(&self, word: &[u8], scratch: &'s mut merges::Scratch) -> &'s [u32] {
        scratch.clear();
        if let Some(&id) = self.whole_words.as_ref().and_then(|words| words.get(word)) {
            scratch.symbols.push(id);
            return &scratch.symbols;
        }
        if self.merges.apply_to_bytes(word, scratch) {
            return &scratch.symbols;
        }
        let symbols = &mut scratch.symbols;
        let mut after_unknown = false;
        for &byte in word {
            let id = self.merges.byte_ids()[usize::from(byte)];
            match self.unknown {
                _ if id != NO_ID => symbols.push(id),
                Unknown::Vanishes => {}
                Unknown::Token { fused: true, .. } if after_unknown => {}
                Unknown::Token { id, .. } | Unknown::Placeholder(id) => symbols.push(id),
            }
            after_unknown = id == NO_ID;
        }
        self.merges.apply(scratch);
        if let Unknown::Placeholder(placeholder) = self.unknown {
            scratch.symbols.retain(|&id| id != placeholder);
        }
        &scratch.symbols
    }
}

/// From words to ids, by way of the cache.
struct Remembering<'m> {
    model: &'m Merging,
    words: &'m mut Words,
    scratch: &'m mut merges::Scratch,
}

impl Remembering<'_> {
    /// Pushes the ids of all words of `text`, which is not empty.
    fn push_all(
        &mut self,
        text: &str,
        splitter: Splitter,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        match splitter {
            Splitter::Whole => self.push(text, 0, text.len(), sink),
            Splitter::Gpt2 => self.push_each(text, gpt2_end, sink),
            Splitter::Llama3 { digits } => {
                self.push_each(text, |text, start| llama3_end(text, start, digits), sink)
            }
        }
    }

    #[inline]
    fn push_each(
        &mut self,
        text: &str,
        word_end: impl Fn(&str, usize) -> usize,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let mut start = 0;
        while start < text.len() {
            let end = word_end(text, start);
            self.push(text, start, end, sink)?;
            start = end;
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn push(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let text = text.as_bytes();
        let key = words::key(text, start, end);
        let word = &text[start..end];
        let mut pair = [0; 2];
        match self.words.get(key, word, &mut pair) {
            Some(ids) => sink.push_all(ids),
            None => self.push_new(key, word, sink),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_new(
        &mut self,
        key: words::Key,
        word: &[u8],
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let ids = self.model.ids(word, self.scratch);
        self.words.insert(key, word, ids);
        sink.push_all(ids)
    }
}
