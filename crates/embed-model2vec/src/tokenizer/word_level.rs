//! WordLevel: a word is a token or it is unknown.
//!
//! A text is normalized as a whole, cut into words by the class of each character, and each word is
//! looked up. Three pre-tokenizers are known:
//!
//! - `Whitespace`, the pattern `\w+|[^\w\s]+`: runs of word characters and runs of others.
//! - `WhitespaceSplit`: whatever stands between whitespace.
//! - `BertPreTokenizer`: the same, with each punctuation character as a word of its own.
//!
//! The classes of ASCII are a table, made at load; other characters are asked for one by one. The
//! known normalizers are none, `Lowercase` and `BertNormalizer`.
//!
//! In a vocabulary without the unknown token, an unknown word gives no id.

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::added::{AddedTokens, Matcher, Part};
use super::bert::{self, BertNormalizer};
use super::definition::{Definition, Vocab};
use super::lowercase::lowercase_into;
use super::scratch::{Borrowed, Pool};
use super::{IdSink, Vocabulary};

/// A WordLevel tokenizer.
#[derive(Debug)]
pub(super) struct WordLevel {
    normalizer: Normalizer,
    splitter: Splitter,
    /// The classes of ASCII.
    ascii: [Class; 128],
    raw_tokens: Matcher,
    normalized_tokens: Matcher,
    ids: FxHashMap<Box<str>, u32>,
    /// For unknown words, if there is a token for them.
    unk_id: Option<u32>,
    pool: Pool<String>,
}

#[derive(Debug)]
enum Normalizer {
    None,
    Lowercase,
    Bert(BertNormalizer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Splitter {
    Whitespace,
    WhitespaceSplit,
    Bert,
}

/// What a character does to the word that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Ends it, and is part of none.
    Gap,
    /// Continues a word of its class.
    Word,
    /// Continues a word of its class.
    Symbol,
    /// Is a word.
    Single,
}

impl Normalizer {
    fn from_json(json: &Value) -> Option<Self> {
        match json["type"].as_str() {
            None if json.is_null() => Some(Self::None),
            Some("Lowercase") => Some(Self::Lowercase),
            Some("BertNormalizer") => BertNormalizer::from_json(json).map(Self::Bert),
            _ => None,
        }
    }

    /// The normalized text; `buffer` is a place for it.
    fn apply<'a>(&self, text: &'a str, buffer: &'a mut String) -> &'a str {
        buffer.clear();
        match self {
            Self::None => return text,
            Self::Lowercase => lowercase_into(text, buffer),
            Self::Bert(normalizer) => normalizer.normalize_into(text, buffer),
        }
        buffer
    }
}

impl Splitter {
    fn from_json(json: &Value) -> Option<Self> {
        match json["type"].as_str()? {
            "Whitespace" => Some(Self::Whitespace),
            "WhitespaceSplit" => Some(Self::WhitespaceSplit),
            "BertPreTokenizer" => Some(Self::Bert),
            _ => None,
        }
    }

    fn class(self, character: char) -> Class {
        match self {
            _ if character.is_whitespace() => Class::Gap,
            Self::Whitespace if regex_syntax::is_word_character(character) => Class::Word,
            Self::Whitespace => Class::Symbol,
            Self::WhitespaceSplit => Class::Word,
            Self::Bert => match bert::class(character) {
                bert::Class::Punctuation => Class::Single,
                bert::Class::Space => Class::Gap,
                bert::Class::Word => Class::Word,
            },
        }
    }
}

impl WordLevel {
    /// A tokenizer for the file, if it is one that is served here.
    pub(super) fn new(definition: &Definition<'_>) -> Option<(Self, Vocabulary)> {
        let (Vocab::Ids(entries), "WordLevel") =
            (&definition.model.vocab, definition.model.kind.as_str())
        else {
            return None;
        };
        let unk_token = definition.model.unk_token.as_deref()?;
        let splitter = Splitter::from_json(&definition.pre_tokenizer)?;
        let normalizer = Normalizer::from_json(&definition.normalizer)?;
        let ids: FxHashMap<Box<str>, u32> =
            entries.iter().map(|(token, id)| (token.as_ref().into(), *id)).collect();
        if ids.len() != entries.len() {
            return None;
        }
        let id_of = |token: &str| ids.get(token).copied();
        let added = AddedTokens::new(&definition.added_tokens, ids.len(), id_of)?;
        let facts = Vocabulary::new(
            definition,
            entries.iter().map(|(token, id)| (token.as_ref(), *id)).collect(),
            &added,
            |token| ids.contains_key(token),
            added.id(unk_token).or_else(|| id_of(unk_token)),
        );
        let normalize = |text: &str| normalizer.apply(text, &mut String::new()).to_owned();
        let (raw_tokens, normalized_tokens) = added.matchers(normalize)?;
        let tokenizer = Self {
            raw_tokens,
            normalized_tokens,
            normalizer,
            splitter,
            ascii: std::array::from_fn(|code| match u8::try_from(code) {
                Ok(byte) => splitter.class(char::from(byte)),
                Err(_) => Class::Gap,
            }),
            unk_id: id_of(unk_token),
            ids,
            pool: Pool::default(),
        };
        Some((tokenizer, facts))
    }

    /// Working memory for [`tokenize`](Self::tokenize), from an earlier call if there was one.
    pub(super) fn memory(&self) -> Borrowed<'_, String> {
        self.pool.take(String::new)
    }

    /// Pushes the ids of `text` until it ends or the sink breaks off.
    pub(super) fn tokenize(
        &self,
        text: &str,
        memory: &mut String,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        self.raw_tokens.parts(text, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(part, _) => {
                let part = self.normalizer.apply(part, memory);
                self.normalized_tokens.parts(part, |part| match part {
                    Part::Token(id) => sink.push(id),
                    Part::Text(part, _) => self.push_words(part, sink),
                })
            }
        })
    }

    fn push_words(&self, text: &str, sink: &mut impl IdSink) -> ControlFlow<()> {
        // The word that is being read, if it is not a gap.
        let (mut start, mut current) = (0, Class::Gap);
        for (at, character) in text.char_indices() {
            let class = self.class(character);
            if class == current && class != Class::Single {
                continue;
            }
            self.push_word(&text[start..at], current, sink)?;
            (start, current) = (at, class);
        }
        self.push_word(&text[start..], current, sink)
    }

    #[inline]
    fn push_word(&self, word: &str, class: Class, sink: &mut impl IdSink) -> ControlFlow<()> {
        if class == Class::Gap {
            return ControlFlow::Continue(());
        }
        match self.ids.get(word).copied().or(self.unk_id) {
            Some(id) => sink.push(id),
            None => ControlFlow::Continue(()),
        }
    }

    #[inline]
    fn class(&self, character: char) -> Class {
        match self.ascii.get(character as usize) {
            Some(&class) => class,
            None => self.splitter.class(character),
        }
    }
}
