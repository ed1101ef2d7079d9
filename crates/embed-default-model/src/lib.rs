//! The default model of **embed** as bytes: a program that links this crate needs no file.
//!
//! The model is a 256-dimensional static table for English, trained to imitate the sentence vectors
//! of all-MiniLM-L6-v2 and stored as int8 rows with one `f32` scale for each row (8.1 MB). It is
//! licensed under the Apache License 2.0: see `LICENSE` and `NOTICE` beside this crate's manifest.
//!
//! Text in other scripts than Latin is unknown to its vocabulary, or spelled out letter by letter.
#![forbid(unsafe_code)]

/// The model's name in messages.
pub const NAME: &str = "default-en-256";

/// BLAKE3 identity of the bundle, as `embed-model2vec` computes it (a test there compares them).
pub const MODEL_ID: &str = "bc42f1d9713ae2c6069745cea5b8fab55bd3e14d72c77c91831be2cc6f095e78";

/// `config.json`.
pub const CONFIG: &[u8] = include_bytes!("../model/config.json");

/// `modules.json`.
pub const MODULES: &[u8] = include_bytes!("../model/modules.json");

/// `tokenizer.json`: BERT WordPiece with 29,525 entries.
pub const TOKENIZER: &[u8] = include_bytes!("../model/tokenizer.json");

/// `model.safetensors`: `embeddings` I8 `[29525, 256]` and `weights` F32 `[29525]`.
///
/// The table begins where a line of the processor's cache begins, so that no row needs one line more.
pub const WEIGHTS: &[u8] = &PLACED.file;

static PLACED: Placed<{ include_bytes!("../model/model.safetensors").len() }> =
    Placed { before: [0; 44], file: *include_bytes!("../model/model.safetensors") };

/// A file at a chosen distance from the beginning of a cache line.
#[repr(C, align(64))]
struct Placed<const LEN: usize> {
    before: [u8; 44],
    file: [u8; LEN],
}

// What precedes the table in the file: the length of the header, the header, and the scales.
const _: () = {
    let (header_length, _) = WEIGHTS.split_first_chunk().expect("a safetensors file");
    let header_length = u64::from_le_bytes(*header_length);
    assert!((44 + 8 + header_length + 4 * 29_525).is_multiple_of(64));
};
