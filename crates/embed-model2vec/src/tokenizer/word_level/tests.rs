//! Every file here is trained on the spot with the `tokenizers` crate, and its ids are compared with
//! those of that crate.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;
use tokenizers::Tokenizer as Theirs;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::wordlevel::{WordLevel as TheirModel, WordLevelTrainer};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper};

use super::super::test_both::Both;
use super::*;

const TEXTS: [&str; 6] = [
    "The quick brown fox jumps over the lazy dog; the dog doesn't mind!!",
    "ΣΊΣΥΦΟΣ σίσυφος Größe naïve İstanbul ſ e\u{301} É x_y 12 ٣ ½",
    "中文 文本 日本語 한국어 हिन्दी ไทย",
    "a-b a--b ... $ $$ € ¿ « » 😀 👍🏽 ©",
    "a b c d e f g h i j k the \u{301} x\u{301}",
    "[UNK] <s> word the",
];

fn train(pre_tokenizer: &str, normalizer: &Value) -> Value {
    let mut tokenizer = Theirs::new(TheirModel::default());
    let wrapper: PreTokenizerWrapper =
        serde_json::from_value(json!({"type": pre_tokenizer})).expect("valid");
    tokenizer.with_pre_tokenizer(Some(wrapper));
    let wrapper: Option<NormalizerWrapper> =
        serde_json::from_value(normalizer.clone()).expect("valid");
    tokenizer.with_normalizer(wrapper).expect("no added tokens yet");
    let trainer = WordLevelTrainer::builder().show_progress(false).build().expect("complete");
    let mut trainer = TrainerWrapper::WordLevelTrainer(trainer);
    tokenizer.train(&mut trainer, TEXTS.iter()).expect("trains");
    serde_json::to_value(&tokenizer).expect("has a JSON form")
}

fn with_unknown(mut json: Value, id: u32) -> Value {
    json["model"]["unk_token"] = json!("[UNK]");
    json["model"]["vocab"]["[UNK]"] = json!(id);
    json
}

fn with_added(mut json: Value) -> Value {
    let token = |content: &str, flags: &str| {
        json!({"id": 0, "content": content, "single_word": flags.contains('w'),
            "lstrip": flags.contains('l'), "rstrip": flags.contains('r'),
            "normalized": flags.contains('n'), "special": false})
    };
    json["added_tokens"] = json!([
        token("<s>", ""),
        token("The", "nw"),
        token("É", "n"),
        token("<l>", "l"),
        token("<r>", "rn"),
    ]);
    json
}

fn both(name: String, json: &Value) -> Both {
    let bytes = serde_json::to_vec(json).expect("valid");
    Both::new(name, &bytes, "WordLevel, built in")
}

static ALL: LazyLock<Vec<Both>> = LazyLock::new(|| {
    let bert = |lowercase: bool| {
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": lowercase})
    };
    let normalizers = [Value::Null, json!({"type": "Lowercase"}), bert(true), bert(false)];
    let mut all = Vec::new();
    for pre_tokenizer in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer"] {
        for (index, normalizer) in normalizers.iter().enumerate() {
            let name = |variant| format!("{pre_tokenizer}, normalizer {index}, {variant}");
            let json = train(pre_tokenizer, normalizer);
            all.push(both(name("no unknown token"), &json));
            let json = with_unknown(json, 700);
            all.push(both(name("unknown token"), &json));
            all.push(both(name("added tokens"), &with_added(json)));
        }
    }
    all
});

#[test]
fn texts_of_the_training_have_the_same_ids() {
    for both in ALL.iter() {
        for text in TEXTS {
            both.check(text);
        }
        both.check("");
        both.check(&TEXTS.join("\u{2028}\r\n"));
        both.check(&"word".repeat(50_000));
    }
}

#[test]
fn an_unknown_word_without_unknown_token_gives_no_id() {
    let both = ALL.iter().find(|both| both.name.contains("no unknown")).expect("one of them");
    let mut ids = Vec::new();
    both.push_ours("zebra crossing", &mut ids);
    assert_eq!((ids.as_slice(), both.ours.vocabulary().unk_id), (&[][..], None));
}

#[test]
fn files_that_are_not_understood_completely_are_left_to_others() {
    let json = train("Whitespace", &Value::Null);
    for (pointer, value) in [
        ("pre_tokenizer", json!({"type": "Punctuation", "behavior": "Isolated"})),
        ("pre_tokenizer", Value::Null),
        ("normalizer", json!({"type": "NFC"})),
        ("normalizer", json!({"type": "BertNormalizer"})),
        ("normalizer", json!("Lowercase")),
    ] {
        let mut json = json.clone();
        json[pointer] = value;
        let text = json.to_string();
        let definition = Definition::read(text.as_bytes()).expect("valid");
        assert!(WordLevel::new(&definition).is_none(), "{json}");
    }
}

fn text() -> impl Strategy<Value = String> {
    let known: Vec<&str> = TEXTS.iter().flat_map(|text| text.split(' ')).collect();
    let piece = prop_oneof![
        4 => prop::sample::select(known).prop_map(str::to_owned),
        3 => r"[ \t\n\u{85}\u{A0}\u{2028}\u{3000}]{1,3}",
        1 => "<s>|<l>|<r>|The|É|e\u{301}|_|\u{200D}|\u{203F}",
        1 => "[a-kA-K]",
        1 => r"[!-/:-@\[-`{-~]{1,3}",
        1 => r"\PC{1,3}",
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn generated_texts_have_the_same_ids(text in text()) {
        for both in ALL.iter() {
            both.check(&text);
        }
    }
}
