//! Why a model could not be loaded.
//!
//! Each variant is one thing a caller can act on and carries the facts: which file, which tensor,
//! what was expected and what was found. Errors while embedding are [`embed_core::Error`].

use std::fmt::{self, Write as _};
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// An error while finding, reading or checking a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No place that was looked at holds a model.
    #[error("no model found for {wanted:?}; looked for:{}", list(.attempts))]
    NotFound {
        /// What the caller asked for.
        wanted: String,
        /// Every place that was tried, in order, and why it did not do.
        attempts: Vec<Attempt>,
    },
    /// A file of the model cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Something other than a file stands where a file of the model should be.
    #[error("{}: expected a file, found {found}", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A file of the model is empty.
    #[error("{}: the file is empty", .path.display())]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// A JSON file of the model does not parse.
    #[error("{}: not valid JSON", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        source: serde_json::Error,
    },
    /// A configuration field has a value that it cannot have.
    #[error("{}: field `{field}`: expected {expected}, found {found}", .path.display())]
    ConfigField {
        /// The file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// What the field may hold.
        expected: &'static str,
        /// What it holds, as JSON.
        found: String,
    },
    /// The weights file is not a well-formed safetensors file: its header length, JSON, shapes and
    /// data offsets must agree with each other and with the size of the file.
    #[error("{}: not a valid safetensors file of {bytes} bytes", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: usize,
        /// What the parser objected to.
        source: safetensors::SafeTensorError,
    },
    /// The weights belong to another kind of model, a transformer for instance.
    #[error(
        "{}: not a static model: expected one tensor named `embeddings`, `embedding.weight` or `0`; tensors found are {}",
        .path.display(), shorten(.found)
    )]
    NotStatic {
        /// The file.
        path: PathBuf,
        /// Names of the tensors in the file, sorted.
        found: Vec<String>,
    },
    /// A tensor has an element type that its role does not allow.
    #[error("{}: tensor `{tensor}`: expected one of {expected}, found {found}", .path.display())]
    TensorType {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// The allowed element types.
        expected: &'static str,
        /// The element type in the file.
        found: String,
    },
    /// A tensor has a shape that its role does not allow.
    #[error("{}: tensor `{tensor}`: expected shape {expected}, found {found:?}", .path.display())]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// The allowed shapes, in words.
        expected: &'static str,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The table has fewer rows than the tokenizer has ids, and no mapping.
    #[error(
        "{}: tensor `{tensor}`: expected at least {expected} rows (one for each token id), found {found}",
        .path.display()
    )]
    TooFewRows {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Number of token ids.
        expected: usize,
        /// Number of rows.
        found: usize,
    },
    /// `mapping` or `weights` does not have exactly one entry for each token id.
    #[error(
        "{}: tensor `{tensor}`: expected {expected} entries (one for each token id), found {found}",
        .path.display()
    )]
    TensorLength {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Number of token ids.
        expected: usize,
        /// Number of entries.
        found: usize,
    },
    /// An entry of `mapping` names a row that does not exist.
    #[error(
        "{}: tensor `mapping`: entry {index}: expected a row from 0 to {}, found {found}",
        .path.display(), .rows - 1
    )]
    MappingEntry {
        /// The file.
        path: PathBuf,
        /// Index of the entry: a token id.
        index: usize,
        /// Number of rows of the table.
        rows: usize,
        /// The entry.
        found: i128,
    },
    /// The tokenizer file does not describe a tokenizer.
    #[error("{}: not a usable tokenizer", .path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the parser objected to.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer file asks for something that our own tokenizers do not do, and this program was
    /// built without the feature `tokenizers`, which serves all others.
    #[error(
        "{}: no tokenizer for {found} in this program: it was built without the feature `tokenizers`",
        .path.display()
    )]
    UnsupportedTokenizer {
        /// The file.
        path: PathBuf,
        /// The parts that the file asks for.
        found: String,
    },
    /// The threads that a model was to work with could not be started.
    #[error("cannot start {threads} threads")]
    Threads {
        /// How many were asked for.
        threads: NonZeroUsize,
        /// What the operating system objected to.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A model name is not of the form `ORG/NAME` or `ORG/NAME@REVISION`.
    #[cfg(feature = "hub")]
    #[error("{name:?} is not a model name: expected ORG/NAME or ORG/NAME@REVISION ({reason})")]
    HubName {
        /// What was given.
        name: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A file could not be fetched from the hub.
    #[cfg(feature = "hub")]
    #[error("cannot fetch {file} of {repository} at {revision} from {endpoint}")]
    Download {
        /// `ORG/NAME`.
        repository: String,
        /// Branch, tag or commit.
        revision: String,
        /// Path within the repository.
        file: String,
        /// Where it was asked for.
        endpoint: String,
        /// What the client or the server answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// One place where a model was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The place: a path, or a file of a repository.
    pub place: String,
    /// Why it did not do.
    pub reason: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Attempts below each other, for a message that a person reads.
fn list(attempts: &[Attempt]) -> String {
    attempts.iter().fold(String::new(), |mut text, attempt| {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {attempt}");
        text
    })
}

/// The first few names, and how many more there are.
fn shorten(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let mut text =
        names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        text.push_str("none");
    } else if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_model_names_every_place_and_reason() {
        let attempt =
            |place: &str, reason: &str| Attempt { place: place.into(), reason: reason.into() };
        let error = LoadError::NotFound {
            wanted: "x".into(),
            attempts: vec![attempt("x/config.json", "not found"), attempt("y", "a directory")],
        };
        let expected =
            "no model found for \"x\"; looked for:\n  x/config.json: not found\n  y: a directory";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn long_lists_of_tensors_are_shortened() {
        let names: Vec<String> = (0..9).map(|i| format!("t{i}")).collect();
        assert_eq!(shorten(&names), "`t0`, `t1`, `t2`, `t3`, `t4`, `t5` and 3 more");
        assert_eq!(shorten(&[]), "none");
    }
}
