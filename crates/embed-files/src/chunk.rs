//! Text to chunks: whole files, lines, or windows of characters.
//!
//! Every chunk knows where it lies in the original bytes, and decoding those bytes gives exactly its
//! text. Memory is bounded by the limit for one text: of a longer line or file only the beginning is
//! kept as text ([`Chunk::clipped`]); its hash and its span still cover all of it.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::str::FromStr;

use crate::error::Error;
use crate::stream::{TextStream, count_newlines};

/// How files are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Not at all: a file is one text. Blank files give no chunk.
    None,
    /// At line ends, which are not part of the text. Every line has its chunk, blank ones too.
    Line,
    /// Into windows.
    Chars(Window),
}

/// Windows of characters. Blank windows give no chunk.
///
/// A window ends after the last line end in its second half, or else after the last white space there,
/// or else in the middle of a word. The next one begins `overlap` characters before that end, moved
/// forward to the beginning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: NonZeroUsize,
    overlap: usize,
}

impl Window {
    /// The largest window: it is held in memory while its end is looked for.
    pub const MAX_SIZE: usize = 1_000_000;

    /// Windows of at most `size` Unicode code points, of which `overlap` are repeated in the next.
    ///
    /// Returns `None` unless `overlap < size` and `1 <= size <= MAX_SIZE`.
    pub fn new(size: usize, overlap: usize) -> Option<Self> {
        let valid = overlap < size && size <= Self::MAX_SIZE;
        valid.then_some(Self { size: NonZeroUsize::new(size)?, overlap })
    }
}

impl FromStr for Chunking {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let window = |text: &str| {
            let (size, overlap) = text.split_once('/').unwrap_or((text, "0"));
            Window::new(size.parse().ok()?, overlap.parse().ok()?).map(Self::Chars)
        };
        match text {
            "none" => Some(Self::None),
            "line" => Some(Self::Line),
            _ => text.strip_prefix("chars:").and_then(window),
        }
        .ok_or_else(|| Error::Chunking { text: text.to_owned() })
    }
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its number in the file, from 0.
    pub number: u64,
    /// The text to embed.
    pub text: String,
    /// Where it lies in the original bytes.
    pub bytes: Range<u64>,
    /// Its first and its last line, from 1.
    pub lines: (u64, u64),
    /// BLAKE3 of the whole text in UTF-8.
    pub hash: blake3::Hash,
    /// Whether `text` is only the beginning, because the whole exceeds the limit for one text.
    pub clipped: bool,
}

/// Cuts one file.
#[derive(Debug)]
pub struct Chunker<R> {
    stream: TextStream<R>,
    chunking: Chunking,
    max_text_bytes: usize,
    next_number: u64,
    finished: bool,
}

impl<R: Read> Chunker<R> {
    /// Cuts the text of `stream`; no chunk holds more than `max_text_bytes` bytes of text.
    pub fn new(stream: TextStream<R>, chunking: Chunking, max_text_bytes: NonZeroUsize) -> Self {
        let max_text_bytes = max_text_bytes.get();
        Self { stream, chunking, max_text_bytes, next_number: 0, finished: false }
    }

    /// The stream, for its position and its count of invalid bytes.
    pub fn stream(&self) -> &TextStream<R> {
        &self.stream
    }

