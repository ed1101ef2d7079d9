//! From a text to token ids.
//!
//! # Contract
//!
//! The ids are those of the Hugging Face `tokenizers` crate for the same `tokenizer.json`, its quirks
//! included, without special tokens and with the file's `padding`, `truncation` and `post_processor`
//! sections ignored. One deviation: a character that has no token, in a vocabulary that has no
//! unknown token, gives no token; `tokenizers` refuses the whole text.
//!
//! A tokenizer pushes ids into an [`IdSink`] one after the other, and stops early when the sink has
//! had enough. What limits a text (pre-cut, token limit, unknown tokens) is not its business: that
//! happens once, in `limits.rs`, for every tokenizer.

mod added;
mod bert;
mod bpe;
mod definition;
#[cfg(any(test, feature = "tokenizers"))]
mod huggingface;
mod lowercase;
#[cfg(any(test, feature = "tokenizers"))]
mod missing_unknown;
mod scored;
mod scratch;
mod spellings;
#[cfg(test)]
mod test_both;
#[cfg(test)]
mod test_texts;
mod unigram;
mod word_level;
mod wordpiece;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use embed_core::Error;

use crate::bundle::BundleFile;
use crate::error::LoadError;
use added::AddedTokens;
use bpe::Bpe;
use definition::Definition;
#[cfg(feature = "tokenizers")]
use huggingface::HuggingFace;
#[cfg(feature = "tokenizers")]
pub(crate) use huggingface::{Parsed, parse};
use scratch::Borrowed;
pub(crate) use spellings::Spellings;
use unigram::Unigram;
use word_level::WordLevel;
use wordpiece::WordPiece;

/// Takes token ids in text order.
pub(crate) trait IdSink {
    /// Takes one id; `Break` says that no further id is needed.
    fn push(&mut self, id: u32) -> ControlFlow<()>;

    /// Takes some ids in a row, until one of them is the last that is needed.
    #[inline]
    fn push_all(&mut self, ids: &[u32]) -> ControlFlow<()> {
        ids.iter().try_for_each(|&id| self.push(id))
    }
}

/// What has to be known of all entries of a vocabulary, each token once.
#[derive(Clone, Debug, Default)]
struct Entries {
    /// The largest id.
    largest: Option<u32>,
    lengths: Lengths,
}

impl<'a> Extend<(&'a str, u32)> for Entries {
    fn extend<I: IntoIterator<Item = (&'a str, u32)>>(&mut self, entries: I) {
        for (token, id) in entries {
            self.largest = self.largest.max(Some(id));
            self.lengths.add(token);
        }
    }
}

impl<'a> FromIterator<(&'a str, u32)> for Entries {
    fn from_iter<I: IntoIterator<Item = (&'a str, u32)>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all
    }
}

/// The tokenizer of a model, with the facts about its vocabulary that encoding needs.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    family: Family,
    facts: Vocabulary,
}

/// What turns text into ids: one of our own, or the `tokenizers` crate for every other file.
#[derive(Debug)]
enum Family {
    WordPiece(Box<WordPiece>),
    Unigram(Box<Unigram>),
    Bpe(Box<Bpe>),
    WordLevel(Box<WordLevel>),
    #[cfg(feature = "tokenizers")]
    HuggingFace(Box<HuggingFace>),
}

/// Facts about a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    /// One more than the largest id that the tokenizer can produce.
    pub(crate) size: usize,
    /// The id of the unknown token, if there is one.
    pub(crate) unk_id: Option<u32>,
    /// Median length of an entry in code points, rounded down; added tokens are entries too.
    pub(crate) median_chars: usize,
    /// The limit that the file's `truncation` section asks for.
    pub(crate) file_max_length: Option<usize>,
}

impl Vocabulary {
    /// Facts of a vocabulary, given the entries of its model.
    fn new(
        definition: &Definition<'_>,
        mut entries: Entries,
        added: &AddedTokens,
        is_entry: impl Fn(&str) -> bool,
        unk_id: Option<u32>,
    ) -> Self {
        entries.extend(added.iter().filter(|(content, _)| !is_entry(content)));
        let Entries { largest, lengths } = entries;
        Self {
            size: largest.map_or(0, |largest| largest as usize + 1),
            unk_id,
            median_chars: lengths.median(),
            file_max_length: definition.max_length(),
        }
    }
}

