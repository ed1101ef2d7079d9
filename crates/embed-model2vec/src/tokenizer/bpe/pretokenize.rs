//! Splits text into words, as the split patterns of byte-level BPE do, without a regex engine.
//!
//! Two families of patterns are known. That of GPT-2, which `ByteLevel` has built in:
//!
//! ```text
//! 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//! ```
//!
//! and that of cl100k, Llama 3 and Qwen 2, which differ in how many digits make a word:
//!
//! ```text
//! (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//! \s*[\r\n]+|\s+(?!\S)|\s+
//! ```
//!
//! Every character belongs to one of the four classes of `classes.rs`, and some alternative of each
//! pattern takes it: words follow one another without gaps. Which alternative takes part is decided by
//! the first one or two characters; after that a word is a run of one class. The rest is this:
//!
//! - `\s+(?!\S)` takes a run of whitespace up to the end of the text, or all of it but its last
//!   character; a run of one character before something else is left to `\s+`.
//! - `\s*[\r\n]+` takes a run of whitespace up to its last line break, wherever in the run that is.
//! - `(?i:...)` ignores case as Unicode does, and `s` is then also U+017F, the long s.
//! - The regex engine gives up on a run of whitespace that is longer than its stack; `tokenizers` then
//!   takes all the rest of the text as one word. So do we: [`LONGEST_SPACE`].
//!
//! # Tricks
//!
//! - Runs of ASCII letters are measured eight bytes at a time in a `u64`: the bytes of a letter run
//!   are found by carries within each byte, which cannot reach the next one (see [`not_letters`]).
//! - All else goes through a table of byte classes; only bytes of other characters are decoded.

use super::classes::{Byte, Class, byte_class, class};

/// Whitespace characters in a row on which the regex engine of `tokenizers` fails: one entry for each
/// on a stack of 1,000,000, beside two for the alternative and the search.
const LONGEST_SPACE: usize = 999_999;

/// A way to split text into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Splitter {
    /// All of the text is one word.
    Whole,
    Gpt2,
    /// The pattern of Llama 3 and its kin, with this many digits in a word at most.
    Llama3 {
        digits: usize,
    },
}

impl Splitter {
    /// The splitter that does what this regular expression does.
    pub(super) fn from_pattern(pattern: &str) -> Option<Self> {
        const CONTRACTIONS: [&str; 2] = ["(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)"];
        const GPT2: &str =
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
        if pattern == GPT2 {
            return Some(Self::Gpt2);
        }
        let rest = CONTRACTIONS.iter().find_map(|start| pattern.strip_prefix(start))?;
        let rest = rest.strip_prefix(r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}")?;
        let (digits, rest) = match rest.strip_prefix("{1,3}") {
            Some(rest) => (3, rest),
            None => (1, rest),
        };
        (rest == r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
            .then_some(Self::Llama3 { digits })
    }
}

/// The end of the GPT-2 word that begins at `start`, which is within `text`.
#[inline]
pub(super) fn gpt2_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    match byte_class(bytes[start]) {
        Byte::Letter => letters_end(text, start + 1),
        Byte::Blank => match bytes.get(start + 1).map(|&byte| byte_class(byte)) {
            Some(Byte::Letter) => letters_end(text, start + 2),
            Some(Byte::Digit) => run_end(text, start + 2, Class::Number),
            Some(Byte::Other | Byte::Apostrophe) => run_end(text, start + 2, Class::Other),
            Some(Byte::Wide) => match char_class(text, start + 1) {
                Class::Space => space_end(text, start),
                Class::Letter => letters_end(text, start + 1),
                other => run_end(text, start + 1, other),
            },
            _ => space_end(text, start),
        },
        Byte::Digit => run_end(text, start + 1, Class::Number),
        Byte::Other => run_end(text, start + 1, Class::Other),
        Byte::Apostrophe => match contraction(&bytes[start + 1..]) {
            0 => run_end(text, start + 1, Class::Other),
            length => start + 1 + length,
        },
        Byte::Newline | Byte::Space => space_end(text, start),
        Byte::Wide => match char_class(text, start) {
            Class::Space => space_end(text, start),
            Class::Letter => letters_end(text, start),
            other => run_end(text, start, other),
        },
    }
}

