//! What happens to a text before it is split: in byte-level tokenizers nothing, or a Unicode form.
//!
//! The forms come from the crate that the `tokenizers` crate takes them from, as do their Unicode
//! version and its mistakes. Most texts are left as they are, and this module is about seeing that
//! quickly:
//!
//! - ASCII is the same in all four Unicode forms, and its small letters are the capitals plus 32.
//! - NFC has *inert* characters: they stay as they are, whatever they stand beside. A text of inert
//!   characters does not change; in another one, only the stretches without inert characters do, each
//!   with the one inert character before it (a letter with the accents that follow it). So what is
//!   composed is a handful of characters. [`is_inert`] knows fewer than there are, which costs time
//!   and never the result.

use serde_json::Value;
use unicode_normalization_alignments::UnicodeNormalization as _;

use super::super::lowercase::lowercase_into;

/// The normalizer of a tokenizer: its steps in order.
#[derive(Debug)]
pub(super) struct Normalizer {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
}

impl Normalizer {
    /// `None` if it does anything that is not described above.
    pub(super) fn from_json(json: &Value) -> Option<Self> {
        let step = |json: &Value| match json["type"].as_str()? {
            "NFC" => Some(Step::Nfc),
            "NFD" => Some(Step::Nfd),
            "NFKC" => Some(Step::Nfkc),
            "NFKD" => Some(Step::Nfkd),
            "Lowercase" => Some(Step::Lowercase),
            _ => None,
        };
        let steps: Option<Vec<Step>> = match (json, json["type"].as_str()) {
            (Value::Null, _) => Some(Vec::new()),
            (_, Some("Sequence")) => json["normalizers"].as_array()?.iter().map(step).collect(),
            _ => Some(vec![step(json)?]),
        };
        Some(Self { steps: steps? })
    }

    /// The normalized text; `buffer` is a place for it.
    #[inline]
    pub(super) fn apply<'a>(&self, text: &'a str, buffer: &'a mut String) -> &'a str {
        if self.steps.is_empty() {
            return text;
        }
        if text.is_ascii() {
            return self.apply_to_ascii(text, buffer);
        }
        if self.steps == [Step::Nfc] {
            return nfc(text, buffer);
        }
        buffer.clear();
        buffer.push_str(text);
        for step in &self.steps {
            *buffer = match step {
                Step::Nfc => buffer.nfc().map(|(character, _)| character).collect(),
                Step::Nfd => buffer.nfd().map(|(character, _)| character).collect(),
                Step::Nfkc => buffer.nfkc().map(|(character, _)| character).collect(),
                Step::Nfkd => buffer.nfkd().map(|(character, _)| character).collect(),
                Step::Lowercase => {
                    let mut lower = String::with_capacity(buffer.len());
                    lowercase_into(buffer, &mut lower);
                    lower
                }
            };
        }
        buffer
    }

    fn apply_to_ascii<'a>(&self, text: &'a str, buffer: &'a mut String) -> &'a str {
        if !self.steps.contains(&Step::Lowercase) {
            return text;
        }
        buffer.clear();
        lowercase_into(text, buffer);
        buffer
    }
}

fn nfc<'a>(text: &'a str, buffer: &'a mut String) -> &'a str {
    buffer.clear();
    let mut done = 0;
    // Where the last inert character begins: it belongs to the stretch behind it.
    let mut last_inert = 0;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        if is_inert(character) {
            last_inert = at;
            continue;
        }
        let next = characters.find(|&(_, character)| is_inert(character));
        let end = next.map_or(text.len(), |(at, _)| at);
        buffer.push_str(&text[done..last_inert]);
        buffer.extend(text[last_inert..end].nfc().map(|(character, _)| character));
        (done, last_inert) = (end, end);
    }
    if done == 0 {
        return text;
    }
    buffer.push_str(&text[done..]);
    buffer
}

