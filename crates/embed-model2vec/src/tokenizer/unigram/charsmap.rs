//! The `Precompiled` normalizer: a table that `sentencepiece` wrote, applied to grapheme clusters.
//!
//! # The table
//!
//! It is base64 of the length of a trie, the trie as a double array of 32-bit units, and a text that
//! holds all replacements, each ended by a zero byte. A unit has a label, a distance to the block of
//! its children and a mark that says whether a value is among them; the value is a place in the text.
//!
//! # How it is applied
//!
//! A grapheme cluster of at most five bytes is looked up as a whole, otherwise its characters are
//! looked up one by one. Of several entries that the looked-up text begins with, the **shortest** one
//! counts, and replaces all of it: that can make the rest of a cluster vanish. A cluster without an
//! entry is looked up by characters too, and a character without an entry stays as it is.
//!
//! # Tricks
//!
//! - ASCII characters that stay as they are get copied in runs. Nothing but a following mark can join
//!   an ASCII character in a cluster (line ends apart, which are looked at as clusters), so all but the
//!   last character of such a run are clusters of their own.
//! - The table is checked once, at load, so that no lookup can leave it.

use std::ops::ControlFlow;

use unicode_segmentation::UnicodeSegmentation as _;

/// Clusters from this length on are not looked up as a whole.
const LONG_CLUSTER: usize = 6;

/// The normalizer.
#[derive(Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    replacements: String,
    /// ASCII characters that stay as they are, less line ends.
    stays: [bool; 128],
}

/// What becomes of a part of a text: one or more characters, and what replaces them.
pub(super) struct Change<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

impl Charsmap {
    /// Reads the table; `None` unless every lookup in it is well defined.
    pub(super) fn from_base64(text: &str) -> Option<Self> {
        let bytes = decode_base64(text.as_bytes())?;
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        let (trie, replacements) = rest.split_at_checked(len)?;
        let (units, []) = trie.as_chunks::<4>() else { return None };
        let units: Vec<u32> = units.iter().map(|&unit| u32::from_le_bytes(unit)).collect();
        let replacements = String::from_utf8(replacements.to_vec()).ok()?;
        if units.is_empty() || !units.len().is_multiple_of(256) {
            return None;
        }
        let is_sound = |(place, &unit): (usize, &u32)| {
            // A unit with the highest bit holds a value: no label is equal to it.
            let children = place ^ distance(unit);
            unit >> 31 != 0
                || children < units.len()
                    && (!has_value(unit) || replacements.is_char_boundary(value(units[children])))
        };
        if !units.iter().enumerate().all(is_sound) {
            return None;
        }
        let mut charsmap = Self { units, replacements, stays: [false; 128] };
        for byte in (0..128_u8).filter(|byte| !matches!(byte, b'\r' | b'\n')) {
            let text = char::from(byte).to_string();
            charsmap.stays[usize::from(byte)] = charsmap.look_up(&text).is_none();
        }
        Some(charsmap)
    }

    /// What replaces `part`, by its shortest beginning that has an entry.
    fn look_up(&self, part: &str) -> Option<&str> {
        let mut place = distance(self.units[0]);
        for byte in part.bytes().take_while(|&byte| byte != 0) {
            place ^= usize::from(byte);
            let unit = self.units[place];
            if label(unit) != u32::from(byte) {
                return None;
            }
            place ^= distance(unit);
            if has_value(unit) {
                let rest = &self.replacements[value(self.units[place])..];
                return rest.split('\0').next();
            }
        }
        None
    }

    /// Appends the normalized form of `text`.
    pub(super) fn normalize_into(&self, text: &str, out: &mut String) {
        let _ = self.changes(text, |change| {
            out.push_str(change.after);
            ControlFlow::Continue(())
        });
    }

