//! The rules of BERT for single characters: rewriting (`BertNormalizer`) and splitting
//! (`BertPreTokenizer`).
//!
//! The normalizer has up to four steps: cleaning (control characters vanish, whitespace becomes a
//! blank), blanks around CJK ideographs, decomposing with removal of accents, and lower-casing. All
//! but one thing in them happen to each character alone, so that the whole normalizer is a function
//! from a character to a short text, which is computed once for each character, by the very tables
//! that the `tokenizers` crate uses, and kept in pages of 256.
//!
//! The one thing is canonical order: decomposing sorts neighboring combining marks by their class.
//! Marks that are removed as accents have no say in it, since the sort is stable. For the few others,
//! [`Marks`] holds them back until a character of class 0 comes, which no mark may pass.

use std::fmt;
use std::sync::OnceLock;

use serde_json::Value;
use unicode_categories::UnicodeCategories as _;
use unicode_normalization_alignments::char::{canonical_combining_class, decompose_canonical};

const PAGE: usize = 256;
const PAGES: usize = (char::MAX as usize + 1) / PAGE;

/// A `BertNormalizer` with its settings and the characters that it has met.
pub(super) struct BertNormalizer {
    settings: Settings,
    pages: Box<[OnceLock<Box<Page>>]>,
}

/// The settings of the four steps, as the file names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the four flags of the file format")]
pub(super) struct Settings {
    pub(super) clean_text: bool,
    pub(super) handle_chinese_chars: bool,
    pub(super) strip_accents: bool,
    pub(super) lowercase: bool,
}

/// What becomes of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rewritten<'n> {
    /// Nothing, and its neighbors touch.
    Nothing,
    /// A blank or other whitespace: words end here.
    Space(char),
    /// A character of a word.
    Word(char),
    /// Punctuation: a word of its own.
    Punctuation(char),
    /// An ideograph with blanks around it: a word of its own.
    Padded(char),
    /// Anything else, piece by piece.
    Pieces(&'n [Piece]),
}

/// A part of what a character becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// `None` for an accent of class 0 that was removed: it still keeps marks apart.
    pub(super) character: Option<char>,
    /// The class of the character.
    pub(super) class: Class,
    /// Canonical combining class, where marks are sorted by it; 0 otherwise.
    pub(super) combining_class: u8,
}

/// How the pre-tokenizer treats a character of normalized text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Word,
    Space,
    Punctuation,
}

/// The class of a character of normalized text.
pub(super) fn class(character: char) -> Class {
    if character.is_whitespace() {
        Class::Space
    } else if character.is_ascii_punctuation() || character.is_punctuation() {
        Class::Punctuation
    } else {
        Class::Word
    }
}

impl BertNormalizer {
    /// Reads the settings; `None` if this is not a complete `BertNormalizer`.
    pub(super) fn from_json(section: &Value) -> Option<Self> {
        let flag = |name: &str| section.get(name)?.as_bool();
        let lowercase = flag("lowercase")?;
        let strip_accents = match section.get("strip_accents") {
            None | Some(Value::Null) => lowercase,
            Some(value) => value.as_bool()?,
        };
        let settings = Settings {
            clean_text: flag("clean_text")?,
            handle_chinese_chars: flag("handle_chinese_chars")?,
            strip_accents,
            lowercase,
        };
        (section.get("type")? == "BertNormalizer").then(|| Self::new(settings))
    }

    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, pages: (0..PAGES).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings
    }

    /// What becomes of `character`.
    #[inline]
    pub(super) fn rewrite(&self, character: char) -> Rewritten<'_> {
        let (page, place) = (character as usize / PAGE, character as usize % PAGE);
        let page = self.pages[page].get_or_init(|| Box::new(Page::new(page, self.settings)));
        page.get(place)
    }

    /// Appends the normalized form of `text`.
    pub(super) fn normalize_into(&self, text: &str, out: &mut String) {
        let mut marks = Marks::default();
        let mut give = |marks: &mut Marks, piece: Piece| match piece.character {
            Some(mark) if piece.combining_class > 0 => marks.hold(piece.combining_class, mark),
            character => {
                out.extend(std::iter::from_fn(|| marks.next()));
                out.extend(character);
            }
        };
        for character in text.chars() {
            match self.rewrite(character) {
                Rewritten::Nothing => {}
                Rewritten::Space(c) | Rewritten::Word(c) | Rewritten::Punctuation(c) => {
                    give(&mut marks, Piece::starter(c));
                }
                Rewritten::Padded(c) => {
                    for piece in [BLANK, Piece::starter(c), BLANK] {
                        give(&mut marks, piece);
                    }
                }
                Rewritten::Pieces(pieces) => {
                    for &piece in pieces {
                        give(&mut marks, piece);
                    }
                }
            }
        }
        out.extend(std::iter::from_fn(|| marks.next()));
    }
}

