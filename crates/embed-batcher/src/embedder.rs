//! Any [`Embedder`] as a backend of texts, or of texts and token ids.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use embed_core::{Embedder, EncodeOptions, Input, MaxLength, RowInfo};

use crate::backend::{Backend, Cost, RowFault};
use crate::error::Error;

/// What an input costs at most, in tokens.
type TokenBound = Box<dyn Fn(Input<'_>, &EncodeOptions) -> usize + Send + Sync>;

/// What an [`EmbedderBackend`] can take as an item: `str`, or an [`OwnedInput`].
pub trait AsInput: Eq + Hash + Send + Sync + 'static {
    /// The item as an embedder sees it.
    fn as_input(&self) -> Input<'_>;
}

impl AsInput for str {
    fn as_input(&self) -> Input<'_> {
        Input::Text(self)
    }
}

/// An [`Input`] that owns what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnedInput {
    /// A text, tokenized by the embedder.
    Text(Box<str>),
    /// Token ids of the embedder's own vocabulary.
    Ids(Box<[u32]>),
}

impl AsInput for OwnedInput {
    fn as_input(&self) -> Input<'_> {
        match self {
            Self::Text(text) => Input::Text(text),
            Self::Ids(ids) => Input::Ids(ids),
        }
    }
}

impl AsRef<Self> for OwnedInput {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// An [`Embedder`] behind a batcher.
///
/// Rows must have the width of the options and finite values. A failure that names an input, a row that is
/// not finite, and a panic are isolated: they reach only the caller of that text.
pub struct EmbedderBackend<I: ?Sized = str> {
    embedder: Arc<dyn Embedder>,
    bound: TokenBound,
    item: PhantomData<fn(&I)>,
}

/// The row of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddedRow {
    /// The embedding.
    pub values: Arc<[f32]>,
    /// What became of the text on its way to it.
    pub info: RowInfo,
}

impl EmbedderBackend {
    /// A backend of texts. Counts a byte as a token, up to the token limit where the options state one.
    pub fn new(embedder: Arc<dyn Embedder>) -> Self {
        Self::of(embedder)
    }
}

impl EmbedderBackend<OwnedInput> {
    /// A backend of texts and of token ids, for callers who have both.
    pub fn of_inputs(embedder: Arc<dyn Embedder>) -> Self {
        Self::of(embedder)
    }
}

impl<I: ?Sized> EmbedderBackend<I> {
    fn of(embedder: Arc<dyn Embedder>) -> Self {
        let bound = |input: Input<'_>, options: &EncodeOptions| {
            let tokens = match input {
                Input::Text(text) => text.len(),
                Input::Ids(ids) => ids.len(),
            };
            match options.max_length {
                MaxLength::Tokens(limit) => tokens.min(limit.get()),
                _ => tokens,
            }
        };
        Self { embedder, bound: Box::new(bound), item: PhantomData }
    }

    /// The same with another bound on the tokens of an input. It is called for every input, so it must be
    /// cheap; the closer it is, the better batches use their budget.
    #[must_use]
    pub fn with_token_bound(
        self,
        bound: impl Fn(Input<'_>, &EncodeOptions) -> usize + Send + Sync + 'static,
    ) -> Self {
        Self { bound: Box::new(bound), ..self }
    }

    /// The embedder.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }
}

impl<I: ?Sized> fmt::Debug for EmbedderBackend<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbedderBackend")
            .field("model_id", &self.embedder.model_id())
            .finish_non_exhaustive()
    }
}

impl<I: AsInput + ?Sized> Backend for EmbedderBackend<I> {
    type Item = I;
    type Options = EncodeOptions;
    type Row = EmbeddedRow;
    type Error = embed_core::Error;

    fn cost(&self, item: &I, options: &EncodeOptions) -> Cost {
        let input = item.as_input();
        let bytes = match input {
            Input::Text(text) => text.len(),
            Input::Ids(ids) => size_of_val(ids),
        };
        Cost { tokens: (self.bound)(input, options), bytes }
    }

    fn run(&self, items: &[&I], options: &EncodeOptions) -> Result<Vec<EmbeddedRow>, Self::Error> {
        let dim = self.embedder.output_dim(options)?;
        let inputs: Vec<Input<'_>> = items.iter().map(|item| item.as_input()).collect();
        let mut values = vec![0.0; items.len() * dim];
        let mut info = vec![RowInfo::default(); items.len()];
        self.embedder.embed_into(&inputs, options, &mut values, &mut info)?;
        let rows = values.chunks_exact(dim).zip(info);
        Ok(rows.map(|(values, info)| EmbeddedRow { values: values.into(), info }).collect())
    }

    fn check(&self, row: &EmbeddedRow, options: &EncodeOptions) -> Result<(), RowFault> {
        // The options were accepted by `run`; a width that cannot be told is not checked.
        let expected = self.embedder.output_dim(options).unwrap_or(row.values.len());
        if row.values.len() != expected {
            return Err(RowFault::Width { expected, received: row.values.len() });
        }
        let not_finite = row.values.iter().position(|value| !value.is_finite());
        not_finite.map_or(Ok(()), |column| Err(RowFault::NotFinite { column }))
    }

    fn tokens(&self, row: &EmbeddedRow) -> Option<usize> {
        Some(row.info.tokens)
    }

    fn is_data_dependent(&self, error: &Error<Self::Error>) -> bool {
        match error {
            Error::Backend(error) => error.input().is_some(),
            // A panic of an embedder is as a rule about one text.
            Error::NotFinite { .. } | Error::Panicked { .. } => true,
            _ => false,
        }
    }

    fn relocate(&self, error: Self::Error, position: usize) -> Self::Error {
        error.with_input(position)
    }
}

/// The error of a batcher in the words of `embed-core`: an error of the embedder itself unchanged, any
/// other as its cause.
impl From<Error<embed_core::Error>> for embed_core::Error {
    fn from(error: Error<embed_core::Error>) -> Self {
        match error {
            Error::Backend(error) => error,
            other => Self::backend(other),
        }
    }
}
