//! Any [`Embedder`] as a backend of texts.

use std::fmt;
use std::sync::Arc;

use embed_core::{Embedder, EncodeOptions, Input, MaxLength, RowInfo};

use crate::backend::{Backend, Cost, RowFault};
use crate::error::Error;

/// What a text costs at most, in tokens.
type TokenBound = Box<dyn Fn(&str, &EncodeOptions) -> usize + Send + Sync>;

/// An [`Embedder`] behind a batcher.
///
/// Rows must have the width of the options and finite values. A failure that names an input, and a row
/// that is not finite, is isolated: it reaches only the caller of that text.
pub struct EmbedderBackend {
    embedder: Arc<dyn Embedder>,
    bound: TokenBound,
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
    /// Counts a byte of text as a token, up to the token limit where the options state one.
    pub fn new(embedder: Arc<dyn Embedder>) -> Self {
        let bound = |text: &str, options: &EncodeOptions| match options.max_length {
            MaxLength::Tokens(limit) => text.len().min(limit.get()),
            _ => text.len(),
        };
        Self { embedder, bound: Box::new(bound) }
    }

    /// The same with another bound on the tokens of a text. It is called for every text, so it must be
    /// cheap; the closer it is, the better batches use their budget.
    #[must_use]
    pub fn with_token_bound(
        self,
        bound: impl Fn(&str, &EncodeOptions) -> usize + Send + Sync + 'static,
    ) -> Self {
        Self { bound: Box::new(bound), ..self }
    }

    /// The embedder.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }
}

impl fmt::Debug for EmbedderBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbedderBackend")
            .field("model_id", &self.embedder.model_id())
            .finish_non_exhaustive()
    }
}

impl Backend for EmbedderBackend {
    type Item = str;
    type Options = EncodeOptions;
    type Row = EmbeddedRow;
    type Error = embed_core::Error;

    fn cost(&self, text: &str, options: &EncodeOptions) -> Cost {
        Cost { tokens: (self.bound)(text, options), bytes: text.len() }
    }

    fn run(
        &self,
        texts: &[&str],
        options: &EncodeOptions,
    ) -> Result<Vec<EmbeddedRow>, Self::Error> {
        let dim = self.embedder.output_dim(options)?;
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
        let mut values = vec![0.0; texts.len() * dim];
        let mut info = vec![RowInfo::default(); texts.len()];
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
            Error::NotFinite { .. } => true,
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
