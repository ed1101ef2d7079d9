//! Our ids beside those of the `tokenizers` crate, for tokenizers trained here.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::models::wordpiece::{WordPiece as Model, WordPieceTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, TokenizerBuilder};

use super::super::Tokenizer;
use super::super::definition::Definition;
use super::super::test_both::Both;
use super::super::test_texts;

/// A tokenizer file, trained on a few texts, with added tokens of every kind.
fn trained() -> Value {
    let mut tokenizer = TokenizerBuilder::new()
        .with_model(Model::default())
        .with_normalizer(Some(BertNormalizer::default()))
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(None::<tokenizers::PostProcessorWrapper>)
        .with_decoder(None::<tokenizers::DecoderWrapper>)
        .build()
        .expect("all parts are there");
    let specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(|token| AddedToken::from(token, true));
    let mut trainer = WordPieceTrainer::builder()
        .vocab_size(700)
        .min_frequency(1)
        .show_progress(false)
        .special_tokens(specials.to_vec())
        .build();
    let texts = test_texts::TRAINING.iter().map(|text| (*text).to_owned());
    tokenizer.train(&mut trainer, texts).expect("training on a few texts");
    serde_json::to_value(&tokenizer).expect("a tokenizer is JSON")
}

static TRAINED: LazyLock<Value> = LazyLock::new(trained);

fn both((number, file): (usize, &Value)) -> Both {
    let json = serde_json::to_vec(file).expect("JSON");
    Both::new(format!("variant {number}"), &json, "WordPiece, built in")
}

/// The file with changes that give every setting its turn.
fn variants() -> Vec<Value> {
    let plain = TRAINED.clone();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut file = plain.clone();
        change(&mut file);
        file
    };
    let added = |content: &str, single_word: bool, lstrip: bool, rstrip: bool, normalized: bool| {
        json!({"id": 0, "content": content, "single_word": single_word, "lstrip": lstrip,
            "rstrip": rstrip, "normalized": normalized, "special": false})
    };
    let mut files = vec![plain.clone(), with(&|file| file["normalizer"] = Value::Null)];
    for bits in 0..16 {
        files.push(with(&|file| {
            file["normalizer"]["clean_text"] = json!(bits & 1 != 0);
            file["normalizer"]["handle_chinese_chars"] = json!(bits & 2 != 0);
            file["normalizer"]["strip_accents"] = json!(bits & 4 != 0);
            file["normalizer"]["lowercase"] = json!(bits & 8 != 0);
        }));
    }
    files.push(with(&|file| {
        let list = file["added_tokens"].as_array_mut().expect("a list");
        list.extend([
            added("quick", true, false, false, true),
            added("Straße", false, false, false, true),
            added("<mask>", false, true, false, false),
            added("</s>", false, false, true, false),
            added("é", true, true, true, true),
            added("ab", false, false, false, false),
        ]);
    }));
    for limit in [1, 5, 16, 17, 200] {
        files.push(with(&|file| file["model"]["max_input_chars_per_word"] = json!(limit)));
    }
    files.push(with(&|file| {
        let vocab = file["model"]["vocab"].as_object_mut().expect("a map");
        vocab.remove("[UNK]");
        file["added_tokens"].as_array_mut().expect("a list").clear();
    }));
    files.push(with(&|file| file["model"]["continuing_subword_prefix"] = json!("")));
    files.push(with(&|file| file["model"]["unk_token"] = json!("the")));
    files
}

static PAIRS: LazyLock<Vec<Both>> =
    LazyLock::new(|| variants().iter().enumerate().map(both).collect());

#[test]
fn edges_have_the_ids_of_the_reference_in_every_variant() {
    for pair in PAIRS.iter() {
        for text in test_texts::edges() {
            pair.check(&text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn generated_texts_have_the_ids_of_the_reference(text in test_texts::any_text()) {
        for pair in PAIRS.iter() {
            pair.check(&text);
        }
    }
}

#[test]
fn a_session_forgets_nothing_wrong_between_texts() {
    let pair = &PAIRS[0];
    let mut session = pair.ours.session();
    for round in 0..3 {
        for text in test_texts::edges() {
            let (mut ours, mut expected) = (Vec::new(), Vec::new());
            session.tokenize(&text, &mut ours).expect("ours refuses no text");
            pair.theirs.tokenize(&text, &mut expected).expect("nor does the reference");
            assert_eq!(ours, expected, "round {round}: {text:?}");
        }
    }
}

#[test]
fn a_sink_that_breaks_off_gets_no_further_id() {
    struct First(Vec<u32>, usize);
    impl super::super::IdSink for First {
        fn push(&mut self, id: u32) -> std::ops::ControlFlow<()> {
            self.0.push(id);
            if self.0.len() == self.1 {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        }
    }
    let pair = &PAIRS[0];
    // More words than are looked up together, some of them with more ids than are remembered.
    let text = "the quick, unbelievable [PAD] naïve 東京 foxes ".repeat(3)
        + &"xqzjvkwy and a zzxxqqjjkk or ".repeat(60);
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    pair.ours.session().tokenize(&text, &mut all).expect("ours refuses no text");
    pair.theirs.tokenize(&text, &mut expected).expect("nor does the reference");
    assert_eq!(all, expected);
    for count in 1..all.len() {
        let mut sink = First(Vec::new(), count);
        pair.ours.session().tokenize(&text, &mut sink).expect("ours refuses no text");
        assert_eq!(sink.0, all[..count]);
    }
}

#[test]
fn other_files_are_left_to_the_reference() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut file = TRAINED.clone();
        change(&mut file);
        let json = serde_json::to_vec(&file).expect("JSON");
        let ours = Definition::read(&json).ok().and_then(|definition| Tokenizer::own(&definition));
        assert!(ours.is_none());
    };
    refused(&|file| file["pre_tokenizer"] = json!({"type": "Whitespace"}));
    refused(&|file| file["pre_tokenizer"] = Value::Null);
    refused(&|file| file["normalizer"] = json!({"type": "NFKC"}));
    refused(&|file| file["version"] = json!("2.0"));
    refused(&|file| file["model"]["max_input_chars_per_word"] = json!(0));
    refused(&|file| file["model"]["unk_token"] = Value::Null);
    refused(&|file| file["model"]["type"] = json!("Other"));
}
