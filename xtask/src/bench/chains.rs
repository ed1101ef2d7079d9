//! A vocabulary that makes greedy matching quadratic, where each failed match is tried again one letter on.
//!
//! WordPiece takes the longest piece at each place. Pieces of one letter many times over and then another
//! let a match go on to the end of a run and fail there; all that it finds is a single letter, and the next
//! match goes over the same run. A word is at most 100 letters long, which bounds what can be lost.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::inputs::{Corpus, Model};
use super::write;

/// The longest word that has pieces.
const LETTERS: usize = 100;

/// Bytes of text, in one line: a text may have a mebibyte.
const BYTES: usize = 1_000_000;

/// Letters other than those of the chains.
const OTHERS: &[u8] = b"bdefghijklmnopqrstuvwxyz";

/// The model and its text.
pub(super) struct Chains {
    pub(super) model: Model,
    pub(super) corpus: Corpus,
}

impl Chains {
    pub(super) fn write(folder: &Path) -> Result<Self> {
        let (tokenizer, rows) = tokenizer();
        let model = write::model(folder, &tokenizer.to_string(), rows, 8)?;
        let path = folder.join("words.txt");
        fs::write(&path, text()).with_context(|| format!("writing {}", path.display()))?;
        Ok(Self { model, corpus: Corpus::read(&path)? })
    }
}

/// A WordPiece tokenizer, and how many pieces it has.
fn tokenizer() -> (Value, usize) {
    let mut pieces: Vec<String> = ["[PAD]", "[UNK]"].map(str::to_owned).into();
    for letter in 'a'..='z' {
        pieces.push(letter.to_string());
        pieces.push(format!("##{letter}"));
    }
    for count in 1..LETTERS {
        let run = "a".repeat(count);
        pieces.push(format!("##{run}c"));
        if count > 1 {
            pieces.push(run);
        }
    }
    let rows = pieces.len();
    let vocabulary: Map<String, Value> =
        pieces.into_iter().enumerate().map(|(id, piece)| (piece, id.into())).collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": null,
            "lowercase": true,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": LETTERS,
            "vocab": vocabulary,
        },
    });
    (tokenizer, rows)
}

/// Words of 100 letters, each another one: two letters that break a run, wherever they can stand.
fn text() -> String {
    let mut text = String::with_capacity(BYTES + LETTERS);
    let places = LETTERS - 2;
    let mut number = 0;
    while text.len() + LETTERS < BYTES {
        let (first, rest) = (OTHERS[number % OTHERS.len()], number / OTHERS.len());
        let (second, rest) = (OTHERS[rest % OTHERS.len()], rest / OTHERS.len());
        // The longest runs first: the place of the first letter moves in from the beginning.
        let before = rest % places;
        let after = places - before;
        let _ = write!(
            text,
            "{}{}{}{} ",
            "a".repeat(before),
            char::from(first),
            "a".repeat(after),
            char::from(second)
        );
        number += 1;
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use embed_core::{EncodeOptions, MaxLength, Tokens as _};
    use embed_model2vec::StaticModel;

    use super::*;
    use crate::ci::target_folder;

    #[test]
    fn every_word_is_another_one_and_as_long_as_words_may_be() {
        let text = text();
        let words: Vec<&str> = text.split(' ').collect();
        assert!(text.len() <= BYTES && text.len() + 2 * LETTERS > BYTES);
        assert!(words.iter().all(|word| word.len() == LETTERS));
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
    }

    #[test]
    fn chains_lead_to_single_letters() -> Result<()> {
        let chains = Chains::write(&target_folder().join("tmp").join("chains"))?;
        let model = StaticModel::open(&chains.model.folder)?;
        let options = EncodeOptions::default().with_max_length(MaxLength::Unlimited);
        let mut ids = Vec::new();
        model.token_ids("baaaad aaac baac", &options, &mut ids)?;
        // b ##a ##a ##a ##a ##d, aaa ##c, b ##aac
        assert_eq!(ids.len(), 6 + 2 + 2);
        Ok(())
    }
}
