//! What happens to a text before it is split: in byte-level tokenizers nothing, or a Unicode form.
//!
//! Most texts are left as they are, and this module is about seeing that quickly; a text that does
//! change goes through the normalizer of the `tokenizers` crate itself.
//!
//! - ASCII is the same in all four Unicode forms, and its small letters are the capitals plus 32.
//! - NFC has *inert* characters: they stay as they are, whatever they stand beside. A text of inert
//!   characters does not change; in another one, only the stretches without inert characters do, each
//!   with the one inert character before it (a letter with the accents that follow it). So what is
//!   handed over is a handful of characters. [`is_inert`] knows fewer than there are, which costs time
//!   and never the result.

use serde_json::Value;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::{NormalizedString, Normalizer as _};

/// The normalizer of a tokenizer.
#[derive(Debug)]
pub(super) struct Normalizer {
    steps: Steps,
}

#[derive(Debug)]
enum Steps {
    None,
    Nfc(NormalizerWrapper),
    /// Unicode forms and lowercase in any order.
    Forms {
        lowercase: bool,
        all: NormalizerWrapper,
    },
}

impl Normalizer {
    /// `None` if it does anything that is not described above.
    pub(super) fn from_json(json: &Value) -> Option<Self> {
        if json.is_null() {
            return Some(Self { steps: Steps::None });
        }
        let mut lowercase = false;
        let is_known = |step: &Value| match step["type"].as_str() {
            Some("NFC" | "NFD" | "NFKC" | "NFKD") => true,
            Some("Lowercase") => {
                lowercase = true;
                true
            }
            _ => false,
        };
        let all_known = match (json["type"].as_str(), json["normalizers"].as_array()) {
            (Some("Sequence"), Some(steps)) => steps.iter().all(is_known),
            _ => [json].into_iter().all(is_known),
        };
        if !all_known {
            return None;
        }
        let all = serde_json::from_value(json.clone()).ok()?;
        Some(Self {
            steps: match all {
                NormalizerWrapper::NFC(_) => Steps::Nfc(all),
                _ => Steps::Forms { lowercase, all },
            },
        })
    }

    /// The normalized text; `buffer` is a place for it.
    #[inline]
    pub(super) fn apply<'a>(&self, text: &'a str, buffer: &'a mut String) -> &'a str {
        match &self.steps {
            Steps::None => text,
            Steps::Nfc(_) if text.is_ascii() => text,
            Steps::Nfc(nfc) => nfc_of(nfc, text, buffer),
            Steps::Forms { lowercase: false, .. } if text.is_ascii() => text,
            Steps::Forms { all, .. } => {
                buffer.clear();
                if text.is_ascii() {
                    buffer.push_str(text);
                    buffer.make_ascii_lowercase();
                } else {
                    push_normalized(all, text, buffer);
                }
                buffer
            }
        }
    }
}

fn push_normalized(normalizer: &NormalizerWrapper, text: &str, out: &mut String) {
    let mut normalized = NormalizedString::from(text);
    normalizer.normalize(&mut normalized).expect("Unicode forms and lowercase cannot fail");
    out.push_str(normalized.get());
}

fn nfc_of<'a>(nfc: &NormalizerWrapper, text: &'a str, buffer: &'a mut String) -> &'a str {
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
        let end =
            characters.find(|&(_, character)| is_inert(character)).map_or(text.len(), |(at, _)| at);
        buffer.push_str(&text[done..last_inert]);
        push_normalized(nfc, &text[last_inert..end], buffer);
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

    fn normalizer(json: &Value) -> Normalizer {
        Normalizer::from_json(json).expect("one that is known")
    }

    fn form(json: &Value, text: &str) -> String {
        let wrapper = serde_json::from_value(json.clone()).expect("valid");
        let mut out = String::new();
        push_normalized(&wrapper, text, &mut out);
        out
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
            text in "([a-zA-Z é가ᄀ-나-ᅣᆨ-ᆪ\u{300}-\u{345}\u{93C}क़य़İΣſ\u{FB01}\u{212B}か\u{3099}中]|\\PC){0,12}",
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
