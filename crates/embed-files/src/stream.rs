//! Bytes to text, a piece at a time, without losing track of the original bytes.
//!
//! The encoding is decided by the first bytes: a UTF-8, UTF-16LE or UTF-16BE byte order mark says what
//! follows (and is not part of the text); without one the text is UTF-8. A NUL among the first 8 KiB
//! means that it is no text at all. Bytes that are no text in the encoding become U+FFFD; how many and
//! where the first was is counted.
//!
//! A [`TextStream`] holds decoded text that nobody has consumed yet. Its position is a byte offset and
//! a line number in the original file: offsets stay right across a byte order mark, in UTF-16, and
//! after invalid bytes.

use std::collections::VecDeque;
use std::io::{self, Read};

/// Bytes that decide whether something is text.
const SNIFFED_BYTES: usize = 8 << 10;

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;

/// A place in the original bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Offset in bytes from the beginning of the file.
    pub byte: u64,
    /// Line, counted from 1.
    pub line: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// Text that is decoded as it is needed.
#[derive(Debug)]
pub struct TextStream<R> {
    reader: R,
    encoding: Encoding,
    /// Bytes that are read but not decoded: the beginning of a character.
    undecoded: Vec<u8>,
    /// Decoded text; the part before `start` is consumed.
    text: String,
    start: usize,
    position: Position,
    /// Bytes of text that were consumed.
    consumed: u64,
    /// Where the original differs in length from what the text suggests: (offset in the whole text,
    /// original bytes - suggested bytes), in order. Only of text that was not consumed.
    corrections: VecDeque<(u64, isize)>,
    invalid: Invalid,
    ended: bool,
}

/// Bytes that were no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    /// Sequences that were replaced by U+FFFD.
    pub count: u64,
    /// Offset of the first.
    pub first_byte: u64,
}