    /// The next chunk, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        loop {
            if self.finished {
                return Ok(None);
            }
            let chunk = match self.chunking {
                Chunking::None => self.unit(None)?,
                Chunking::Line => self.unit(Some('\n'))?,
                Chunking::Chars(window) => self.window(window)?,
            };
            let Some(mut chunk) = chunk else {
                self.finished = true;
                return Ok(None);
            };
            let keep_blank = self.chunking == Chunking::Line;
            if keep_blank || chunk.clipped || !is_blank(&chunk.text) {
                chunk.number = self.next_number;
                self.next_number += 1;
                return Ok(Some(chunk));
            }
        }
    }

    /// Everything up to `terminator` or the end.
    fn unit(&mut self, terminator: Option<char>) -> io::Result<Option<Chunk>> {
        let find = |text: &str, from: usize| {
            terminator.and_then(|terminator| text[from..].find(terminator).map(|at| from + at))
        };
        let mut searched = 0;
        let found = loop {
            let text = self.stream.text();
            let found = find(text, searched);
            searched = text.len();
            if found.is_some() || self.stream.ended() || searched > self.max_text_bytes {
                break found;
            }
            self.stream.fill(searched + 1)?;
        };
        if self.stream.text().is_empty() {
            return Ok(None);
        }
        if found.is_none() && searched > self.max_text_bytes {
            return self.long_unit(find).map(Some);
        }

        let end = found.unwrap_or(searched);
        let length = without_return(&self.stream.text()[..end], found.is_some()).len();
        let chunk = self.chunk(length);
        self.stream.consume(end + found.map_or(0, |_| 1));
        Ok(Some(chunk))
    }

    /// A unit of which only the beginning is kept: the rest is hashed and measured in passing.
    fn long_unit(&mut self, find: impl Fn(&str, usize) -> Option<usize>) -> io::Result<Chunk> {
        let start = self.stream.position();
        let (text, _) = clip(self.stream.text(), self.max_text_bytes);
        let text = text.to_owned();
        let mut hasher = blake3::Hasher::new();
        let (mut whole_bytes, mut line_ends, mut at_line_end) = (0, 0, false);
        loop {
            let pending = self.stream.text();
            let found = find(pending, 0);
            let ends = found.is_some() || self.stream.ended();
            let part = match found {
                Some(end) => without_return(&pending[..end], true),
                // A carriage return may turn out to belong to the line end.
                None if !ends => without_return(pending, true),
                None => pending,
            };
            hasher.update(part.as_bytes());
            whole_bytes += part.len();
            line_ends += count_newlines(part);
            at_line_end = if part.is_empty() { at_line_end } else { part.ends_with('\n') };
            let length = part.len();
            if ends {
                let end = self.stream.position().byte + self.stream.original_len(length);
                let rest = found.map_or(length, |end| end + 1);
                self.stream.consume(rest);
                let clipped = text.len() < whole_bytes;
                return Ok(Chunk {
                    number: 0,
                    text,
                    bytes: start.byte..end,
                    lines: (start.line, start.line + line_ends - u64::from(at_line_end)),
                    hash: hasher.finalize(),
                    clipped,
                });
            }
            self.stream.consume(length);
            let held_back = self.stream.text().len();
            self.stream.fill(held_back + 1)?;
        }
    }

    /// One window.
    fn window(&mut self, window: Window) -> io::Result<Option<Chunk>> {
        let size = window.size.get();
        // One character more than fits, in the widest encoding, tells whether this is the last window.
        self.stream.fill((size + 1) * char::MAX_LEN_UTF8)?;
        let text = self.stream.text();
        if text.is_empty() {
            return Ok(None);
        }
        let Some((hard_end, _)) = text.char_indices().nth(size) else {
            let length = text.len();
            let chunk = self.chunk(length);
            self.stream.consume(length);
            self.finished = true;
            return Ok(Some(chunk));
        };
        let end = soft_end(text, hard_end, window);
        let next = end - overlap_len(&text[..end], window.overlap);
        let chunk = self.chunk(end);
        self.stream.consume(next);
        Ok(Some(chunk))
    }

    /// A chunk of the first `length` bytes of the pending text. Its number is not set yet.
    fn chunk(&self, length: usize) -> Chunk {
        let start = self.stream.position();
        let whole = &self.stream.text()[..length];
        let (text, clipped) = clip(whole, self.max_text_bytes);
        // A line end at the very end belongs to the line that it ends.
        let last_line = start.line + count_newlines(whole.strip_suffix('\n').unwrap_or(whole));
        Chunk {
            number: 0,
            text: text.to_owned(),
            bytes: start.byte..start.byte + self.stream.original_len(length),
            lines: (start.line, last_line),
            hash: blake3::hash(whole.as_bytes()),
            clipped,
        }
    }
}

/// Where a window ends whose characters would end at `hard_end`.
fn soft_end(text: &str, hard_end: usize, window: Window) -> usize {
    // Late enough for the next window to begin after this one did: a window that ends after the
    // character with this index has more characters than are repeated.
    let earliest_char = (window.size.get() / 2).max(window.overlap);
    let Some((earliest, _)) = text.char_indices().nth(earliest_char) else { return hard_end };
    let late = &text[earliest..hard_end];
    let after = |found: Option<(usize, char)>| {
        found.map(|(at, character)| hard_end - late.len() + at + character.len_utf8())
    };
    let last = |wanted: fn(char) -> bool| late.char_indices().rfind(|&(_, c)| wanted(c));
    after(last(|c| c == '\n')).or_else(|| after(last(char::is_whitespace))).unwrap_or(hard_end)
}

/// Bytes at the end of `text` that the next window repeats: `overlap` characters, less the beginning
/// of a word that they would cut.
fn overlap_len(text: &str, overlap: usize) -> usize {
    if overlap == 0 {
        return 0;
    }
    let Some((start, _)) = text.char_indices().rev().nth(overlap - 1) else { return 0 };
    let repeated = &text[start..];
    let inside_word = !text[..start].ends_with(char::is_whitespace);
    match repeated.find(char::is_whitespace) {
        Some(at) if inside_word => repeated[at..].trim_start().len(),
        _ => repeated.len(),
    }
}

/// The longest beginning of `text` within `limit` bytes, and whether that is less than all.
fn clip(text: &str, limit: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(limit);
    (&text[..end], end < text.len())
}

/// A line without the carriage return of its line end.
fn without_return(line: &str, has_line_end: bool) -> &str {
    if has_line_end { line.strip_suffix('\r').unwrap_or(line) } else { line }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

#[cfg(test)]
mod tests;
