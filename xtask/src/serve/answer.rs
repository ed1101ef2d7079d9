//! What a server answers, as HTTP/1.1 writes it: heads, and bodies in chunks.
//!
//! The parser takes what is well formed and refuses the rest. It never guesses: these tasks are there to
//! find what a server does wrong.

use std::fmt;

/// A head longer than this is no answer of a server that is meant.
const LONGEST_HEAD: usize = 64 << 10;

/// Where the body of an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes.
    Length(usize),
    /// As its chunks say.
    Chunked,
    /// Where the connection ends.
    UntilClose,
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Of the head, with the empty line that ends it.
    pub(crate) bytes: usize,
    pub(crate) framing: Framing,
    /// Whether the connection ends with this answer.
    pub(crate) close: bool,
}

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Head {
    /// The head at the beginning of `bytes`, if it is there as a whole.
    ///
    /// # Errors
    ///
    /// If it never will be one.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            let begins = b"HTTP/1.";
            let common = begins.len().min(bytes.len());
            if bytes[..common] != begins[..common] {
                return Err(Malformed("does not begin with HTTP/1."));
            }
            if bytes.len() > LONGEST_HEAD {
                return Err(Malformed("a head without end"));
            }
            return Ok(None);
        };
        let text =
            std::str::from_utf8(&bytes[..end]).map_err(|_| Malformed("head is not UTF-8"))?;
        let (first, fields) = text.split_once("\r\n").unwrap_or((text, ""));
        let version = first.get(..9).unwrap_or_default();
        if version != "HTTP/1.1 " && version != "HTTP/1.0 " {
            return Err(Malformed("does not begin with HTTP/1.0 or HTTP/1.1"));
        }
        let status = first.get(9..12).and_then(|digits| digits.parse().ok());
        let status = status.ok_or(Malformed("status is no number of three digits"))?;
        if !matches!(first.as_bytes().get(12), None | Some(b' ')) || status < 100 {
            return Err(Malformed("status is no number of three digits"));
        }
        let mut head = Self {
            status,
            bytes: end + 4,
            framing: Framing::UntilClose,
            close: version == "HTTP/1.0 ",
        };
        let mut length = None;
        for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once(':').ok_or(Malformed("a field without colon"))?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                let bytes = value.parse().map_err(|_| Malformed("content-length is no number"))?;
                if length.replace(bytes).is_some_and(|other: usize| other != bytes) {
                    return Err(Malformed("two lengths"));
                }
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err(Malformed("a transfer encoding that is not chunked"));
                }
                head.framing = Framing::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                head.close = value.eq_ignore_ascii_case("close");
            }
        }
        match (length, head.framing) {
            (Some(_), Framing::Chunked) => return Err(Malformed("a length and chunks")),
            (Some(length), _) => head.framing = Framing::Length(length),
            _ => {}
        }
        if status < 200 || status == 204 || status == 304 {
            head.framing = Framing::Length(0);
        }
        head.close |= head.framing == Framing::UntilClose;
        Ok(Some(head))
    }
}

/// The value of a field of a head, whatever the case of its name.
pub(crate) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(head).ok()?;
    let fields = text.split("\r\n").skip(1).filter_map(|field| field.split_once(':'));
    let mut found = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

/// Where a body in chunks stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    BeforeSize,
    Size(usize),
    AfterSize(usize),
    Data(usize),
    AfterData,
    /// At the beginning of a line of trailers.
    Trailers,
    InTrailer,
    Done,
}

/// Takes a body out of its chunks, as the bytes come.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Place);

impl Chunks {
    /// Whether the last chunk and what follows it have been read.
    pub(crate) fn done(&self) -> bool {
        self.0 == Place::Done
    }

