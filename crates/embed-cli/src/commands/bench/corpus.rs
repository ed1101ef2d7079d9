//! The file of texts to measure with, which is held in memory as long as the command runs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Bytes of the largest corpus, 1 GiB: it lies in memory, once, with 16 bytes more for each line.
pub(super) const LARGEST_CORPUS: u64 = 1 << 30;

/// Queries that take turns.
pub(super) const QUERIES: usize = 1000;

/// Queries have this number of words to this number and fifteen.
const SHORTEST_QUERY: usize = 5;
const QUERY_LENGTHS: usize = 16;

/// Why a file is no corpus.
#[derive(Debug, Error)]
pub(super) enum CorpusError {
    /// It is not there, or cannot be read.
    #[error("{}: cannot be read as a corpus", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It has no text at all.
    #[error("{}: there is no text in it", path.display())]
    Blank { path: PathBuf },
    /// It is in another encoding, or no text.
    #[error("{}: not UTF-8 at byte {byte}, in line {line}", path.display())]
    NotUtf8 { path: PathBuf, byte: usize, line: usize },
    /// It would not fit into memory everywhere.
    #[error("{}: larger than 1 GiB, the most that is held in memory: give a part of it", path.display())]
    TooLarge { path: PathBuf },
}

/// Texts, one a line.
pub(super) struct Corpus {
    text: String,
}

impl Corpus {
    /// What can be said of a file without reading it.
    pub(super) fn check(path: &Path) -> Result<(), CorpusError> {
        let found = fs::metadata(path);
        let found = found.map_err(|source| CorpusError::Read { path: path.to_owned(), source })?;
        if found.is_file() && found.len() > LARGEST_CORPUS {
            return Err(CorpusError::TooLarge { path: path.to_owned() });
        }
        Ok(())
    }

    /// Reads a file, or as much of a pipe as shows that it is too large.
    pub(super) fn read(path: &Path) -> Result<Self, CorpusError> {
        let path = || path.to_owned();
        let fail = |source| CorpusError::Read { path: path(), source };
        let mut bytes = Vec::new();
        let file = File::open(path()).map_err(fail)?;
        file.take(LARGEST_CORPUS + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > LARGEST_CORPUS {
            return Err(CorpusError::TooLarge { path: path() });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let byte = error.utf8_error().valid_up_to();
            let lines = error.as_bytes()[..byte].iter().filter(|&&byte| byte == b'\n');
            CorpusError::NotUtf8 { path: path(), byte, line: lines.count() + 1 }
        })?;
        if text.trim().is_empty() {
            return Err(CorpusError::Blank { path: path() });
        }
        Ok(Self { text })
    }

    /// The lines, blank ones too, without their ends.
    pub(super) fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }

    /// Bytes of all lines without their ends.
    pub(super) fn text_bytes(&self) -> usize {
        self.text.lines().map(str::len).sum()
    }

    /// Queries of 5 to 20 words in a row, from all over the corpus; a small one gives its words more
    /// than once.
    pub(super) fn queries(&self) -> Vec<String> {
        let lines = self.lines();
        let query = |number: usize| {
            let start = number * lines.len() / QUERIES;
            let words = lines[start..].iter().chain(lines.iter().cycle());
            let words = words.flat_map(|line| line.split_whitespace());
            words.take(SHORTEST_QUERY + number % QUERY_LENGTHS).collect::<Vec<_>>().join(" ")
        };
        (0..QUERIES).map(query).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_have_5_to_20_words_and_come_from_everywhere() {
        let lines: Vec<String> = (0..5000).map(|line| format!("{line} b c d\n")).collect();
        let queries = Corpus { text: lines.join("\n") }.queries();
        assert_eq!(queries.len(), QUERIES);
        assert_eq!((queries[0].as_str(), queries[999].split(' ').count()), ("0 b c d 1", 12));
        let words = |query: &String| query.split(' ').count();
        assert_eq!(queries.iter().map(words).min(), Some(5));
        assert_eq!(queries.iter().map(words).max(), Some(20));
        assert!(queries[500].starts_with("2500 b"), "{}", queries[500]);
    }

    #[test]
    fn one_word_is_enough() {
        let queries = Corpus { text: "\n \nword\n".to_owned() }.queries();
        assert_eq!(queries[0], "word word word word word");
    }

    #[test]
    fn ends_of_lines_are_not_text() {
        let corpus = Corpus { text: "ab\r\n\ncd".to_owned() };
        assert_eq!((corpus.lines(), corpus.text_bytes()), (vec!["ab", "", "cd"], 4));
    }
}
