//! What can go wrong between a caller and an embedder.
//!
//! The error is `Clone`: when a batch of many callers fails, each of them gets the same error, and
//! a backend's own error stays reachable behind it by downcasting.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error of [`Embedder`](crate::Embedder) or of the types of this crate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The output buffer does not hold exactly one row for each input.
    OutputLength {
        /// Number of inputs times number of dimensions.
        expected: usize,
        /// Length of the buffer that was passed.
        found: usize,
    },
    /// The row-info buffer does not hold exactly one entry for each input.
    InfoLength {
        /// Number of inputs.
        expected: usize,
        /// Length of the buffer that was passed.
        found: usize,
    },
    /// A flat buffer cannot be cut into rows of the given width.
    Shape {
        /// Length of the flat buffer.
        values: usize,
        /// Width of a row.
        dim: usize,
    },
    /// The options ask for more dimensions than the model has.
    Dimensions {
        /// What the options ask for.
        requested: usize,
        /// The width of the model.
        available: usize,
    },
    /// An input would have to be shortened and [`Overflow::Error`](crate::Overflow::Error) forbids it.
    TooLong {
        /// Index of the input in the call.
        input: usize,
        /// The limit in tokens.
        max_length: usize,
    },
    /// A text is larger than the embedder takes in one piece.
    TextTooLarge {
        /// Index of the input in the call.
        input: usize,
        /// Size of the text, after the pre-cut.
        bytes: usize,
        /// The embedder's limit.
        limit: usize,
    },
    /// A token id that the vocabulary does not contain.
    IdOutOfRange {
        /// Index of the input in the call.
        input: usize,
        /// Position of the id in the input.
        position: usize,
        /// The id.
        id: u32,
        /// Ids from 0 up to but not including this one exist.
        vocabulary: usize,
    },
    /// The model behind the trait failed; the cause can be downcast.
    Backend(Arc<dyn StdError + Send + Sync>),
}

impl Error {
    /// Wraps an error of a backend.
    pub fn backend(error: impl StdError + Send + Sync + 'static) -> Self {
        Self::Backend(Arc::new(error))
    }

    /// The same error about another input; unchanged if it is about none.
    ///
    /// For layers that embed a text in other company than its caller did.
    #[must_use]
    pub fn with_input(mut self, index: usize) -> Self {
        if let Self::TooLong { input, .. }
        | Self::TextTooLarge { input, .. }
        | Self::IdOutOfRange { input, .. } = &mut self
        {
            *input = index;
        }
        self
    }

    /// Index of the input that the error is about, if it is about one.
    pub fn input(&self) -> Option<usize> {
        match self {
            Self::TooLong { input, .. }
            | Self::TextTooLarge { input, .. }
            | Self::IdOutOfRange { input, .. } => Some(*input),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputLength { expected, found } => write!(
                f,
                "the output buffer holds {found} values, expected {expected} (inputs x dimensions)"
            ),
            Self::InfoLength { expected, found } => write!(
                f,
                "the row info buffer holds {found} entries, expected {expected} (one for each input)"
            ),
            Self::Shape { values, dim } => {
                write!(f, "{values} values cannot be cut into rows of {dim}")
            }
            Self::Dimensions { requested, available } => {
                write!(f, "{requested} dimensions requested, the model has {available}")
            }
            Self::TooLong { input, max_length } => {
                write!(f, "input {input} is longer than max_length = {max_length} tokens")
            }
            Self::TextTooLarge { input, bytes, limit } => {
                write!(f, "input {input} is {bytes} bytes, the limit for one text is {limit} bytes")
            }
            Self::IdOutOfRange { input, position, id, vocabulary } => write!(
                f,
                "input {input}: id {id} at position {position} is outside the vocabulary of {vocabulary}"
            ),
            Self::Backend(_) => f.write_str("the embedding backend failed"),
        }
    }
}

// By hand, because the source must be the backend's error itself and not the `Arc` around it:
// only then can a caller downcast it.
impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Backend(cause) => Some(&**cause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct OutOfTea;

    impl fmt::Display for OutOfTea {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("out of tea")
        }
    }

    impl StdError for OutOfTea {}

    #[test]
    fn a_cloned_backend_error_keeps_its_cause() {
        let error = Error::backend(OutOfTea).clone();
        let source = error.source().expect("a backend error has a source");
        assert_eq!(source.downcast_ref::<OutOfTea>(), Some(&OutOfTea));
        assert_eq!(source.to_string(), "out of tea");
    }

    #[test]
    fn messages_say_what_was_expected_and_found() {
        let error = Error::OutputLength { expected: 512, found: 511 };
        let text = "the output buffer holds 511 values, expected 512 (inputs x dimensions)";
        assert_eq!(error.to_string(), text);
    }
}
