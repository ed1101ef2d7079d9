//! From paths to rows: find files, read them as text, cut them into chunks, embed, write.
//!
//! ```text
//! paths --walk--> sources --stream--> text --chunk--> chunks --embedder--> rows --output--> file
//! ```
//!
//! Everything after the walk is a stream: memory does not grow with the size of a file or the number
//! of rows. The walk itself keeps the paths (so that the order is fixed and duplicates are known).
//! Which model embeds is not this crate's business: it takes any [`embed_core::Embedder`].
//!
//! | module | does |
//! | --- | --- |
//! | [`walk`] | files and folders to a sorted list of sources, with a reason for each that is skipped |
//! | [`stream`] | bytes to text: byte order marks, UTF-8 and UTF-16, positions in the original bytes |
//! | [`chunk`] | text to chunks: whole files, lines, or windows of characters |
//! | [`pipeline`] | sources to rows: batches, counts, and what was wrong |
//! | [`output`] | rows to JSONL or npy, written whole or not at all |
#![forbid(unsafe_code)]

pub mod chunk;
mod error;
pub mod output;
mod output_files;
pub mod pipeline;
pub mod stream;
pub mod walk;

pub use chunk::{Chunk, Chunking};
pub use error::{Error, SkipReason, Skipped};