impl Tokenizer {
    /// The tokenizer of a file: one of our own if one serves all that the file asks for.
    pub(crate) fn load(file: &BundleFile) -> Result<Self, LoadError> {
        match Definition::read(&file.bytes) {
            Ok(definition) => match Self::own(&definition) {
                Some(own) => Ok(own),
                None => Self::fallback(file, || LoadError::UnsupportedTokenizer {
                    path: file.path.clone(),
                    found: definition.to_string(),
                }),
            },
            Err(source) => {
                Self::fallback(file, || LoadError::Tokenizer { path: file.path.clone(), source })
            }
        }
    }

    fn own(definition: &Definition<'_>) -> Option<Self> {
        if let Some((tokenizer, facts)) = WordPiece::new(definition) {
            return Some(Self { family: Family::WordPiece(Box::new(tokenizer)), facts });
        }
        if let Some((tokenizer, facts)) = Bpe::new(definition) {
            return Some(Self { family: Family::Bpe(Box::new(tokenizer)), facts });
        }
        if let Some((tokenizer, facts)) = Unigram::new(definition) {
            return Some(Self { family: Family::Unigram(Box::new(tokenizer)), facts });
        }
        let (tokenizer, facts) = WordLevel::new(definition)?;
        Some(Self { family: Family::WordLevel(Box::new(tokenizer)), facts })
    }

    /// The `tokenizers` crate, for what our own do not serve; it also knows best what is wrong with a
    /// file.
    #[cfg(feature = "tokenizers")]
    fn fallback(file: &BundleFile, _: impl FnOnce() -> LoadError) -> Result<Self, LoadError> {
        let (tokenizer, facts) = HuggingFace::load_file(file)?;
        Ok(Self { family: Family::HuggingFace(Box::new(tokenizer)), facts })
    }

    #[cfg(not(feature = "tokenizers"))]
    fn fallback(_: &BundleFile, error: impl FnOnce() -> LoadError) -> Result<Self, LoadError> {
        Err(error())
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.facts
    }

    /// Which implementation turns text into ids.
    pub(crate) fn implementation(&self) -> &'static str {
        match &self.family {
            Family::WordPiece(_) => "WordPiece, built in",
            Family::Unigram(_) => "Unigram, built in",
            Family::Bpe(_) => "BPE, built in",
            Family::WordLevel(_) => "WordLevel, built in",
            #[cfg(feature = "tokenizers")]
            Family::HuggingFace(tokenizer) => tokenizer.implementation(),
        }
    }

    /// Whether it is a family of this crate.
    pub(crate) fn is_own(&self) -> bool {
        match &self.family {
            Family::WordPiece(_) | Family::Unigram(_) | Family::Bpe(_) | Family::WordLevel(_) => {
                true
            }
            #[cfg(feature = "tokenizers")]
            Family::HuggingFace(_) => false,
        }
    }

    /// Begins to tokenize: a session holds the working memory for one text after the other.
    pub(crate) fn session(&self) -> Session<'_> {
        Session(match &self.family {
            Family::WordPiece(tokenizer) => Running::WordPiece(tokenizer, tokenizer.scratch()),
            Family::Unigram(tokenizer) => Running::Unigram(tokenizer, tokenizer.scratch()),
            Family::Bpe(tokenizer) => Running::Bpe(tokenizer, tokenizer.memory()),
            Family::WordLevel(tokenizer) => Running::WordLevel(tokenizer, tokenizer.memory()),
            #[cfg(feature = "tokenizers")]
            Family::HuggingFace(tokenizer) => Running::HuggingFace(tokenizer),
        })
    }
}

/// Tokenizes texts one after the other on one thread.
pub(crate) struct Session<'t>(Running<'t>);

/// A family with the working memory of a session.
enum Running<'t> {
    WordPiece(&'t WordPiece, Borrowed<'t, wordpiece::Scratch>),
    Unigram(&'t Unigram, Borrowed<'t, unigram::Scratch>),
    Bpe(&'t Bpe, Borrowed<'t, bpe::Memory>),
    WordLevel(&'t WordLevel, Borrowed<'t, String>),
    #[cfg(feature = "tokenizers")]
    HuggingFace(&'t HuggingFace),
}

