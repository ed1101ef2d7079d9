//! A byte-level BPE, of which no model is published that could be given: trained on the corpus itself.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{PreTokenizerWrapper, Tokenizer};

use super::inputs::{Corpus, Model};
use super::write;

/// Pieces of the vocabulary.
const PIECES: usize = 30_000;

/// Width of the table.
const DIM: usize = 256;

/// Trains on the lines of a corpus and writes a model into a folder below `folder`.
pub(super) fn train(corpus: &Corpus, folder: &Path) -> Result<Model> {
    eprintln!("training a byte-level BPE of {PIECES} pieces on {}", corpus.name);
    write_model(&fs::read_to_string(&corpus.path)?, &folder.join("byte-level-bpe-30k"), PIECES)
}

fn write_model(text: &str, folder: &Path, pieces: usize) -> Result<Model> {
    let mut tokenizer = Tokenizer::new(BPE::default());
    let byte_level = ByteLevel::new(false, true, true);
    tokenizer.with_pre_tokenizer(Some(PreTokenizerWrapper::ByteLevel(byte_level)));
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    let trainer = BpeTrainer::builder()
        .vocab_size(pieces)
        .show_progress(false)
        .initial_alphabet(alphabet.into_iter().collect())
        .build();
    tokenizer
        .train(&mut TrainerWrapper::BpeTrainer(trainer), text.lines())
        .map_err(|error| anyhow!(error))?;
    let json = tokenizer.to_string(false).map_err(|error| anyhow!(error))?;
    write::model(folder, &json, tokenizer.get_vocab_size(true), DIM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::inputs::Kind;
    use crate::ci::target_folder;

    #[test]
    fn a_trained_model_is_read_as_bpe() -> Result<()> {
        let folder = target_folder().join("tmp").join("trained-bpe");
        let model = write_model("the quick brown fox\nthe lazy dog\n", &folder, 270)?;
        assert_eq!((model.kind, model.name.as_str()), (Kind::Bpe, "trained-bpe"));
        Ok(())
    }
}