/// Whether NFC leaves a character alone, beside whatever others: it is a starter, has no other form
/// and does not join the character before it.
#[inline]
fn is_inert(character: char) -> bool {
    matches!(u32::from(character),
        // Latin; a part of Greek, Cyrillic, Hebrew, Arabic, Thai and Georgian each.
        ..0x300
        | 0x388..=0x482 | 0x48A..=0x590 | 0x5D0..=0x5F4 | 0x621..=0x64A | 0x660..=0x66F
        | 0x671..=0x6D3 | 0x905..=0x939 | 0xE01..=0xE37 | 0xE40..=0xE47 | 0x10A0..=0x10FF
        | 0x1E00..=0x1EFF
        // Punctuation, symbols, joiners.
        | 0x2002..=0x20CF | 0x2100..=0x2125 | 0x212C..=0x2328 | 0x232B..=0x2ADB | 0x2B00..=0x2BFF
        // Chinese, Japanese, Korean.
        | 0x3000..=0x3029 | 0x3030..=0x3098 | 0x309B..=0xA4CF | 0xAC00..=0xD7A3
        // Private use, variation selectors, wide forms, emoji, more Chinese.
        | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFF00..=0xFFFD | 0x1F000..=0x1FAFF
        | 0x20000..=0x2F7FF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tokenizers::normalizers::NormalizerWrapper;
    use tokenizers::{NormalizedString, Normalizer as _};

    fn normalizer(json: &Value) -> Normalizer {
        Normalizer::from_json(json).expect("one that is known")
    }

    /// What the `tokenizers` crate makes of a text.
    fn form(json: &Value, text: &str) -> String {
        let wrapper: NormalizerWrapper = serde_json::from_value(json.clone()).expect("valid");
        let mut normalized = NormalizedString::from(text);
        wrapper.normalize(&mut normalized).expect("cannot fail");
        normalized.get().to_owned()
    }

    #[test]
    fn inert_characters_are_left_alone_by_nfc() {
        let (nfc, nfd) = (json!({"type": "NFC"}), json!({"type": "NFD"}));
        for character in ('\0'..=char::MAX).filter(|&character| is_inert(character)) {
            let text = character.to_string();
            assert_eq!(form(&nfc, &text), text, "{character:?}");
            // U+0345 has the highest combining class: any other mark moves before it.
            let behind_mark = format!("\u{345}{character}");
            assert_eq!(form(&nfc, &behind_mark), behind_mark, "{character:?}");
        }
        for character in '\0'..=char::MAX {
            let parts = form(&nfd, &character.to_string());
            for joined in parts.chars().skip(1) {
                assert!(!is_inert(joined), "{joined:?}, part of {character:?}");
            }
        }
    }

    #[test]
    fn other_normalizers_are_not_taken() {
        for json in [
            json!({"type": "Strip", "strip_left": true, "strip_right": true}),
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "StripAccents"}]}),
            json!({}),
            json!("NFC"),
        ] {
            assert!(Normalizer::from_json(&json).is_none(), "{json}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn texts_become_what_the_tokenizers_crate_makes_of_them(
            text in "([a-zA-Z é\u{AC00}\u{1100}-\u{1102}\u{1161}-\u{1163}\u{11A8}-\u{11AA}\u{300}-\u{345}\u{93C}\u{915}\u{93C}\u{92F}\u{93C}İ\u{3A3}ſ\u{FB01}\u{212B}\u{304B}\u{3099}\u{4E2D}]|\\PC){0,12}",
        ) {
            for json in [
                json!({"type": "NFC"}),
                json!({"type": "NFD"}),
                json!({"type": "NFKC"}),
                json!({"type": "Lowercase"}),
                json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}),
                json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "NFC"}]}),
            ] {
                let expected = form(&json, &text);
                let mut buffer = "something else".to_owned();
                prop_assert_eq!(normalizer(&json).apply(&text, &mut buffer), expected, "{}", json);
            }
            let mut buffer = String::new();
            prop_assert_eq!(normalizer(&Value::Null).apply(&text, &mut buffer), &text);
        }
    }
}