impl fmt::Debug for BertNormalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

/// Combining marks that wait for their canonical order.
///
/// They are held until a character of class 0 or the end of the text comes, and then taken out by
/// [`next`](Self::next) until there is none left.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Class and mark.
    held: Vec<(u8, char)>,
    /// How many of them were given out; they are in order from the first one on.
    given: usize,
}

impl Marks {
    /// Whether no mark waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.given = 0;
    }

    /// Holds a mark of a class that is not 0.
    pub(super) fn hold(&mut self, combining_class: u8, mark: char) {
        self.held.push((combining_class, mark));
    }

    /// The next mark in order.
    pub(super) fn next(&mut self) -> Option<char> {
        if self.given == 0 {
            self.held.sort_by_key(|&(class, _)| class);
        }
        let next = self.held.get(self.given).map(|&(_, mark)| mark);
        self.given += 1;
        if next.is_none() {
            self.clear();
        }
        next
    }
}

/// What becomes of 256 neighboring characters.
struct Page {
    /// A kind in the highest byte; below it a character, or a place in `pieces`.
    entries: [u32; PAGE],
    /// Lists of pieces; the entry has the first one, and their number in [`COUNT_SHIFT`].
    pieces: Vec<Piece>,
}

const KIND_SHIFT: u32 = 24;
const COUNT_SHIFT: u32 = 16;
const NOTHING: u32 = 0;
const SPACE: u32 = 1;
const WORD: u32 = 2;
const PUNCTUATION: u32 = 3;
const PADDED: u32 = 4;
const PIECES: u32 = 5;

impl Page {
    fn new(number: usize, settings: Settings) -> Self {
        let mut page = Self { entries: [NOTHING << KIND_SHIFT; PAGE], pieces: Vec::new() };
        let mut pieces = Vec::new();
        for place in 0..PAGE {
            let code = u32::try_from(number * PAGE + place).ok();
            let Some(character) = code.and_then(char::from_u32) else { continue };
            pieces.clear();
            settings.rewrite(character, &mut pieces);
            page.entries[place] = page.entry(&pieces);
        }
        page
    }

    fn entry(&mut self, pieces: &[Piece]) -> u32 {
        let single = |kind: u32, character: char| kind << KIND_SHIFT | u32::from(character);
        match *pieces {
            [] => NOTHING << KIND_SHIFT,
            [Piece { character: Some(c), combining_class: 0, class }] => match class {
                Class::Space => single(SPACE, c),
                Class::Punctuation => single(PUNCTUATION, c),
                Class::Word => single(WORD, c),
            },
            [
                BLANK,
                Piece { character: Some(c), combining_class: 0, class: Class::Word },
                BLANK,
            ] => single(PADDED, c),
            _ => {
                // At most 256 characters with less than 20 pieces each: both numbers fit.
                let fits = |number: usize| u32::try_from(number).expect("a page has few pieces");
                let (place, count) = (fits(self.pieces.len()), fits(pieces.len()));
                self.pieces.extend(pieces);
                PIECES << KIND_SHIFT | count << COUNT_SHIFT | place
            }
        }
    }

    #[inline]
    fn get(&self, place: usize) -> Rewritten<'_> {
        let entry = self.entries[place];
        let payload = entry & ((1 << KIND_SHIFT) - 1);
        // Payloads of these kinds were made of a `char`.
        let character = || char::from_u32(payload).unwrap_or(char::REPLACEMENT_CHARACTER);
        match entry >> KIND_SHIFT {
            SPACE => Rewritten::Space(character()),
            WORD => Rewritten::Word(character()),
            PUNCTUATION => Rewritten::Punctuation(character()),
            PADDED => Rewritten::Padded(character()),
            PIECES => {
                let first = (payload & ((1 << COUNT_SHIFT) - 1)) as usize;
                let count = (payload >> COUNT_SHIFT) as usize;
                Rewritten::Pieces(&self.pieces[first..first + count])
            }
            _ => Rewritten::Nothing,
        }
    }
}

const BLANK: Piece = Piece { character: Some(' '), class: Class::Space, combining_class: 0 };

impl Piece {
    /// A character that is not sorted.
    fn starter(character: char) -> Self {
        Self { character: Some(character), class: class(character), combining_class: 0 }
    }
}

impl Settings {
    /// The normalizer that changes nothing.
    pub(super) const NOTHING: Self = Self {
        clean_text: false,
        handle_chinese_chars: false,
        strip_accents: false,
        lowercase: false,
    };

    /// The four steps for one character.
    fn rewrite(self, mut character: char, out: &mut Vec<Piece>) {
        if self.clean_text {
            if is_cleaned_away(character) {
                return;
            }
            if character.is_whitespace() {
                character = ' ';
            }
        }
        let padded = self.handle_chinese_chars && is_chinese(character);
        if padded {
            out.push(BLANK);
        }
        if self.strip_accents {
            decompose_canonical(character, |part| self.push_part(part, out));
        } else {
            self.push_lower(character, 0, out);
        }
        if padded {
            out.push(BLANK);
        }
    }