    /// Calls `take` with one part of the text after the other, until it breaks off.
    fn changes<'a>(
        &'a self,
        text: &'a str,
        mut take: impl FnMut(Change<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let mut plain = self.plain_run(rest.as_bytes());
            if plain < rest.len() && !rest.as_bytes()[plain].is_ascii() {
                plain = plain.saturating_sub(1);
            }
            if plain > 0 {
                let (before, others) = rest.split_at(plain);
                take(Change { before, after: before })?;
                rest = others;
            }
            let mut done = 0;
            for cluster in rest.graphemes(true) {
                done += cluster.len();
                self.change(cluster, &mut take)?;
                // Where plain text goes on, the run above is the faster way.
                if rest.as_bytes()[done..]
                    .first_chunk::<2>()
                    .is_some_and(|next| self.are_plain(*next))
                {
                    break;
                }
            }
            rest = &rest[done..];
        }
        ControlFlow::Continue(())
    }

    fn change<'a>(
        &'a self,
        cluster: &'a str,
        take: &mut impl FnMut(Change<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if cluster.len() < LONG_CLUSTER
            && let Some(after) = self.look_up(cluster)
        {
            return take(Change { before: cluster, after });
        }
        for (start, character) in cluster.char_indices() {
            let before = &cluster[start..start + character.len_utf8()];
            take(Change { before, after: self.look_up(before).unwrap_or(before) })?;
        }
        ControlFlow::Continue(())
    }

    /// Bytes of plain ASCII that `text` begins with.
    fn plain_run(&self, text: &[u8]) -> usize {
        text.iter().take_while(|&&byte| self.are_plain([byte])).count()
    }

    fn are_plain<const N: usize>(&self, bytes: [u8; N]) -> bool {
        bytes.iter().all(|&byte| byte.is_ascii() && self.stays[usize::from(byte)])
    }

    /// Bytes at the beginning of the normalized form that `tokenizers` traces back to the very first
    /// character of `text`.
    ///
    /// Those are the characters of the first replacement that is not empty. It is traced to as many
    /// characters as it replaces, so that it is its first character only where those are several. A
    /// replacement by nothing makes the character in front of it count for the removed one.
    pub(super) fn traced_to_first(&self, text: &str) -> usize {
        let mut traced = 0;
        let mut last = 0;
        let _ = self.parts_of_changes(text, |change| {
            if last > 0 {
                if change.after.is_empty() {
                    traced -= last;
                }
                return ControlFlow::Break(());
            }
            let mut characters = change.after.chars();
            let Some(first) = characters.next() else { return ControlFlow::Continue(()) };
            traced = first.len_utf8();
            if change.before.chars().nth(1).is_none()
                && let Some(final_one) = characters.next_back()
            {
                traced = change.after.len();
                last = final_one.len_utf8();
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(())
        });
        traced
    }

    /// Like [`changes`](Self::changes), but plain runs come as single characters.
    fn parts_of_changes<'a>(
        &'a self,
        text: &'a str,
        mut take: impl FnMut(Change<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        text.graphemes(true).try_for_each(|cluster| self.change(cluster, &mut take))
    }

    /// Whether every one of these texts becomes whitespace, and not nothing.
    pub(super) fn gives_whitespace(&self, texts: &[&str]) -> bool {
        texts.iter().all(|text| {
            let mut out = String::new();
            self.normalize_into(text, &mut out);
            !out.is_empty() && out.chars().all(char::is_whitespace)
        })
    }
}

fn distance(unit: u32) -> usize {
    (unit as usize >> 10) << ((unit & (1 << 9)) >> 6)
}

fn has_value(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xFF)
}

fn value(unit: u32) -> usize {
    (unit & !(1 << 31)) as usize
}

/// Whether a character joins a blank in front of it in one grapheme cluster.
pub(super) fn joins_blank_before(character: char) -> bool {
    !is_apart(character) && format!(" {character}").graphemes(true).count() == 1
}

/// Whether a character joins a blank behind it in one grapheme cluster.
pub(super) fn joins_blank_behind(character: char) -> bool {
    !is_apart(character) && format!("{character} ").graphemes(true).count() == 1
}

/// Characters that are known to join no blank on either side: the bulk of several scripts. Only for
/// speed; a test compares it with the rules.
fn is_apart(character: char) -> bool {
    matches!(
        character,
        '\0'..'\u{300}'
            | '\u{370}'..'\u{483}'
            | '\u{48A}'..'\u{590}'
            | '\u{5D0}'..'\u{5F0}'
            | '\u{620}'..'\u{64B}'
            | '\u{671}'..'\u{6D6}'
            | '\u{904}'..'\u{93A}'
            | '\u{E01}'..'\u{E31}'
            | '\u{E40}'..'\u{E47}'
            | '\u{1E00}'..'\u{200C}'
            | '\u{2010}'..'\u{20D0}'
            | '\u{2190}'..'\u{2C00}'
            | '\u{3001}'..'\u{302A}'
            | '\u{3041}'..'\u{3099}'
            | '\u{309B}'..'\u{A000}'
            | '\u{AC00}'..'\u{D7A4}'
            | '\u{FF01}'..'\u{FF9E}'
    )
}

/// Standard base64 with padding; `None` for anything else.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        Some(u32::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let (groups, []) = text.as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|&&byte| byte == b'=').count();
        if padding > 2 || padding > 0 && number + 1 < groups.len() {
            return None;
        }
        let mut bits = 0;
        for &byte in &group[..4 - padding] {
            bits = bits << 6 | digit(byte)?;
        }
        bits <<= 6 * padding;
        let [_, three @ ..] = bits.to_be_bytes();
        if three[3 - padding..].iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_apart_join_no_blank() {
        for character in ('\0'..=char::MAX).filter(|&character| is_apart(character)) {
            let around = format!(" {character} ");
            assert_eq!(around.graphemes(true).count(), 3, "{character:?}");
        }
        assert!(joins_blank_before('\u{301}') && joins_blank_before('\u{200D}'));
        assert!(joins_blank_behind('\u{600}') && !joins_blank_behind('\u{301}'));
    }

    #[test]
    fn only_plain_base64_is_read() {
        assert_eq!(decode_base64(b"AAEC/+8="), Some(vec![0, 1, 2, 0xFF, 0xEF]));
        assert_eq!(decode_base64(b"AA=="), Some(vec![0]));
        assert_eq!(decode_base64(b""), Some(vec![]));
        for text in ["A", "AAA", "AB==", "A===", "AA==AAAA", "AA*A", "AAA=\n"] {
            assert_eq!(decode_base64(text.as_bytes()), None, "{text}");
        }
    }
}
