//! The seams of **embed**: what an embedder is, what goes in and what comes out.
//!
//! This crate holds traits and plain types only. It knows no model, no file, no thread and no
//! runtime, and it contains no unsafe code, so that everything above it can be exchanged.
//!
//! | module | holds |
//! | --- | --- |
//! | [`embedder`] | [`Embedder`]: a batch of inputs to a batch of rows; [`Tokens`]: ids and counts |
//! | [`asynchronous`] | [`AsyncEmbedder`] for callers and implementors that await; [`embed_blocking`] |
//! | [`embeddings`] | [`Embeddings`]: one flat row-major buffer with row views |
//! | [`options`] | [`EncodeOptions`] and its three profiles |
//! | [`chunks`] | [`forward_chunk_ranges`]: a long batch in bounded pieces |
//! | [`similarity`] | [`cosine`]: how alike two rows are |
//! | [`error`] | [`Error`]: cloneable, so that one failure can reach every waiter of a batch |
//!
//! # Example
//!
//! An embedder is used in the same way whatever stands behind it:
//!
//! ```
//! use embed_core::{Embedder, Error};
//!
//! fn most_similar(model: &dyn Embedder, query: &str, texts: &[&str]) -> Result<Option<usize>, Error> {
//!     let query = model.embed(&[query])?;
//!     let rows = model.embed(texts)?;
//!     let score = |row: &[f32]| -> f32 { row.iter().zip(query.row(0)).map(|(a, b)| a * b).sum() };
//!     Ok((0..rows.len()).max_by(|&a, &b| score(rows.row(a)).total_cmp(&score(rows.row(b)))))
//! }
//! # let _ = most_similar;
//! ```
#![forbid(unsafe_code)]

pub mod asynchronous;
pub mod chunks;
pub mod embedder;
pub mod embeddings;
pub mod error;
pub mod options;
pub mod similarity;

pub use asynchronous::{AsyncEmbedder, BoxFuture, block_on, embed_blocking};
pub use chunks::forward_chunk_ranges;
pub use embedder::{Embedder, Input, RowInfo, Tokens};
pub use embeddings::Embeddings;
pub use error::Error;
pub use options::{
    EncodeOptions, MaxLength, NormGuard, Normalize, Overflow, Precut, UnknownTokens,
};
pub use similarity::cosine;
