//! `tokenizer.json`, read in one pass into plain values.
//!
//! This is the common ground of our own tokenizers: each family looks at a [`Definition`] and either
//! takes it, completely, or leaves it to the next. Nothing here interprets a pipeline.
//!
//! Strings of the vocabulary are borrowed from the file where it has no escapes in them. Pieces with scores
//! are handed to their list (`scored/`) one by one, as they are read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::scored::ScoredPieces;

/// The parts of a tokenizer file that decide on ids.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Definition<'a> {
    version: String,
    #[serde(default)]
    truncation: Option<Truncation>,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    /// How text is rewritten; `Null` if it is not.
    #[serde(default)]
    pub(super) normalizer: Value,
    /// How text is split; `Null` if it is not.
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    #[serde(borrow)]
    pub(super) model: Model<'a>,
}

#[derive(Debug, serde::Deserialize)]
struct Truncation {
    max_length: usize,
}

/// One entry of `added_tokens`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the file format")]
pub(super) struct AddedToken {
    /// Must be there; which id a token gets depends on the model's vocabulary and the order alone.
    #[serde(rename = "id")]
    pub(super) _id: u32,
    pub(super) content: String,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// The `model` section. Which fields mean something depends on `kind`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Model<'a> {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(borrow)]
    pub(super) vocab: Vocab<'a>,
    #[serde(borrow)]
    pub(super) merges: Option<Merges<'a>>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<usize>,
    pub(super) byte_fallback: bool,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    pub(super) max_input_chars_per_word: Option<usize>,
    pub(super) fuse_unk: bool,
    pub(super) ignore_merges: bool,
}

/// A vocabulary in the order of the file.
#[derive(Debug, Default)]
pub(super) enum Vocab<'a> {
    #[default]
    Missing,
    /// Tokens with their ids.
    Ids(Vec<(Cow<'a, str>, u32)>),
    /// Pieces with their scores.
    Scores(Box<ScoredPieces<'a>>),
}

/// Pairs of tokens that become one, the most important first.
#[derive(Debug, Default)]
pub(super) struct Merges<'a>(pub(super) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Definition<'a> {
    pub(super) fn read(json: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        // One validation of the whole file is faster than one for each string.
        let definition: Self = serde_json::from_str(simdutf8::compat::from_utf8(json)?)?;
        match definition.version.as_str() {
            "1.0" => Ok(definition),
            other => Err(format!("`version`: expected \"1.0\", found {other:?}").into()),
        }
    }

    /// The token limit that the file asks for.
    pub(super) fn max_length(&self) -> Option<usize> {
        self.truncation.as_ref().map(|truncation| truncation.max_length)
    }
}

/// The parts that the file asks for, in words.
impl fmt::Display for Definition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |section: &Value| match section {
            Value::Null => "none".to_owned(),
            section => section["type"].as_str().unwrap_or("of no known type").to_owned(),
        };
        let model = if self.model.kind.is_empty() { "of no type" } else { &self.model.kind };
        let (normalizer, pre_tokenizer) = (kind(&self.normalizer), kind(&self.pre_tokenizer));
        write!(f, "model {model}, normalizer {normalizer}, pre-tokenizer {pre_tokenizer}")
    }
}

/// A string that is borrowed from the file if it can be.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocab<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VocabVisitor;
        impl<'de> Visitor<'de> for VocabVisitor {
            type Value = Vocab<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tokens to ids or a list of pieces with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(1 << 15);
                while let Some((Text(token), id)) = map.next_entry()? {
                    entries.push((token, id));
                }
                Ok(Vocab::Ids(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let next = || Ok(list.next_element()?.map(|(Text(text), score)| (text, score)));
                Ok(Vocab::Scores(Box::new(ScoredPieces::read(next)?)))
            }
        }
        deserializer.deserialize_any(VocabVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Merges<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergesVisitor;
        impl<'de> Visitor<'de> for MergesVisitor {
            type Value = Merges<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of pairs of tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut merges = Vec::new();
                let mut spelling = None;
                while let Some(Pair(left, right, own)) = list.next_element()? {
                    if *spelling.get_or_insert(own) != own {
                        return Err(A::Error::custom("merges are all pairs or all lines"));
                    }
                    merges.push((left, right));
                }
                Ok(Merges(merges))
            }
        }
        deserializer.deserialize_seq(MergesVisitor)
    }
}

/// One merge: `["a", "b"]`, or `"a b"` in older files.
struct Pair<'a>(Cow<'a, str>, Cow<'a, str>, Spelling);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Pair,
    Line,
}

impl<'de: 'a, 'a> Deserialize<'de> for Pair<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairVisitor;
        impl<'de> Visitor<'de> for PairVisitor {
            type Value = Pair<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of tokens, or two tokens with a blank between them")
            }

            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                line: &'de str,
            ) -> Result<Self::Value, E> {
                let (left, right) = halves(line)?;
                Ok(Pair(Cow::Borrowed(left), Cow::Borrowed(right), Spelling::Line))
            }

            fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Self::Value, E> {
                let (left, right) = halves(line)?;
                Ok(Pair(Cow::Owned(left.to_owned()), Cow::Owned(right.to_owned()), Spelling::Line))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut next = || list.next_element::<Text<'de>>();
                let (Some(Text(left)), Some(Text(right))) = (next()?, next()?) else {
                    return Err(A::Error::custom("a merge has two tokens"));
                };
                match list.next_element::<IgnoredAny>()? {
                    None => Ok(Pair(left, right, Spelling::Pair)),
                    Some(_) => Err(A::Error::custom("a merge has two tokens")),
                }
            }
        }
        deserializer.deserialize_any(PairVisitor)
    }
}

