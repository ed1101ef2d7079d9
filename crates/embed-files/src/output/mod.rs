//! Rows to files.
//!
//! A regular file is written beside its final place and renamed into it when everything is there, so
//! that a failed or interrupted run leaves the old file as it was. Pipes, devices and standard output
//! are written through.

mod destination;
mod jsonl;
mod npy;

use std::path::Path;

use crate::chunk::Chunk;
use crate::error::Error;

pub use destination::{Destination, Temporaries};
pub use jsonl::{JsonlWriter, write_skipped, write_text_row};
pub use npy::NpyWriter;

/// One embedded chunk.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Its source, as the walk named it.
    pub path: &'a Path,
    /// The chunk.
    pub chunk: &'a Chunk,
    /// Tokens within the limit, unknown ones included.
    pub tokens: usize,
    /// Whether the model saw only a part of the text.
    pub truncated: bool,
    /// Whether the vector is all zeros.
    pub zero: bool,
    /// The vector.
    pub vector: &'a [f32],
}

/// Takes rows in order.
pub trait RowWriter {
    /// Writes one row.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    fn write_row(&mut self, row: &Row<'_>) -> Result<(), Error>;

    /// Completes the output and puts it into its place. Without this call nothing is left behind.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    fn finish(self: Box<Self>) -> Result<(), Error>;
}
