//! What can be wrong with settings.

use std::fmt;
use std::path::PathBuf;

use super::Origin;

/// Everything that is wrong with the settings of a server, told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    problems: Vec<Problem>,
}

impl SettingsError {
    /// All problems, in the order in which the sources were read; never none.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// `value`, unless there are problems.
    pub(super) fn unless<T>(problems: Vec<Problem>, value: T) -> Result<T, Self> {
        if problems.is_empty() { Ok(value) } else { Err(Self { problems }) }
    }
}

impl From<Problem> for SettingsError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl std::error::Error for SettingsError {}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = &self.problems[..] {
            return problem.fmt(f);
        }
        write!(f, "{} settings are wrong:", self.problems.len())?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// One thing that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A value is none that the setting may have.
    #[error("{key} ({origin}): expected {expected}, found {found}")]
    Value {
        /// The setting.
        key: String,
        /// Where the value was given.
        origin: Origin,
        /// What it may be.
        expected: String,
        /// What it is, quoted.
        found: String,
    },
    /// A file has a key that is none.
    #[error("{}: there is no setting `{key}`; the nearest is `{nearest}`", .file.display())]
    UnknownKey {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The key that is spelled most like it.
        nearest: String,
    },
    /// An environment variable begins like those of settings and is none of them.
    #[error("{variable}: there is no such setting; the nearest is `{nearest}`")]
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The variable that is spelled most like it.
        nearest: String,
    },
    /// A file is not TOML.
    #[error("{}: not valid TOML, in line {line}: {message}", .file.display())]
    Toml {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser objected to.
        message: String,
    },
    /// Two settings, each of which could be, cannot be together.
    #[error("{one} and {other} contradict each other: {rule}")]
    Contradiction {
        /// One setting with its value and origin.
        one: String,
        /// The other one.
        other: String,
        /// What must hold.
        rule: &'static str,
    },
    /// Other machines could ask, and none would be asked for a key.
    #[error(
        "listen = {listen} ({origin}) is open to other machines and there is no key: \
         give keys (--api-key-file, EMBED_API_KEYS), or say --insecure"
    )]
    Open {
        /// Where it would listen.
        listen: String,
        /// Where that was said.
        origin: Origin,
    },
    /// A key is to be asked for, and there is none.
    #[error("metrics_key ({origin}): there is no key: give keys (--api-key-file, EMBED_API_KEYS)")]
    NoKey {
        /// Where it was asked for.
        origin: Origin,
    },
    /// A name of a model, or an alias, cannot be one.
    #[error("{origin}: {name:?} cannot be the name of a model: {reason}")]
    ModelName {
        /// The name.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A name or alias stands for two models.
    #[error("{origin}: {name:?} is the name or an alias of another model already")]
    TakenName {
        /// The name.
        name: String,
        /// Where it was given the second time.
        origin: Origin,
    },
    /// An alias is one of a model that is not served.
    #[error("{origin}: alias {alias:?}: no model {target:?} is served, only {served}")]
    UnknownTarget {
        /// The alias.
        alias: String,
        /// The name that it was to stand for.
        target: String,
        /// The names that there are, quoted.
        served: String,
        /// Where it was given.
        origin: Origin,
    },
}

/// The candidate that takes the fewest edits to become `word`.
pub(super) fn nearest(word: &str, candidates: impl IntoIterator<Item = String>) -> String {
    let word = word.to_lowercase();
    let edits = |candidate: &String| distance(&word, &candidate.to_lowercase());
    candidates.into_iter().min_by_key(edits).unwrap_or_default()
}

/// The number of characters that are inserted, removed or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *candidate);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let words = || ["body_bytes", "batch_texts", "docs"].map(str::to_owned);
        assert_eq!(nearest("body_byte", words()), "body_bytes");
        assert_eq!(nearest("BODYBYTES", words()), "body_bytes");
        assert_eq!(nearest("batchtext", words()), "batch_texts");
        assert_eq!(nearest("doc", words()), "docs");
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
    }
}