impl Session<'_> {
    /// Pushes the ids of `text` until it ends or the sink breaks off.
    #[inline]
    #[cfg_attr(
        not(feature = "tokenizers"),
        expect(clippy::unnecessary_wraps, reason = "only the tokenizers crate fails on texts")
    )]
    pub(crate) fn tokenize(&mut self, text: &str, sink: &mut impl IdSink) -> Result<(), Error> {
        // A sink that breaks off has what it wanted: that is no error.
        let _ = match &mut self.0 {
            Running::WordPiece(tokenizer, scratch) => tokenizer.tokenize(text, scratch, sink),
            Running::Unigram(tokenizer, scratch) => tokenizer.tokenize(text, scratch, sink),
            Running::Bpe(tokenizer, memory) => tokenizer.tokenize(text, memory, sink),
            Running::WordLevel(tokenizer, memory) => tokenizer.tokenize(text, memory, sink),
            #[cfg(feature = "tokenizers")]
            Running::HuggingFace(tokenizer) => return tokenizer.tokenize(text, sink),
        };
        Ok(())
    }
}

/// How many entries have which length in code points.
#[derive(Clone, Debug)]
struct Lengths {
    /// How many entries have each length below [`LONG`].
    short: [usize; LONG],
    /// The same of longer entries.
    long: BTreeMap<usize, usize>,
    entries: usize,
}

/// Entries from this length on are rare. A list of all lengths would be as long as the longest entry,
/// which a file may make as long as it likes.
const LONG: usize = 64;

impl Default for Lengths {
    fn default() -> Self {
        Self { short: [0; LONG], long: BTreeMap::new(), entries: 0 }
    }
}

impl Lengths {
    fn add(&mut self, entry: &str) {
        let length = code_points(entry.as_bytes());
        match self.short.get_mut(length) {
            Some(count) => *count += 1,
            None => *self.long.entry(length).or_default() += 1,
        }
        self.entries += 1;
    }

    /// The median as `int(numpy.median(lengths))` gives it: of an even number of entries the mean of
    /// the two in the middle, rounded down.
    fn median(&self) -> usize {
        let Some(last) = self.entries.checked_sub(1) else { return 0 };
        usize::midpoint(self.at(last / 2), self.at(self.entries / 2))
    }

    /// The length of the entry at a place in the order of lengths.
    fn at(&self, place: usize) -> usize {
        let mut entries = 0;
        let short = self.short.iter().copied().enumerate();
        let long = self.long.iter().map(|(&length, &count)| (length, count));
        short
            .chain(long)
            .find(|(_, count)| {
                entries += count;
                entries > place
            })
            .map_or(0, |(length, _)| length)
    }
}

/// The number of code points in a text: its bytes that do not continue one, eight at a time.
fn code_points(text: &[u8]) -> usize {
    let (eights, rest) = text.as_chunks::<8>();
    let continuing: u32 = eights
        .iter()
        .map(|eight| {
            let bits = u64::from_le_bytes(*eight);
            (bits & !bits << 1 & 0x8080_8080_8080_8080).count_ones()
        })
        .sum();
    let continuing = continuing as usize + rest.iter().filter(|&&byte| byte >> 6 == 0b10).count();
    text.len() - continuing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_count_averages_the_two_middle_values() {
        let median = |lengths: &[usize]| {
            let mut all = Lengths::default();
            for &length in lengths {
                all.add(&"é".repeat(length));
            }
            all.median()
        };
        assert_eq!(median(&[9, 1, 4]), 4);
        assert_eq!(median(&[9, 1, 4, 5]), 4, "4.5, rounded down");
        assert_eq!(median(&[2, 4]), 3);
        assert_eq!(median(&[0, 0, 7]), 0);
        assert_eq!(median(&[100_000, 90, 3, 4000]), 2045);
        assert_eq!(median(&[]), 0);
    }

    #[test]
    fn code_points_are_those_of_the_text() {
        for text in ["", "a", "é", "abcdefgh", "abcdefgé", "▁ab\u{1F600}c▁▁é", &"é▁a".repeat(9)]
        {
            assert_eq!(code_points(text.as_bytes()), text.chars().count(), "{text}");
        }
    }
}
