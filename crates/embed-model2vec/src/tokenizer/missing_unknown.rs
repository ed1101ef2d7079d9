//! Vocabularies without an unknown token.
//!
//! WordPiece, WordLevel and Unigram models refuse a whole text when it holds a character that they
//! have no token for and the vocabulary has no unknown token either; BPE does so when it names an
//! unknown token that does not exist. We give no token for such a character instead. To that end the
//! model gets one more entry that no text can match, as its unknown token: [`supply`]. Its id is
//! filtered out before anything counts it.

use serde_json::{Value, json};
use tokenizers::Model as _;
use tokenizers::models::ModelWrapper;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a tokenizer answers text that its vocabulary does not cover.
pub(super) struct Unknown {
    /// The id of the unknown token: it is dropped wherever it comes from.
    pub(super) id: Option<u32>,
    /// Whether the model fails on such text unless it is given an unknown token.
    pub(super) model_fails: bool,
}

/// Finds the unknown token of a tokenizer, by the rules of Python model2vec.
pub(super) fn find(tokenizer: &tokenizers::Tokenizer) -> Result<Unknown, BoxError> {
    // An added token of that name is an unknown token as well, but the model cannot produce it.
    let by_name = |name: &str| Unknown {
        id: tokenizer.token_to_id(name),
        model_fails: tokenizer.get_model().token_to_id(name).is_none(),
    };
    Ok(match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => by_name(&model.unk_token),
        ModelWrapper::WordLevel(model) => by_name(&model.unk_token),
        ModelWrapper::BPE(model) => {
            let silent = Unknown { id: None, model_fails: false };
            model.unk_token.as_deref().map_or(silent, by_name)
        }
        // The field is private; the serialized form has it.
        ModelWrapper::Unigram(model) => match serde_json::to_value(model)?.get("unk_id") {
            Some(Value::Number(id)) => {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                Unknown { id: Some(id.ok_or("`unk_id` is not a token id")?), model_fails: false }
            }
            _ => Unknown { id: None, model_fails: true },
        },
    })
}

/// Gives the model an unknown token that stands for nothing, and returns its id, which is not below
/// `size` (the number of ids in use).
pub(super) fn supply(tokenizer: &mut tokenizers::Tokenizer, size: usize) -> Result<u32, BoxError> {
    let id = u32::try_from(size)?;
    let mut model = serde_json::to_value(tokenizer.get_model())?;
    if let ModelWrapper::Unigram(_) = tokenizer.get_model() {
        let pieces = model["vocab"].as_array_mut().ok_or("`vocab` is not a list")?;
        // The lowest score that is there already: it must not move the score of unknown text.
        let score = pieces.iter().filter_map(|piece| piece[1].as_f64()).fold(0.0, f64::min);
        // A Unigram id is a position, so the positions of added tokens are filled up too.
        while pieces.len() <= size {
            pieces.push(json!([unmatchable(pieces.len()), score]));
        }
        model["unk_id"] = json!(id);
    } else {
        let name = unmatchable(size);
        // Of tokens that share an id, the serialized form has one: all of them are put back.
        model["vocab"] = json!(tokenizer.get_model().get_vocab());
        let vocab = model["vocab"].as_object_mut().ok_or("`vocab` is not a map")?;
        vocab.insert(name.clone(), json!(id));
        model["unk_token"] = json!(name);
    }
    tokenizer.with_model(serde_json::from_value::<ModelWrapper>(model)?);
    Ok(id)
}

/// A string that no text is expected to hold: a noncharacter at either end.
fn unmatchable(number: usize) -> String {
    format!("\u{FDD0}no token {number}\u{FDD1}")
}

#[cfg(test)]
mod tests {
    use super::super::Vocabulary;
    use super::super::huggingface::HuggingFace;

    #[track_caller]
    fn check(model: &str, text: &str, expected: &[u32], unk_id: Option<u32>) -> Vocabulary {
        check_with_added("[]", model, text, expected, unk_id)
    }

    #[track_caller]
    fn check_with_added(
        added: &str,
        model: &str,
        text: &str,
        expected: &[u32],
        unk_id: Option<u32>,
    ) -> Vocabulary {
        let json = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added},"normalizer":null,
            "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,"model":{model}}}"#
        );
        let (tokenizer, facts) = HuggingFace::load(json.as_bytes()).expect("a valid tokenizer");
        let mut ids = Vec::new();
        tokenizer.tokenize(text, &mut ids).expect("no text is refused");
        assert_eq!(ids, expected);
        assert_eq!(facts.unk_id, unk_id);
        facts
    }

    #[test]
    fn an_unknown_word_gives_the_unknown_token_where_there_is_one() {
        let model = r#"{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}"#;
        check(model, "a z a", &[1, 0, 1], Some(0));
    }

    #[test]
    fn a_word_level_vocabulary_without_unknown_token_gives_no_token() {
        let model = r#"{"type":"WordLevel","vocab":{"b":0,"a":1},"unk_token":"[UNK]"}"#;
        let facts = check(model, "a z b", &[1, 0], None);
        assert_eq!((facts.size, facts.median_chars), (2, 1), "the supplied entry does not count");
    }

    #[test]
    fn a_wordpiece_vocabulary_without_unknown_token_gives_no_token() {
        let model = r###"{"type":"WordPiece","vocab":{"b":0,"a":1,"##b":2},"unk_token":"[UNK]",
            "continuing_subword_prefix":"##","max_input_chars_per_word":100}"###;
        check(model, "ab z b", &[1, 2, 0], None);
    }

    #[test]
    fn a_unigram_vocabulary_without_unknown_id_gives_no_token() {
        let model = r#"{"type":"Unigram","vocab":[["a",-1.0],["b",-2.0]],"unk_id":null}"#;
        check(model, "azb zz", &[0, 1], None);
    }

    #[test]
    fn a_bpe_vocabulary_without_unknown_token_gives_no_token() {
        let model = r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":[],"unk_token":null}"#;
        check(model, "azb", &[0, 1], None);
        let named = r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":[],"unk_token":"[UNK]"}"#;
        check(named, "azb", &[0, 1], None);
    }

    #[test]
    fn dropout_is_switched_off() {
        let model = r#"{"type":"BPE","dropout":0.9,"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"],
            "unk_token":null}"#;
        check(model, "ab ab ab ab ab ab", &[2; 6], None);
    }

    #[test]
    fn an_unknown_token_that_only_the_added_tokens_have_is_still_dropped_by_its_id() {
        let model = r#"{"type":"WordLevel","vocab":{"b":0,"a":1},"unk_token":"[UNK]"}"#;
        let added = r#"[{"id":2,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,
            "normalized":false,"special":true}]"#;
        let facts = check_with_added(added, model, "a z [UNK] b", &[1, 2, 0], Some(2));
        assert_eq!(facts.size, 3);
    }
}