impl<R: Read> TextStream<R> {
    /// Reads the first bytes. `None` means that they are not text.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn open(mut reader: R) -> io::Result<Option<Self>> {
        let mut head = Vec::with_capacity(SNIFFED_BYTES);
        reader.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
        let (encoding, mark) = match head.as_slice() {
            // UTF-32, whose mark begins like that of UTF-16.
            [0xFF, 0xFE, 0, 0, ..] => return Ok(None),
            [0xEF, 0xBB, 0xBF, ..] => (Encoding::Utf8, 3),
            [0xFF, 0xFE, ..] => (Encoding::Utf16Le, 2),
            [0xFE, 0xFF, ..] => (Encoding::Utf16Be, 2),
            _ => (Encoding::Utf8, 0),
        };
        if encoding == Encoding::Utf8 && head.contains(&0) {
            return Ok(None);
        }
        head.drain(..mark);
        let mut stream = Self {
            reader,
            encoding,
            undecoded: head,
            text: String::new(),
            start: 0,
            position: Position { byte: mark as u64, line: 1 },
            consumed: 0,
            corrections: VecDeque::new(),
            invalid: Invalid::default(),
            ended: false,
        };
        stream.decode();
        Ok(Some(stream))
    }

    /// Decodes until at least `bytes` bytes of text are there or the input has ended.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub fn fill(&mut self, bytes: usize) -> io::Result<()> {
        if self.text().len() >= bytes || self.ended {
            return Ok(());
        }
        self.text.drain(..self.start);
        self.start = 0;
        while self.text.len() < bytes && !self.ended {
            let length = self.undecoded.len();
            self.undecoded.resize(length + READ_BYTES, 0);
            let read = loop {
                match self.reader.read(&mut self.undecoded[length..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            };
            self.undecoded.truncate(length + *read.as_ref().unwrap_or(&0));
            self.ended = read? == 0;
            self.decode();
        }
        Ok(())
    }

    /// The decoded text that was not consumed yet.
    pub fn text(&self) -> &str {
        &self.text[self.start..]
    }

    /// Whether [`text`](Self::text) is all that is left.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Where [`text`](Self::text) begins in the original.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Original bytes of the first `length` bytes of [`text`](Self::text).
    pub fn original_len(&self, length: usize) -> u64 {
        let text = &self.text()[..length];
        let suggested = match self.encoding {
            Encoding::Utf8 => length,
            Encoding::Utf16Le | Encoding::Utf16Be => {
                text.chars().map(char::len_utf16).sum::<usize>() * 2
            }
        };
        let end = self.consumed + length as u64;
        let inside = self.corrections.iter().take_while(|(offset, _)| *offset < end);
        let correction: isize = inside.map(|(_, correction)| correction).sum();
        suggested.saturating_add_signed(correction) as u64
    }

    /// Takes the first `length` bytes of [`text`](Self::text) away.
    ///
    /// # Panics
    ///
    /// If `length` is not a character boundary of the text.
    pub fn consume(&mut self, length: usize) {
        self.position.byte += self.original_len(length);
        self.position.line += count_newlines(&self.text()[..length]);
        self.start += length;
        self.consumed += length as u64;
        while self.corrections.front().is_some_and(|(offset, _)| *offset < self.consumed) {
            self.corrections.pop_front();
        }
    }

    /// Bytes that were no text, so far.
    pub fn invalid(&self) -> Invalid {
        self.invalid
    }

    fn decode(&mut self) {
        match self.encoding {
            Encoding::Utf8 => self.decode_utf8(),
            Encoding::Utf16Le => self.decode_utf16(u16::from_le_bytes),
            Encoding::Utf16Be => self.decode_utf16(u16::from_be_bytes),
        }
    }

    fn decode_utf8(&mut self) {
        let undecoded = std::mem::take(&mut self.undecoded);
        let mut rest = undecoded.as_slice();
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text.push_str(text);
                    return;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            self.text.push_str(std::str::from_utf8(valid).expect("the valid part is valid"));
            let invalid = match error.error_len() {
                Some(length) => length,
                // The end of the block cut a character in two: wait for the rest, if there is one.
                None if !self.ended => {
                    self.undecoded = after.to_vec();
                    return;
                }
                None => after.len(),
            };
            self.replace(invalid, char::REPLACEMENT_CHARACTER.len_utf8());
            rest = &after[invalid..];
        }
    }

    fn decode_utf16(&mut self, unit: fn([u8; 2]) -> u16) {
        let undecoded = std::mem::take(&mut self.undecoded);
        let (pairs, odd) = undecoded.as_chunks::<2>();
        let mut units: Vec<u16> = pairs.iter().map(|&pair| unit(pair)).collect();
        let mut rest = Vec::new();
        if !self.ended {
            // The end of the block may have cut a surrogate pair in two.
            if units.last().is_some_and(|last| (0xD800..0xDC00).contains(last)) {
                units.pop();
                rest.extend(pairs[pairs.len() - 1]);
            }
            rest.extend(odd);
        }
        for decoded in char::decode_utf16(units) {
            match decoded {
                Ok(character) => self.text.push(character),
                Err(_) => self.replace(2, 2),
            }
        }
        if self.ended && !odd.is_empty() {
            self.replace(1, 2);
        }
        self.undecoded = rest;
    }

    /// Puts U+FFFD in place of `original` bytes, where the encoding suggests `suggested` bytes.
    fn replace(&mut self, original: usize, suggested: usize) {
        if self.invalid.count == 0 {
            let decoded = self.text().len();
            self.invalid.first_byte = self.position.byte + self.original_len(decoded);
        }
        self.invalid.count += 1;
        if original != suggested {
            let offset = self.consumed + self.text().len() as u64;
            self.corrections.push_back((offset, original.cast_signed() - suggested.cast_signed()));
        }
        self.text.push(char::REPLACEMENT_CHARACTER);
    }
}

