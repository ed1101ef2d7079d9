//! How a text becomes a row: the options of one call, and the profiles that preset them.
//!
//! Every combination that the types allow is a valid one; a limit of zero tokens or zero dimensions
//! cannot be written down. The options are `Eq + Hash`, so that a batcher can group calls by them.

use std::num::NonZeroUsize;

/// How many tokens of a text count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaxLength {
    /// What the model's configuration says (for Model2Vec: `max_length`, 512 if absent).
    #[default]
    Model,
    /// No limit.
    Unlimited,
    /// At most this many tokens, unknown ones included.
    Tokens(NonZeroUsize),
    /// What the tokenizer file's own `truncation` section asks for; no limit if it has none.
    Tokenizer,
}

/// What happens to a text that is longer than the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// It is cut, and its row info says so.
    #[default]
    Cut,
    /// It is refused with [`Error::TooLong`](crate::Error::TooLong), and with it the whole call.
    Error,
}

/// Whether rows are scaled to length 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Normalize {
    /// What the model's configuration says.
    #[default]
    Model,
    /// Always.
    Yes,
    /// Never: the plain mean of the token rows.
    No,
}

/// How a division by zero is avoided when a row is normalized.
///
/// A zero row stays zero under both, and a row with a NaN stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NormGuard {
    /// `x / (||x|| + 1e-32)`, as Python model2vec does.
    #[default]
    AddTiny,
    /// `x / max(||x||, 1e-12)`, as `torch.nn.functional.normalize` does.
    ClampTiny,
}

/// What happens to tokens that the vocabulary does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownTokens {
    /// They count against the token limit but not in the mean.
    #[default]
    Drop,
    /// They are averaged like any other token.
    Keep,
}

/// Whether a long text is cut to a number of characters before it is tokenized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precut {
    /// To `max_length` times the median length of a vocabulary entry, in Unicode code points.
    ///
    /// Does nothing where there is no token limit.
    #[default]
    MedianLength,
    /// Never.
    Off,
}

/// The options of one call. `EncodeOptions::default()` is the `model2vec` profile.
///
/// ```
/// use std::num::NonZeroUsize;
/// use embed_core::{EncodeOptions, MaxLength, Normalize};
///
/// let options = EncodeOptions::model2vec()
///     .with_max_length(MaxLength::Unlimited)
///     .with_normalize(Normalize::No)
///     .with_dims(NonZeroUsize::new(64));
/// assert_eq!(options.max_length, MaxLength::Unlimited);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EncodeOptions {
    /// How many tokens of a text count.
    pub max_length: MaxLength,
    /// What happens to longer texts.
    pub overflow: Overflow,
    /// Whether rows are scaled to length 1.
    pub normalize: Normalize,
    /// How normalizing treats tiny rows.
    pub norm_guard: NormGuard,
    /// What happens to unknown tokens.
    pub unknown: UnknownTokens,
    /// Whether long texts are cut by characters first.
    pub precut: Precut,
    /// Keep only the first so many dimensions (cut before normalizing); `None` keeps all.
    pub dims: Option<NonZeroUsize>,
}

impl EncodeOptions {
    /// The rules of Python model2vec: the default.
    pub fn model2vec() -> Self {
        Self::default()
    }

    /// The rules of the Osaurus batching design: no limit, and the clamping norm guard.
    pub fn osaurus() -> Self {
        Self {
            max_length: MaxLength::Unlimited,
            norm_guard: NormGuard::ClampTiny,
            precut: Precut::Off,
            ..Self::default()
        }
    }

    /// The rules of sentence-transformers' `StaticEmbedding`: no pre-cut, a limit only if the
    /// tokenizer file has one, unknown tokens averaged, and the clamping norm guard.
    pub fn sentence_transformers() -> Self {
        Self {
            max_length: MaxLength::Tokenizer,
            norm_guard: NormGuard::ClampTiny,
            unknown: UnknownTokens::Keep,
            precut: Precut::Off,
            ..Self::default()
        }
    }

    /// The same options with another token limit.
    #[must_use]
    pub fn with_max_length(self, max_length: MaxLength) -> Self {
        Self { max_length, ..self }
    }

    /// The same options with another treatment of long texts.
    #[must_use]
    pub fn with_overflow(self, overflow: Overflow) -> Self {
        Self { overflow, ..self }
    }

    /// The same options with normalizing set.
    #[must_use]
    pub fn with_normalize(self, normalize: Normalize) -> Self {
        Self { normalize, ..self }
    }

    /// The same options with another guard against tiny norms.
    #[must_use]
    pub fn with_norm_guard(self, norm_guard: NormGuard) -> Self {
        Self { norm_guard, ..self }
    }

    /// The same options with the pre-cut set.
    #[must_use]
    pub fn with_precut(self, precut: Precut) -> Self {
        Self { precut, ..self }
    }

    /// The same options with another treatment of unknown tokens.
    #[must_use]
    pub fn with_unknown(self, unknown: UnknownTokens) -> Self {
        Self { unknown, ..self }
    }

    /// The same options with the number of kept dimensions set; `None` keeps all.
    #[must_use]
    pub fn with_dims(self, dims: Option<NonZeroUsize>) -> Self {
        Self { dims, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_differ_from_the_default_only_where_they_say() {
        let default = EncodeOptions::default();
        assert_eq!(EncodeOptions::model2vec(), default);

        let osaurus = EncodeOptions::osaurus();
        assert_eq!(osaurus.max_length, MaxLength::Unlimited);
        assert_eq!(osaurus.norm_guard, NormGuard::ClampTiny);
        assert_eq!((osaurus.unknown, osaurus.normalize), (default.unknown, default.normalize));

        let torch = EncodeOptions::sentence_transformers();
        assert_eq!(torch.max_length, MaxLength::Tokenizer);
        assert_eq!((torch.unknown, torch.precut), (UnknownTokens::Keep, Precut::Off));
    }
}