    /// A part of a decomposed character, unless it is an accent.
    fn push_part(self, part: char, out: &mut Vec<Piece>) {
        let combining_class = canonical_combining_class(part);
        if !part.is_mark_nonspacing() {
            self.push_lower(part, combining_class, out);
        } else if combining_class == 0 {
            out.push(Piece { character: None, class: Class::Word, combining_class });
        }
    }

    fn push_lower(self, character: char, combining_class: u8, out: &mut Vec<Piece>) {
        let mut push = |c| out.push(Piece { combining_class, ..Piece::starter(c) });
        if self.lowercase {
            character.to_lowercase().for_each(push);
        } else {
            push(character);
        }
    }
}

fn is_cleaned_away(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | char::REPLACEMENT_CHARACTER => true,
        _ => character.is_other(),
    }
}

/// The ranges of the original BERT, with its gap before U+2B920.
fn is_chinese(character: char) -> bool {
    matches!(
        character,
        '\u{3400}'..='\u{4DBF}'
            | '\u{4E00}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{2A6DF}'
            | '\u{2A700}'..='\u{2B73F}'
            | '\u{2B740}'..='\u{2B81F}'
            | '\u{2B920}'..='\u{2CEAF}'
            | '\u{2F800}'..='\u{2FA1F}'
    )
}

#[cfg(test)]
mod tests {
    use tokenizers::{NormalizedString, Normalizer as _};

    use super::*;

    fn every_setting() -> impl Iterator<Item = Settings> {
        (0..16).map(|bits| Settings {
            clean_text: bits & 1 != 0,
            handle_chinese_chars: bits & 2 != 0,
            strip_accents: bits & 4 != 0,
            lowercase: bits & 8 != 0,
        })
    }

    fn reference(settings: Settings, text: &str) -> String {
        let Settings { clean_text, handle_chinese_chars, strip_accents, lowercase } = settings;
        let mut normalized = NormalizedString::from(text);
        tokenizers::normalizers::BertNormalizer::new(
            clean_text,
            handle_chinese_chars,
            Some(strip_accents),
            lowercase,
        )
        .normalize(&mut normalized)
        .expect("this normalizer cannot fail");
        normalized.get().to_owned()
    }

    #[track_caller]
    fn check(settings: Settings, text: &str) {
        let mut out = String::new();
        BertNormalizer::new(settings).normalize_into(text, &mut out);
        assert_eq!(out, reference(settings, text), "{settings:?} {text:?}");
    }

    #[test]
    fn every_character_between_two_letters_is_rewritten_as_the_reference_does() {
        for settings in every_setting() {
            let normalizer = BertNormalizer::new(settings);
            // One text for each page: `A` is a starter and keeps characters apart.
            for page in 0..PAGES {
                let codes = (page * PAGE..(page + 1) * PAGE)
                    .filter_map(|code| u32::try_from(code).ok().and_then(char::from_u32));
                let text: String = codes.flat_map(|character| ['A', character]).collect();
                let mut out = String::new();
                normalizer.normalize_into(&text, &mut out);
                assert_eq!(out, reference(settings, &text), "page {page:x}, {settings:?}");
            }
        }
    }

    #[test]
    fn marks_are_sorted_between_characters_of_class_zero() {
        for settings in every_setting() {
            for text in [
                "\u{302E}\u{302F}\u{1D16D}a\u{1D165}\u{302E}",
                "e\u{1D16D}\u{302E}\u{0300}\u{1D165}x",
                "\u{302E}\u{200B}\u{1D165}\u{FFFD}\u{302F}",
                "\u{302E}\u{0C3E}\u{1D165}",
                "\u{302E}\u{20DD}\u{1D165}\u{0903}\u{1D165}\u{302E} \u{1D165}",
            ] {
                check(settings, text);
            }
        }
    }

    #[test]
    fn settings_are_read_strictly() {
        let read = |json: &str| {
            let section = serde_json::from_str(json).expect("valid JSON");
            BertNormalizer::from_json(&section).map(|normalizer| normalizer.settings())
        };
        let full = r#"{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":false,
            "strip_accents":null,"lowercase":true}"#;
        let expected = Settings {
            clean_text: true,
            handle_chinese_chars: false,
            strip_accents: true,
            lowercase: true,
        };
        assert_eq!(read(full), Some(expected));
        assert_eq!(read(&full.replace("true}", "false}")).map(|s| s.strip_accents), Some(false));
        assert_eq!(read(&full.replace("BertN", "N")), None);
        assert_eq!(read(&full.replace(r#""clean_text":true,"#, "")), None);
        assert_eq!(read("null"), None);
    }
}
