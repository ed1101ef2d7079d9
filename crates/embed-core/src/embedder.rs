//! The synchronous, batch-first trait that every local model implements.

use crate::{Embeddings, EncodeOptions, Error};

/// One input of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input<'a> {
    /// A text, tokenized by the embedder.
    Text(&'a str),
    /// Token ids of the embedder's own vocabulary.
    Ids(&'a [u32]),
}

/// What became of one input on its way to a row.
///
/// Usage, zero-row and truncation counts come from here, never from tokenizing a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowInfo {
    /// Tokens of the input within the limit, unknown ones included.
    pub tokens: usize,
    /// Tokens that went into the mean. Zero means that the row is all zeros.
    pub kept: usize,
    /// Tokens among `tokens` that the vocabulary does not know.
    pub unknown: usize,
    /// Whether a part of the input was cut off by the limit or by the pre-cut.
    pub truncated: bool,
}

/// Turns batches of inputs into rows of a fixed width.
///
/// The trait is object-safe and synchronous: a call runs on the caller's thread until the rows are
/// there. A batch is the base case, a single text is a batch of one, and the row of an input does
/// not depend on what else is in the batch.
pub trait Embedder: Send + Sync {
    /// The width of a row when [`EncodeOptions::dims`] is `None`; at least 1.
    fn dim(&self) -> usize;

    /// A name for the exact model: two embedders with equal ids give equal rows.
    fn model_id(&self) -> &str;

    /// Writes one row for each input into `out` (`[inputs, dim]`, row-major) and what became of it
    /// into `info`.
    ///
    /// # Errors
    ///
    /// [`Error::OutputLength`] or [`Error::InfoLength`] if a buffer has the wrong length, and what
    /// the embedder itself reports. After an error the contents of both buffers are unspecified.
    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), Error>;

    /// The width of a row under `options`.
    ///
    /// # Errors
    ///
    /// [`Error::Dimensions`] if the options ask for more dimensions than the model has.
    fn output_dim(&self, options: &EncodeOptions) -> Result<usize, Error> {
        let available = self.dim();
        match options.dims.map(std::num::NonZero::get) {
            None => Ok(available),
            Some(requested) if requested <= available => Ok(requested),
            Some(requested) => Err(Error::Dimensions { requested, available }),
        }
    }

    /// Embeds texts under `options` into a fresh buffer.
    ///
    /// # Errors
    ///
    /// Those of [`embed_into`](Self::embed_into), less the buffer lengths.
    fn embed_with(&self, texts: &[&str], options: &EncodeOptions) -> Result<Embeddings, Error> {
        self.embed_with_info(texts, options).map(|(rows, _)| rows)
    }

    /// Embeds texts under `options` and says what became of each.
    ///
    /// # Errors
    ///
    /// Those of [`embed_with`](Self::embed_with).
    fn embed_with_info(
        &self,
        texts: &[&str],
        options: &EncodeOptions,
    ) -> Result<(Embeddings, Vec<RowInfo>), Error> {
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
        let dim = self.output_dim(options)?;
        let mut values = vec![0.0; inputs.len() * dim];
        let mut info = vec![RowInfo::default(); inputs.len()];
        self.embed_into(&inputs, options, &mut values, &mut info)?;
        Ok((Embeddings::new(values, dim)?, info))
    }

    /// Embeds texts under the default options.
    ///
    /// # Errors
    ///
    /// Those of [`embed_with`](Self::embed_with).
    fn embed(&self, texts: &[&str]) -> Result<Embeddings, Error> {
        self.embed_with(texts, &EncodeOptions::default())
    }
}

/// Token ids and token counts, apart from embedding.
pub trait Tokens: Send + Sync {
    /// Appends the ids that an [`Embedder`] would average for `text` and says what became of it.
    ///
    /// # Errors
    ///
    /// As [`Embedder::embed_into`] for the one input.
    fn token_ids(
        &self,
        text: &str,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<RowInfo, Error>;

    /// Counts the tokens of `text` without keeping them.
    ///
    /// # Errors
    ///
    /// As [`token_ids`](Self::token_ids).
    fn count_tokens(&self, text: &str, options: &EncodeOptions) -> Result<RowInfo, Error>;

    /// Ids from 0 up to but not including this one exist.
    fn vocabulary_size(&self) -> usize;

    /// The token of an id, as it stands in the vocabulary; `None` if there is no such id, or if the
    /// vocabulary is not at hand.
    fn token(&self, id: u32) -> Option<&str> {
        let _ = id;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    /// Row = (number of bytes, 1).
    struct Lengths;

    impl Embedder for Lengths {
        fn dim(&self) -> usize {
            2
        }

        fn model_id(&self) -> &'static str {
            "lengths"
        }

        fn embed_into(
            &self,
            inputs: &[Input<'_>],
            options: &EncodeOptions,
            out: &mut [f32],
            _: &mut [RowInfo],
        ) -> Result<(), Error> {
            let dim = self.output_dim(options)?;
            for (input, row) in inputs.iter().zip(out.chunks_exact_mut(dim)) {
                let Input::Text(text) = input else { continue };
                row.copy_from_slice(&[text.len() as f32, 1.0][..dim]);
            }
            Ok(())
        }
    }

    #[test]
    fn works_as_a_trait_object() -> Result<(), Error> {
        let embedder: &dyn Embedder = &Lengths;
        assert_eq!(embedder.embed(&["a", "", "abc"])?.as_slice(), [1.0, 1.0, 0.0, 1.0, 3.0, 1.0]);
        assert!(embedder.embed(&[])?.is_empty());
        Ok(())
    }

    #[test]
    fn dims_beyond_the_model_are_refused() -> Result<(), Error> {
        let options = |dims| EncodeOptions::default().with_dims(NonZeroUsize::new(dims));
        assert_eq!(Lengths.embed_with(&["abc"], &options(1))?.as_slice(), [3.0]);
        let refused = Lengths.embed_with(&["abc"], &options(3));
        assert!(matches!(refused, Err(Error::Dimensions { requested: 3, available: 2 })));
        Ok(())
    }
}