/// Line ends in `text`.
pub(crate) fn count_newlines(text: &str) -> u64 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reader that gives its bytes in pieces of a fixed size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    /// Reads everything in steps of `step` bytes of text, and checks positions on the way.
    fn read(bytes: &[u8], piece: usize, step: usize) -> Option<(String, u64, Invalid)> {
        let mut stream = TextStream::open(Pieces(bytes, piece)).expect("no error")?;
        let mut text = String::new();
        loop {
            stream.fill(step).expect("no error");
            let mut length = step.min(stream.text().len());
            while !stream.text().is_char_boundary(length) {
                length += 1;
            }
            if length == 0 {
                break;
            }
            text.push_str(&stream.text()[..length]);
            stream.consume(length);
        }
        Some((text, stream.position().byte, stream.invalid()))
    }

    #[track_caller]
    fn check(bytes: &[u8], text: &str, invalid: u64, first_byte: u64) {
        for piece in [1, 2, 3, 1000] {
            for step in [1, 2, 5, 1000] {
                let (found, end, counted) = read(bytes, piece, step).expect("text");
                assert_eq!(found, text);
                assert_eq!(end, bytes.len() as u64, "the position ends with the file");
                assert_eq!(counted, Invalid { count: invalid, first_byte });
            }
        }
    }

    fn utf16(mark: &[u8], text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        mark.iter().copied().chain(text.encode_utf16().flat_map(bytes)).collect()
    }

    #[test]
    fn byte_order_marks_choose_the_encoding_and_are_not_text() {
        check("añ😀".as_bytes(), "añ😀", 0, 0);
        check("\u{feff}añ😀".as_bytes(), "añ😀", 0, 0);
        check(&utf16(&[0xFF, 0xFE], "añ😀\n", u16::to_le_bytes), "añ😀\n", 0, 0);
        check(&utf16(&[0xFE, 0xFF], "añ😀\n", u16::to_be_bytes), "añ😀\n", 0, 0);
        check(b"", "", 0, 0);
    }

    #[test]
    fn invalid_bytes_are_replaced_and_counted() {
        check(b"ab\xFFcd\xE2\x82", "ab\u{fffd}cd\u{fffd}", 2, 2);
        check(b"\xF0\x9F\x98", "\u{fffd}", 1, 0);
        check(&[0xFF, 0xFE, 0x61, 0, 0, 0xD8, 0x62, 0], "a\u{fffd}b", 1, 4);
        check(&[0xFF, 0xFE, 0x61, 0, 0x62], "a\u{fffd}", 1, 4);
        check(&[0xFF, 0xFE, 0x61, 0, 0, 0xD8], "a\u{fffd}", 1, 4);
    }

    #[test]
    fn a_nul_byte_near_the_beginning_means_binary() {
        assert_eq!(read(b"ab\0cd", 10, 10), None);
        let mut late = vec![b'a'; SNIFFED_BYTES];
        late.push(0);
        assert!(read(&late, 100, 100).is_some(), "a NUL further on is a character like another");
    }

    #[test]
    fn lines_are_counted_from_one() -> io::Result<()> {
        let mut stream = TextStream::open(&b"a\nb\r\nc"[..])?.expect("text");
        stream.fill(100)?;
        stream.consume(4);
        assert_eq!(stream.position(), Position { byte: 4, line: 2 });
        stream.consume(1);
        assert_eq!(stream.position(), Position { byte: 5, line: 3 });
        Ok(())
    }

    proptest! {
        #[test]
        fn decoding_equals_the_standard_library_for_any_bytes(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 1..128u8, 0xC0..=0xF7u8], 0..200),
            piece in 1usize..40,
            step in 1usize..40,
        ) {
            let marked = bytes.starts_with(&[0xFF, 0xFE])
                || bytes.starts_with(&[0xFE, 0xFF])
                || bytes.starts_with(&[0xEF, 0xBB, 0xBF]);
            prop_assume!(!bytes.contains(&0) && !marked);
            let (text, end, _) = read(&bytes, piece, step).expect("text");
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
            prop_assert_eq!(end, bytes.len() as u64);
        }
    }
}
