//! What ends a run, and what only costs it one input.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error that ends a run. Nothing is left half written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The output.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The output format needs a file that can be gone back in.
    #[error("cannot write npy to {}: the format needs a regular file, because its header holds the number of rows", .path.display())]
    NotSeekable {
        /// The output.
        path: PathBuf,
    },
    /// An input that the caller named is an output of the same run.
    #[error("{} is both an input and an output", .path.display())]
    InputIsOutput {
        /// The file.
        path: PathBuf,
    },
    /// The embedder cannot work with the options.
    #[error("cannot embed with these options")]
    Options(#[source] embed_core::Error),
    /// The embedder refused a text.
    #[error("cannot embed {}, chunk {chunk}", .path.display())]
    Embed {
        /// The source of the text, or of the first text of the batch if none is to blame.
        path: PathBuf,
        /// Number of the chunk in it.
        chunk: u64,
        /// The embedder's answer.
        source: embed_core::Error,
    },
    /// A vector has a NaN or an infinity, which no index can use.
    #[error("{}, chunk {chunk}: the vector is not finite: the model has damaged rows", .path.display())]
    NonFinite {
        /// The source.
        path: PathBuf,
        /// Number of the chunk in it.
        chunk: u64,
    },
    /// A chunking that cannot be: see [`Chunking`](crate::Chunking).
    #[error(
        "{text:?} is not a chunking: expected none, line, chars:N or chars:N/OVERLAP with OVERLAP < N <= 1000000"
    )]
    Chunking {
        /// What was given.
        text: String,
    },
    /// A glob that cannot be read.
    #[error("{glob:?} cannot be used as a glob")]
    Glob {
        /// What was given.
        glob: String,
        /// The parser's answer.
        source: ignore::Error,
    },
}

impl Error {
    /// Whether the reader of our output has gone away: not a failure, but a reason to stop.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// An input that was left out, and why.
#[derive(Debug)]
pub struct Skipped {
    /// The path as the rows would have named it.
    pub path: PathBuf,
    /// Why it was left out.
    pub reason: SkipReason,
}

impl Skipped {
    pub(crate) fn new(path: &Path, reason: SkipReason) -> Self {
        Self { path: path.to_owned(), reason }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Why an input was left out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// It cannot be opened, listed or read to its end.
    #[error("cannot read: {0}")]
    Unreadable(io::Error),
    /// A folder could not be walked.
    #[error("cannot walk: {0}")]
    Unwalkable(ignore::Error),
    /// A NUL byte in its first 8 KiB, and no UTF-16 byte order mark.
    #[error("binary file")]
    Binary,
    /// A pipe, socket or device found in a folder or given by name.
    #[error("not a regular file, but {0}")]
    NotRegular(&'static str),
    /// A symbolic link that leads nowhere.
    #[error("broken symbolic link")]
    BrokenLink,
}
