//! Which pre-tokenizers are served.

use serde_json::Value;

use super::pretokenize::Splitter;

/// What happens between normalizing and merging; the translation of bytes to the alphabet of the
/// vocabulary is part of all pipelines here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pipeline {
    pub(super) splitter: Splitter,
    /// Whether a blank is put before a stretch of text that does not begin with one. Each stretch
    /// between added tokens counts, not just the first one of a text.
    pub(super) adds_blank: bool,
}

impl Pipeline {
    /// `ByteLevel` with or without its pattern, alone or behind a `Split` with a known pattern.
    pub(super) fn from_json(json: &Value) -> Option<Self> {
        let steps = match (json["type"].as_str()?, json["pretokenizers"].as_array()) {
            ("Sequence", Some(steps)) => steps.as_slice(),
            _ => std::slice::from_ref(json),
        };
        match steps {
            [byte_level] => {
                let (adds_blank, splits) = byte_level_flags(byte_level)?;
                let splitter = if splits { Splitter::Gpt2 } else { Splitter::Whole };
                Some(Self { splitter, adds_blank })
            }
            // With a blank, each word would get one, and with its own pattern be split once more.
            [split, byte_level] if byte_level_flags(byte_level)? == (false, false) => {
                let is_plain = split["type"] == "Split"
                    && split["behavior"] == "Isolated"
                    && split["invert"].is_boolean();
                let pattern = split["pattern"]["Regex"].as_str().filter(|_| is_plain)?;
                Some(Self { splitter: Splitter::from_pattern(pattern)?, adds_blank: false })
            }
            _ => None,
        }
    }
}

/// `add_prefix_space` and `use_regex`.
fn byte_level_flags(json: &Value) -> Option<(bool, bool)> {
    if json["type"] != "ByteLevel" {
        return None;
    }
    json["trim_offsets"].as_bool()?;
    // Files from before there was a choice do not say; `null` is not an answer.
    let splits = json.get("use_regex").map_or(Some(true), Value::as_bool)?;
    Some((json["add_prefix_space"].as_bool()?, splits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    fn byte_level(add_prefix_space: bool, use_regex: bool) -> Value {
        json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
            "use_regex": use_regex})
    }

    fn split(pattern: &str, behavior: &str) -> Value {
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": false})
    }

    #[track_caller]
    fn check(json: &Value, splitter: Splitter, adds_blank: bool) {
        assert_eq!(Pipeline::from_json(json), Some(Pipeline { splitter, adds_blank }));
    }

    #[test]
    fn byte_level_stands_alone_or_behind_a_known_pattern() {
        check(&byte_level(true, true), Splitter::Gpt2, true);
        check(&byte_level(false, false), Splitter::Whole, false);
        let old = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
        check(&old, Splitter::Gpt2, false);
        let steps = [split(QWEN2, "Isolated"), byte_level(false, false)];
        let sequence = json!({"type": "Sequence", "pretokenizers": steps});
        check(&sequence, Splitter::Llama3 { digits: 1 }, false);
        let nested = json!({"type": "Sequence", "pretokenizers": [byte_level(true, false)]});
        check(&nested, Splitter::Whole, true);
    }

    #[test]
    fn anything_else_is_left_to_others() {
        let sequence = |steps: &[Value]| json!({"type": "Sequence", "pretokenizers": steps});
        for json in [
            Value::Null,
            json!({"type": "Whitespace"}),
            json!({"type": "ByteLevel", "add_prefix_space": false}),
            json!({"type": "ByteLevel", "add_prefix_space": 1, "trim_offsets": true}),
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": null}),
            sequence(&[]),
            sequence(&[split(QWEN2, "Isolated")]),
            sequence(&[split(QWEN2, "Removed"), byte_level(false, false)]),
            sequence(&[split(QWEN2, "Isolated"), byte_level(true, false)]),
            sequence(&[split(QWEN2, "Isolated"), byte_level(false, true)]),
            sequence(&[split(r"\p{L}+", "Isolated"), byte_level(false, false)]),
            sequence(&[
                json!({"type": "Digits", "individual_digits": true}),
                byte_level(false, true),
            ]),
        ] {
            assert_eq!(Pipeline::from_json(&json), None, "{json}");
        }
    }
}