/// The end of the Llama 3 word that begins at `start`, which is within `text`.
#[inline]
pub(super) fn llama3_end(text: &str, start: usize, digits: usize) -> usize {
    let bytes = text.as_bytes();
    let first = byte_class(bytes[start]);
    match first {
        Byte::Letter => return letters_end(text, start + 1),
        Byte::Digit => return number_end(text, start, digits),
        Byte::Apostrophe => {
            let length = contraction_of_any_case(&text[start + 1..]);
            if length > 0 {
                return start + 1 + length;
            }
        }
        _ => {}
    }
    let (first_class, next) = match first {
        Byte::Wide => {
            let (character, next) = char_at(text, start);
            (class(character), next)
        }
        Byte::Blank | Byte::Newline | Byte::Space => (Class::Space, start + 1),
        _ => (Class::Other, start + 1),
    };
    match first_class {
        Class::Letter => return letters_end(text, next),
        Class::Number => return number_end(text, start, digits),
        Class::Space | Class::Other => {}
    }
    let next_class = (next < bytes.len()).then(|| char_class(text, next));
    if next_class == Some(Class::Letter) && first != Byte::Newline {
        return letters_end(text, next);
    }
    let other_start = match first_class {
        Class::Other => next,
        _ if first == Byte::Blank && next_class == Some(Class::Other) => next,
        _ => return space_or_lines_end(text, start),
    };
    let end = run_end(text, other_start, Class::Other);
    end + bytes[end..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

#[inline]
fn char_at(text: &str, start: usize) -> (char, usize) {
    let character = text[start..].chars().next().expect("not at the end");
    (character, start + character.len_utf8())
}

/// The class of the character at `start`, which is within `text`.
#[inline]
fn char_class(text: &str, start: usize) -> Class {
    match byte_class(text.as_bytes()[start]) {
        Byte::Letter => Class::Letter,
        Byte::Digit => Class::Number,
        Byte::Blank | Byte::Newline | Byte::Space => Class::Space,
        Byte::Apostrophe | Byte::Other => Class::Other,
        Byte::Wide => class(char_at(text, start).0),
    }
}

/// Has the highest bit of each byte set that is not an ASCII letter, and no other bit.
#[inline]
fn not_letters(eight: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // 0x20 turns capitals into small letters and makes a small letter of nothing else. With the
    // highest bits gone, a sum is at most 0x9E and stays within its byte.
    let small = (eight | (0x20 * EACH)) & !HIGH;
    let from_a = small + (0x80 - 0x61) * EACH;
    let beyond_z = small + (0x80 - 0x7B) * EACH;
    !(from_a & !beyond_z & !eight) & HIGH
}

/// Where the letters from `position` on end.
#[inline]
fn letters_end(text: &str, mut position: usize) -> usize {
    let bytes = text.as_bytes();
    loop {
        while let Some(eight) = bytes[position..].first_chunk() {
            let others = not_letters(u64::from_le_bytes(*eight));
            if others != 0 {
                position += (others.trailing_zeros() / 8) as usize;
                break;
            }
            position += 8;
        }
        // Either at something else, or within the last seven bytes.
        match bytes.get(position).map(|&byte| byte_class(byte)) {
            Some(Byte::Letter) => position += 1,
            Some(Byte::Wide) => match char_at(text, position) {
                (character, next) if class(character) == Class::Letter => position = next,
                _ => return position,
            },
            _ => return position,
        }
    }
}

/// Where the characters of one class end.
#[inline]
fn run_end(text: &str, mut position: usize, wanted: Class) -> usize {
    while position < text.len() && char_class(text, position) == wanted {
        position = next_char(text, position);
    }
    position
}

#[inline]
fn next_char(text: &str, position: usize) -> usize {
    match text.as_bytes()[position] {
        0..0x80 => position + 1,
        _ => char_at(text, position).1,
    }
}

/// Where a word of digits ends that holds at most `limit` of them.
fn number_end(text: &str, mut position: usize, limit: usize) -> usize {
    for _ in 0..limit {
        if position == text.len() || char_class(text, position) != Class::Number {
            break;
        }
        position = next_char(text, position);
    }
    position
}

/// `\s+(?!\S)|\s+`; there is whitespace at `start`.
fn space_end(text: &str, start: usize) -> usize {
    let (mut end, mut last, mut count) = (start, start, 0);
    while end < text.len() && char_class(text, end) == Class::Space {
        last = end;
        end = next_char(text, end);
        count += 1;
    }
    match count {
        LONGEST_SPACE.. => text.len(),
        2.. if end < text.len() => last,
        _ => end,
    }
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`; there is whitespace at `start`.
fn space_or_lines_end(text: &str, start: usize) -> usize {
    let end = run_end(text, start, Class::Space);
    match memchr::memrchr2(b'\r', b'\n', &text.as_bytes()[start..end]) {
        Some(newline) => start + newline + 1,
        None => space_end(text, start),
    }
}

/// The length of `s|t|re|ve|m|ll|d` at the start of `rest`, or 0.
#[inline]
fn contraction(rest: &[u8]) -> usize {
    match rest {
        [b's' | b't' | b'm' | b'd', ..] => 1,
        [b'r' | b'v', b'e', ..] | [b'l', b'l', ..] => 2,
        _ => 0,
    }
}

/// The same in any case.
#[inline]
fn contraction_of_any_case(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let lower = |at: usize| bytes.get(at).map_or(0, u8::to_ascii_lowercase);
    match contraction(&[lower(0), lower(1)]) {
        // The long s is an s by the rules for ignoring case.
        0 if rest.starts_with('\u{17F}') => '\u{17F}'.len_utf8(),
        length => length,
    }
}