fn halves<E: serde::de::Error>(line: &str) -> Result<(&str, &str), E> {
    match line.split_once(' ') {
        // A comment in files of old; the crate skips it.
        Some(_) if line.starts_with("#version") => Err(E::custom("a line with a version")),
        Some((left, right)) if !right.contains(' ') => Ok((left, right)),
        _ => Err(E::custom("a merge has two tokens with one blank between them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Definition<'_>, Box<dyn std::error::Error + Send + Sync>> {
        Definition::read(json.as_bytes())
    }

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let json = r#"{"version":"1.0","model":{"type":"WordPiece","vocab":{"a":0,"\u00e9":1}}}"#;
        let definition = read(json).expect("valid");
        let Vocab::Ids(entries) = definition.model.vocab else { panic!("a map of ids") };
        assert!(matches!(entries[0], (Cow::Borrowed("a"), 0)));
        assert!(matches!(&entries[1], (Cow::Owned(text), 1) if text == "é"));
        assert!(definition.normalizer.is_null() && definition.pre_tokenizer.is_null());
    }

    #[test]
    fn both_spellings_of_merges_are_read() {
        for (merges, expected) in [
            (r#"["a b","c d"]"#, [("a", "b"), ("c", "d")]),
            (r#"[["a","b"],["c","d e"]]"#, [("a", "b"), ("c", "d e")]),
        ] {
            let json = format!(
                r#"{{"version":"1.0","truncation":{{"max_length":7,"stride":0}},
                "model":{{"type":"BPE","vocab":{{}},"merges":{merges}}}}}"#
            );
            let definition = read(&json).expect("valid");
            assert_eq!(definition.max_length(), Some(7));
            let merges = definition.model.merges.expect("there are merges").0;
            assert_eq!(merges, expected.map(|(left, right)| (left.into(), right.into())));
        }
    }

    #[test]
    fn pieces_keep_their_order_and_scores() {
        let json = r#"{"version":"1.0","model":{"type":"Unigram","unk_id":1,"vocab":[["a",-1.5],["\u2581",0],["",2]]}}"#;
        let definition = read(json).expect("valid");
        let Vocab::Scores(pieces) = definition.model.vocab else { panic!("a list of scores") };
        assert!(pieces.texts().eq(["a", "▁", ""]));
        assert_eq!(pieces.scores(), [-1.5, 0.0, 2.0]);
        assert_eq!(definition.model.unk_id, Some(1));
    }

    /// A Unigram file with 100,000 pieces, one of which is written as `piece`.
    fn long_list(piece: &str) -> String {
        let mut pieces: Vec<String> =
            (0..100_000).map(|id| format!(r#"["▁{id}",-{id}.5]"#)).collect();
        piece.clone_into(&mut pieces[70_000]);
        let pieces = pieces.join(",");
        format!(r#"{{"version":"1.0","model":{{"type":"Unigram","vocab":[{pieces}]}}}}"#)
    }

    #[test]
    fn a_long_list_of_pieces_keeps_escapes_and_scores() {
        let json = long_list(r#"["\u2581\"a\\",-0.25]"#);
        let definition = read(&json).expect("valid");
        let Vocab::Scores(pieces) = definition.model.vocab else { panic!("a list of scores") };
        assert_eq!(pieces.len(), 100_000);
        assert_eq!((pieces.text(70_000), pieces.scores()[70_000]), ("▁\"a\\", -0.25));
        assert_eq!((pieces.text(99_999), pieces.scores()[99_999]), ("▁99999", -99999.5));
        let sorted = pieces.sorted().expect("all differ");
        assert!(sorted.is_sorted_by_key(|piece| pieces.text(piece.id as usize)));
    }

    #[test]
    fn an_error_in_a_long_list_is_that_of_the_file() {
        for piece in [r#"["a"]"#, r#"["a",1,2]"#, r#"["a","b"]"#, "7", r#"["a",1"#, r#"["\x",1]"#] {
            let error = read(&long_list(piece)).expect_err(piece).to_string();
            assert!(error.contains(" at line 1 column "), "{piece}: {error}");
        }
    }

    #[test]
    fn a_file_is_named_by_its_parts() {
        let json = r#"{"version":"1.0","normalizer":{"type":"NFC"},"pre_tokenizer":[],"model":{"type":"BPE"}}"#;
        let shown = read(json).expect("valid").to_string();
        assert_eq!(shown, "model BPE, normalizer NFC, pre-tokenizer of no known type");
    }

    #[test]
    fn what_is_not_such_a_file_is_refused() {
        for json in [
            "",
            "[]",
            r#"{"version":"1.0"}"#,
            r#"{"version":"2.0","model":{}}"#,
            r#"{"version":"1.0","model":{"vocab":7}}"#,
            r#"{"version":"1.0","model":{"merges":["abc"]}}"#,
            r#"{"version":"1.0","model":{"merges":["a b",["c","d"]]}}"#,
            r##"{"version":"1.0","model":{"merges":["#version 0.2"]}}"##,
            r#"{"version":"1.0","model":{},"added_tokens":[{"content":"a","single_word":false,
                "lstrip":false,"rstrip":false,"normalized":false,"special":false}]}"#,
            r#"{"version":"1.0","model":{"merges":[["a"]]}}"#,
            r#"{"version":"1.0","model":{"merges":[["a","b","c"]]}}"#,
            "{\"version\":\"1.0\",\"model\":{\"type\":\"\u{0}\"}}",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(Definition::read(b"\xff").is_err());
    }
}