    /// Reads on; gives the bytes that were used, which are all of them unless the body ends before.
    ///
    /// # Errors
    ///
    /// If these are no chunks.
    pub(crate) fn read(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < bytes.len() && !self.done() {
            let byte = bytes[at];
            self.0 = match (self.0, byte) {
                (Place::Data(left), _) => {
                    let taken = left.min(bytes.len() - at);
                    body.extend_from_slice(&bytes[at..at + taken]);
                    at += taken;
                    self.0 =
                        if taken == left { Place::AfterData } else { Place::Data(left - taken) };
                    continue;
                }
                (Place::BeforeSize, _) => Place::Size(digit(byte)?),
                (Place::Size(size) | Place::AfterSize(size), b'\n') if size > 0 => {
                    Place::Data(size)
                }
                (Place::Size(_) | Place::AfterSize(_) | Place::InTrailer, b'\n')
                | (Place::Trailers, b'\r') => Place::Trailers,
                (Place::Size(size), b'\r' | b';' | b' ') | (Place::AfterSize(size), _) => {
                    Place::AfterSize(size)
                }
                (Place::Size(size), _) => {
                    let bigger =
                        size.checked_mul(16).and_then(|size| size.checked_add(digit(byte).ok()?));
                    Place::Size(bigger.ok_or(Malformed("a chunk's size is no number"))?)
                }
                (Place::AfterData, b'\r') => Place::AfterData,
                (Place::AfterData, b'\n') => Place::BeforeSize,
                (Place::AfterData, _) => return Err(Malformed("a chunk is longer than it says")),
                (Place::Trailers, b'\n') | (Place::Done, _) => Place::Done,
                (Place::Trailers | Place::InTrailer, _) => Place::InTrailer,
            };
            at += 1;
        }
        Ok(at)
    }
}

fn digit(byte: u8) -> Result<usize, Malformed> {
    let digit = char::from(byte).to_digit(16);
    digit.map(|digit| digit as usize).ok_or(Malformed("a chunk's size is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: Result<Option<(u16, Framing, bool)>, &'static str>) {
        let found = Head::parse(bytes.as_bytes());
        let found = found.map(|head| head.map(|head| (head.status, head.framing, head.close)));
        assert_eq!(found, expected.map_err(Malformed));
    }

    #[test]
    fn heads_say_where_bodies_end() {
        let ok = |framing, close| Ok(Some((200, framing, close)));
        let length = Framing::Length(12);
        check("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n", ok(length, false));
        check("HTTP/1.1 200\r\nContent-Length:12\r\nConnection: Close\r\n\r\n", ok(length, true));
        check("HTTP/1.0 200 OK\r\ncontent-length: 12\r\n\r\n", ok(length, true));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ok(Framing::Chunked, false));
        check("HTTP/1.1 200 OK\r\n\r\n", ok(Framing::UntilClose, true));
        check("HTTP/1.1 100 Continue\r\n\r\n", Ok(Some((100, Framing::Length(0), false))));
    }

    #[test]
    fn a_head_that_is_not_there_yet_is_no_error() {
        for part in ["", "HTT", "HTTP/1.1 200 OK\r\nconten", "HTTP/1.1 200 OK\r\n"] {
            check(part, Ok(None));
        }
    }

    #[test]
    fn what_is_no_head_is_an_error() {
        check("SSH-2.0-x", Err("does not begin with HTTP/1."));
        check("HTTP/1.7 200 OK\r\n\r\n", Err("does not begin with HTTP/1.0 or HTTP/1.1"));
        check("HTTP/1.1 2000 OK\r\n\r\n", Err("status is no number of three digits"));
        check("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Err("a field without colon"));
        let two = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
        check(two, Err("two lengths"));
        let both = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        check(both, Err("a length and chunks"));
    }

    #[test]
    fn fields_are_found_in_any_case() {
        let head = b"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nretry-after-ms:\t250 \r\n\r\n";
        assert_eq!(field(head, "retry-after"), Some("1"));
        assert_eq!(field(head, "Retry-After-Ms"), Some("250"));
        assert_eq!(field(head, "retry"), None);
    }

    #[test]
    fn chunks_are_the_same_in_pieces_of_any_size() -> Result<(), Malformed> {
        let wire =
            b"5\r\nhello\r\n1;name=value\r\n \r\n00000005\r\nworld\r\n0\r\nTrailer: x\r\n\r\nrest";
        for piece in 1..wire.len() {
            let (mut chunks, mut body, mut used) = (Chunks::default(), Vec::new(), 0);
            for part in wire.chunks(piece) {
                used += chunks.read(part, &mut body)?;
            }
            assert!(chunks.done(), "in pieces of {piece}");
            assert_eq!(body, b"hello world");
            assert_eq!(&wire[used..], b"rest");
        }
        Ok(())
    }

    #[test]
    fn broken_chunks_are_errors() {
        for wire in ["x\r\n", "5\r\nhello!", "fffffffffffffffff\r\n", "\r\n"] {
            let read = Chunks::default().read(wire.as_bytes(), &mut Vec::new());
            assert!(read.is_err(), "{wire:?}");
        }
    }
}
