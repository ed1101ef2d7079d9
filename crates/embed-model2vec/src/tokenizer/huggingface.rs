//! Tokenizing through the `tokenizers` crate: any pipeline that it can read.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use embed_core::Error;
use tokenizers::models::ModelWrapper;

use super::{IdSink, Lengths, Vocabulary, missing_unknown};
use crate::bundle::BundleFile;
use crate::error::LoadError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A `tokenizers` pipeline, set up to give the plain ids of a text.
#[derive(Debug)]
pub(super) struct HuggingFace {
    tokenizer: tokenizers::Tokenizer,
    /// An id that stands for "no token" and is left out: see `missing_unknown.rs`.
    placeholder: Option<u32>,
}

/// An error of the `tokenizers` crate while encoding.
#[derive(Debug, thiserror::Error)]
#[error("the tokenizer failed on a text")]
struct TokenizeError(#[source] BoxError);

impl HuggingFace {
    pub(super) fn load_file(file: &BundleFile) -> Result<(Self, Vocabulary), LoadError> {
        // The parser is foreign code over a foreign file: a panic in it is a bad file, not our end.
        catch_unwind(AssertUnwindSafe(|| Self::load(&file.bytes)))
            .unwrap_or_else(|_| Err("the parser panicked".into()))
            .map_err(|source| LoadError::Tokenizer { path: file.path.clone(), source })
    }

    pub(super) fn load(json: &[u8]) -> Result<(Self, Vocabulary), BoxError> {
        let Parsed { mut tokenizer, entries, size, unk_id, placeholder } = Parsed::read(json)?;
        let file_max_length = tokenizer.get_truncation().map(|truncation| truncation.max_length);
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None)?;
        tokenizer.with_post_processor(None::<tokenizers::PostProcessorWrapper>);

        let mut lengths = Lengths::default();
        for entry in entries.keys() {
            lengths.add(entry);
        }
        let median_chars = lengths.median();
        let facts = Vocabulary { size, unk_id, median_chars, file_max_length };
        Ok((Self { tokenizer, placeholder }, facts))
    }

    pub(super) fn implementation(&self) -> &'static str {
        match self.tokenizer.get_model() {
            ModelWrapper::WordPiece(_) => "WordPiece, through the tokenizers crate",
            ModelWrapper::WordLevel(_) => "WordLevel, through the tokenizers crate",
            ModelWrapper::BPE(_) => "BPE, through the tokenizers crate",
            ModelWrapper::Unigram(_) => "Unigram, through the tokenizers crate",
        }
    }

    pub(super) fn tokenize(&self, text: &str, sink: &mut impl IdSink) -> Result<(), Error> {
        // A model file can bring the foreign code to panic on a text: the text fails, we do not.
        let encoding = catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast(text, false)))
            .unwrap_or_else(|_| Err("the tokenizer panicked".into()))
            .map_err(|source| Error::backend(TokenizeError(source)))?;
        for &id in encoding.get_ids() {
            if Some(id) != self.placeholder && sink.push(id) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// A tokenizer file as it is, but deterministic and never refusing a text.
pub(crate) struct Parsed {
    pub(crate) tokenizer: tokenizers::Tokenizer,
    /// Entries of the vocabulary in the file, added tokens included.
    pub(crate) entries: HashMap<String, u32>,
    /// One more than the largest id of an entry.
    size: usize,
    unk_id: Option<u32>,
    /// An id that stands for "no token": see `missing_unknown.rs`.
    pub(crate) placeholder: Option<u32>,
}

impl Parsed {
    pub(super) fn read(json: &[u8]) -> Result<Self, BoxError> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(json)?;
        without_dropout(&mut tokenizer);
        let entries = tokenizer.get_vocab(true);
        let size = entries.values().max().map_or(0, |&largest| largest as usize + 1);
        let unknown = missing_unknown::find(&tokenizer)?;
        let placeholder = if unknown.model_fails {
            Some(missing_unknown::supply(&mut tokenizer, size)?)
        } else {
            None
        };
        Ok(Self { tokenizer, entries, size, unk_id: unknown.id, placeholder })
    }
}

/// Parses a tokenizer for the reference, which uses nothing else of these modules.
#[cfg(feature = "tokenizers")]
pub(crate) fn parse(file: &BundleFile) -> Result<Parsed, LoadError> {
    Parsed::read(&file.bytes)
        .map_err(|source| LoadError::Tokenizer { path: file.path.clone(), source })
}

/// Dropout is a device of training: with it, the same text would give other ids each time.
fn without_dropout(tokenizer: &mut tokenizers::Tokenizer) {
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        tokenizer.with_model(model);
    }
}
