//! What part of a text counts: the pre-cut, the token limit and unknown tokens.
//!
//! The rules, in order (those of Python model2vec; [`EncodeOptions`] can change each of them):
//!
//! 1. If there is a token limit, the text is first cut to `limit * median` Unicode code points, where
//!    `median` is the median length of a vocabulary entry. The cut may split a word.
//! 2. Of the ids, the first `limit` count, unknown ones included.
//! 3. Of those, unknown ids are left out of the mean.
//!
//! Every input passes through here exactly once, whatever consumes the ids.

use std::ops::ControlFlow;

use embed_core::{EncodeOptions, MaxLength, Overflow, Precut, RowInfo, UnknownTokens};

use crate::config::ModelConfig;
use crate::tokenizer::{IdSink, Vocabulary};

/// The options of a call with the model's own defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Tokens that count.
    max_tokens: Option<usize>,
    /// Code points that are tokenized at all.
    max_chars: Option<usize>,
    unk_id: Option<u32>,
    /// Whether unknown ids are left out.
    drops_unknown: bool,
    overflow: Overflow,
}

impl Limits {
    pub(crate) fn new(
        options: &EncodeOptions,
        config: &ModelConfig,
        vocabulary: &Vocabulary,
    ) -> Self {
        let max_tokens = match options.max_length {
            MaxLength::Model => config.max_length.map(std::num::NonZero::get),
            MaxLength::Unlimited => None,
            MaxLength::Tokens(limit) => Some(limit.get()),
            MaxLength::Tokenizer => vocabulary.file_max_length,
        };
        let max_chars = match options.precut {
            Precut::MedianLength => {
                max_tokens.map(|limit| limit.saturating_mul(vocabulary.median_chars))
            }
            Precut::Off => None,
        };
        Self {
            max_tokens,
            max_chars,
            unk_id: vocabulary.unk_id,
            drops_unknown: options.unknown == UnknownTokens::Drop,
            overflow: options.overflow,
        }
    }

    /// Code points of a text that are tokenized at all; `None` means all of them.
    pub(crate) fn max_chars(&self) -> Option<usize> {
        self.max_chars
    }

    /// The part of `text` that is tokenized, and whether anything was cut off.
    pub(crate) fn precut<'t>(&self, text: &'t str) -> (&'t str, bool) {
        match self.max_chars {
            // A code point has at least one byte: short texts are decided without looking at them.
            Some(max_chars) if text.len() > max_chars => match text.char_indices().nth(max_chars) {
                Some((end, _)) => (&text[..end], true),
                None => (text, false),
            },
            _ => (text, false),
        }
    }

    /// A filter that applies the token rules on the way into `sink`.
    ///
    /// `already_cut` says that the pre-cut took something away.
    pub(crate) fn filter<'s, S: IdSink>(
        &self,
        sink: &'s mut S,
        already_cut: bool,
    ) -> Filter<'s, S> {
        // No text has that many tokens.
        let limit = self.max_tokens.unwrap_or(usize::MAX);
        Filter {
            sink,
            unk_id: self.unk_id,
            drops_unknown: self.drops_unknown,
            left: limit,
            limit,
            unknown: 0,
            truncated: already_cut,
        }
    }

    /// The token limit, if `info` is of an input that had to be shortened and must not be.
    pub(crate) fn violation(&self, info: &RowInfo) -> Option<usize> {
        match self.overflow {
            Overflow::Error if info.truncated => self.max_tokens,
            Overflow::Error | Overflow::Cut => None,
        }
    }
}

/// Counts ids, stops at the limit and leaves out the unknown ones.
///
/// The sink behind it takes all ids: it never breaks off, or more would be counted than it has taken.
pub(crate) struct Filter<'s, S> {
    sink: &'s mut S,
    unk_id: Option<u32>,
    drops_unknown: bool,
    /// How many more tokens count.
    left: usize,
    limit: usize,
    unknown: usize,
    truncated: bool,
}

impl<S> Filter<'_, S> {
    /// What became of the input, once all its ids were pushed.
    pub(crate) fn info(&self) -> RowInfo {
        let Self { left, limit, unknown, truncated, .. } = *self;
        let tokens = limit - left;
        let dropped = if self.drops_unknown { unknown } else { 0 };
        RowInfo { tokens, kept: tokens - dropped, unknown, truncated }
    }
}

