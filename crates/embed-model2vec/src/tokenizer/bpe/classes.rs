//! The character classes of the split patterns: `\p{L}`, `\p{N}` and `\s`.
//!
//! They come from the tables of the `regex-syntax` crate, with which the `tokenizers` crate compiles
//! its patterns, and not from the methods of `char`: those follow the Unicode version of the compiler
//! and other definitions (`char::is_alphabetic` is not `\p{L}`).
//!
//! A table in two stages: the upper bits of a code point choose a block, the lower eight bits an entry
//! in it. Equal blocks are kept once, so that all of Unicode takes about 50 KB. It is built when the
//! first text asks for a character beyond ASCII, and shared by all tokenizers of the process.

use std::sync::LazyLock;

use regex_syntax::hir::{Class as HirClass, HirKind};
use rustc_hash::FxHashMap;

/// What a split pattern sees in a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\s`
    Space,
    /// `[^\s\p{L}\p{N}]`
    Other,
}

const BLOCK: usize = 256;

struct Table {
    block_of: Vec<u16>,
    /// Classes as numbers.
    blocks: Vec<[u8; BLOCK]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::build);

impl Table {
    fn build() -> Self {
        let mut classes =
            vec![Class::Other as u8; (char::MAX as usize + 1).next_multiple_of(BLOCK)];
        for (pattern, class) in
            [(r"\p{L}", Class::Letter), (r"\p{N}", Class::Number), (r"\s", Class::Space)]
        {
            let hir = regex_syntax::parse(pattern).expect("a class that the crate knows");
            let HirKind::Class(HirClass::Unicode(ranges)) = hir.kind() else {
                unreachable!("{pattern} is a class of characters");
            };
            for range in ranges.ranges() {
                classes[range.start() as usize..=range.end() as usize].fill(class as u8);
            }
        }
        let mut table = Self { block_of: Vec::new(), blocks: Vec::new() };
        let mut known: FxHashMap<[u8; BLOCK], u16> = FxHashMap::default();
        for block in classes.as_chunks::<BLOCK>().0 {
            let index = *known.entry(*block).or_insert_with(|| {
                table.blocks.push(*block);
                u16::try_from(table.blocks.len() - 1).expect("4,352 blocks at most")
            });
            table.block_of.push(index);
        }
        table
    }
}

/// The class of a character.
#[inline]
pub(super) fn class(character: char) -> Class {
    let table = &*TABLE;
    let code = character as usize;
    match table.blocks[table.block_of[code / BLOCK] as usize][code % BLOCK] {
        0 => Class::Letter,
        1 => Class::Number,
        2 => Class::Space,
        _ => Class::Other,
    }
}

/// A class of bytes, finer than [`Class`]: what a pattern can tell apart in ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    Letter,
    Digit,
    /// U+0020
    Blank,
    /// `\r` or `\n`
    Newline,
    /// Any other whitespace.
    Space,
    /// `'`
    Apostrophe,
    Other,
    /// Part of a character beyond ASCII.
    Wide,
}

const BYTES: [Byte; 256] = {
    let mut table = [Byte::Wide; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Byte::Letter,
            b'0'..=b'9' => Byte::Digit,
            b' ' => Byte::Blank,
            b'\r' | b'\n' => Byte::Newline,
            b'\t' | 0x0B | 0x0C => Byte::Space,
            b'\'' => Byte::Apostrophe,
            _ => Byte::Other,
        };
        byte += 1;
    }
    table
};

/// The class of a byte.
#[inline]
pub(super) fn byte_class(byte: u8) -> Byte {
    BYTES[byte as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascii_has_the_same_classes_in_both_tables() {
        for byte in 0..128_u8 {
            let expected = match byte_class(byte) {
                Byte::Letter => Class::Letter,
                Byte::Digit => Class::Number,
                Byte::Blank | Byte::Newline | Byte::Space => Class::Space,
                Byte::Apostrophe | Byte::Other => Class::Other,
                Byte::Wide => unreachable!("not in ASCII"),
            };
            assert_eq!(class(char::from(byte)), expected, "{byte:#x}");
        }
        assert!((128..=255).all(|byte| byte_class(byte) == Byte::Wide));
    }

    #[test]
    fn characters_beyond_ascii_have_their_class() {
        for (text, expected) in [
            ("éßжא中ーªʰ𝒳\u{1E921}", Class::Letter),
            ("²½٣৪Ⅷ〇𝟘", Class::Number),
            ("\u{85}\u{A0}\u{2028}\u{3000}\u{1680}", Class::Space),
            ("\u{301}\u{200B}\u{200D}\u{FEFF}€—😀\u{E000}\u{180E}", Class::Other),
        ] {
            for character in text.chars() {
                assert_eq!(class(character), expected, "{character:?}");
            }
        }
    }

    #[test]
    fn whitespace_is_what_char_says_too() {
        for character in '\0'..=char::MAX {
            assert_eq!(class(character) == Class::Space, character.is_whitespace());
        }
    }
}