impl<S: IdSink> IdSink for Filter<'_, S> {
    #[inline]
    fn push(&mut self, id: u32) -> ControlFlow<()> {
        if self.left == 0 {
            self.truncated = true;
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if Some(id) == self.unk_id {
            self.unknown += 1;
            if self.drops_unknown {
                return ControlFlow::Continue(());
            }
        }
        self.sink.push(id)
    }

    #[inline]
    fn push_all(&mut self, ids: &[u32]) -> ControlFlow<()> {
        // Counted, not searched for: a loop without an exit compares many at once.
        let unknown = ids.iter().filter(|&&id| Some(id) == self.unk_id).count();
        if unknown > 0 || ids.len() > self.left {
            return ids.iter().try_for_each(|&id| self.push(id));
        }
        self.left -= ids.len();
        self.sink.push_all(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const VOCABULARY: Vocabulary =
        Vocabulary { size: 100, unk_id: Some(1), median_chars: 3, file_max_length: Some(5) };
    const CONFIG: ModelConfig = ModelConfig { max_length: NonZeroUsize::new(4), normalize: false };

    fn limits(options: &EncodeOptions) -> Limits {
        Limits::new(options, &CONFIG, &VOCABULARY)
    }

    #[track_caller]
    fn check_ids(options: &EncodeOptions, ids: &[u32], kept: &[u32], info: (usize, usize, bool)) {
        let mut sink = Vec::new();
        let mut filter = limits(options).filter(&mut sink, false);
        let _ = ids.iter().try_for_each(|&id| filter.push(id));
        let found = filter.info();
        assert_eq!((found.tokens, found.unknown, found.truncated), info);
        assert_eq!(found.kept, kept.len());
        assert_eq!(sink, kept);
    }

    #[test]
    fn unknown_ids_count_against_the_limit_before_they_are_dropped() {
        let default = EncodeOptions::default();
        check_ids(&default, &[7, 1, 8, 1, 9], &[7, 8], (4, 2, true));
        check_ids(&default, &[7, 1, 8, 1], &[7, 8], (4, 2, false));
        check_ids(&default, &[], &[], (0, 0, false));
    }

    #[test]
    fn each_kind_of_limit_is_obeyed() {
        let with = |limit| EncodeOptions::default().with_max_length(limit);
        let ids = [2, 3, 4, 5, 6, 7];
        check_ids(&with(MaxLength::Model), &ids, &[2, 3, 4, 5], (4, 0, true));
        check_ids(&with(MaxLength::Unlimited), &ids, &ids, (6, 0, false));
        check_ids(&with(MaxLength::Tokens(NonZeroUsize::MIN)), &ids, &[2], (1, 0, true));
        check_ids(&with(MaxLength::Tokenizer), &ids, &[2, 3, 4, 5, 6], (5, 0, true));
    }

    #[test]
    fn the_sentence_transformers_profile_keeps_unknown_ids() {
        let profile = EncodeOptions::sentence_transformers();
        check_ids(&profile, &[7, 1, 8], &[7, 1, 8], (3, 1, false));
    }

    #[track_caller]
    fn check_precut(options: &EncodeOptions, text: &str, expected: &str) {
        let (cut, shortened) = limits(options).precut(text);
        assert_eq!((cut, shortened), (expected, expected.len() < text.len()));
    }

    #[test]
    fn the_precut_counts_code_points() {
        let default = EncodeOptions::default();
        check_precut(&default, "äöüäöüäöüäöü", "äöüäöüäöüäöü");
        check_precut(&default, "äöüäöüäöüäöüx", "äöüäöüäöüäöü");
        check_precut(&default, "", "");
        let unlimited = default.with_max_length(MaxLength::Unlimited);
        check_precut(&unlimited, "0123456789012345", "0123456789012345");
        check_precut(&EncodeOptions::sentence_transformers(), "0123456789", "0123456789");
    }

    #[test]
    fn a_violation_needs_both_a_cut_and_the_strict_option() {
        let cut = RowInfo { truncated: true, ..RowInfo::default() };
        let strict = limits(&EncodeOptions::default().with_overflow(Overflow::Error));
        assert_eq!(strict.violation(&cut), Some(4));
        assert_eq!(strict.violation(&RowInfo::default()), None);
        assert_eq!(limits(&EncodeOptions::default()).violation(&cut), None);
    }
}
