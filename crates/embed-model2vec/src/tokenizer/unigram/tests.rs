//! The ids are those of the `tokenizers` crate, for vocabularies that are trained here.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Trainer as _;
use tokenizers::models::unigram::{Unigram, UnigramTrainer};

use super::super::definition::Definition;
use super::super::test_both::Both;
use super::super::{IdSink, Tokenizer};
use super::test_charsmap;

const TEXTS: &[&str] = &[
    "The pattern of the subpattern was tested, and the test was a pattern of its own.",
    "A batch of texts is embedded at once; batches of other texts are embedded later.",
    "It doesn't matter whether the words are short or long, as long as they are words.",
    "Les mots français ont des accents : é, è, à, ç, où l'été est passé.",
    "Wörter und Sätze: über, Straße, Füße, größer als zuvor...",
    "Русские слова и предложения тоже могут быть разными словами.",
    "日本語の文には空白がありません。中文也没有空格。",
    "한국어 문장에는 띄어쓰기가 있습니다.",
    "हिन्दी के शब्द और वाक्य। ภาษาไทยไม่มีช่องว่าง",
    "numbers 0 1 2 3 10 20 100 2024 and signs + - * / = < > ( ) [ ] { } . .. ...",
];

/// What texts are made of that are hard on the rules.
const FRAGMENTS: &[&str] = &[
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "\u{B}",
    "\u{C}",
    "\u{85}",
    "\u{A0}",
    "\u{3000}",
    "\u{2028}",
    "▁",
    "▁▁",
    "_",
    "\u{308}",
    "\u{301}\u{308}",
    "e\u{301}",
    "é",
    "A\u{30A}",
    "¨",
    "´",
    "\u{600}",
    "\u{6DD}",
    "\u{70F}",
    "\u{110BD}",
    "\u{200D}",
    "\u{200C}",
    "👩\u{200D}👧",
    "👍🏽",
    "🇩🇪",
    "🇩",
    "한국",
    "\u{1112}\u{1161}\u{11AB}",
    "क्षि",
    "ि",
    "ทำ",
    "ำ",
    "中文",
    "。",
    "か\u{3099}",
    "ﬁ",
    "™",
    "½",
    "Ａ",
    "Ａ\u{301}",
    "＜pad＞",
    "<pad>",
    "< pad>",
    "<PAD>",
    "<unk>",
    "[x y]",
    "word",
    "\0",
    "\u{1}",
    "\u{1} ",
    "\u{7F}",
    "\u{AD}",
    "\u{FEFF}",
    "\u{FFFD}",
    "\u{E000}",
    "\u{FDD0}",
    "\u{302E}",
    "\u{1D165}",
    ".",
    "..",
    "...",
    ",",
    "!",
    "don't",
    "a",
    "s a",
    "tt",
    "ern",
    "pattern",
    "subpattern",
    "the",
    "The",
    "İ",
    "Σ",
    "ẞ",
    "words are",
    "Страница",
    "слова",
    "\u{13080}",
];

/// The model section of a tokenizer that was trained on [`TEXTS`].
static MODEL: LazyLock<Value> = LazyLock::new(|| {
    let mut trainer = UnigramTrainer::builder()
        .show_progress(false)
        .vocab_size(400)
        .unk_token(Some("<unk>".into()))
        .special_tokens(vec![tokenizers::AddedToken::from("<unk>", true)])
        .build()
        .expect("complete settings");
    let words = |text: &str| Ok(text.split(' ').map(|word| format!("▁{word}")).collect());
    trainer.feed(TEXTS.iter(), words).expect("plain texts");
    let mut model = Unigram::default();
    trainer.train(&mut model).expect("enough text");
    serde_json::to_value(&model).expect("a model")
});

/// The model with another `unk_id`, with its pieces changed by `change`, and with further pieces.
fn model(unk_id: Value, more: &[(&str, f64)], change: impl Fn(&str, f64) -> f64) -> Value {
    let mut model = MODEL.clone();
    model["unk_id"] = unk_id;
    let pieces = model["vocab"].as_array_mut().expect("a list");
    for (piece, score) in more {
        if !pieces.iter().any(|entry| entry[0] == *piece) {
            pieces.push(json!([piece, score]));
        }
    }
    for entry in pieces {
        let score =
            change(entry[0].as_str().expect("a piece"), entry[1].as_f64().expect("a score"));
        entry[1] = json!(score);
    }
    model
}

/// All models that differ in what matters here.
fn models() -> Vec<(&'static str, Value)> {
    let same = |_: &str, score: f64| score;
    let length = |piece: &str| i32::try_from(piece.chars().count()).map(f64::from).expect("short");
    let bytes: Vec<(String, f64)> =
        (0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), -9.0)).collect();
    let bytes: Vec<(&str, f64)> = bytes.iter().map(|(piece, score)| (&**piece, *score)).collect();
    let with_bytes = |pieces: &[(&str, f64)]| {
        let mut model = model(json!(0), pieces, same);
        model["byte_fallback"] = json!(true);
        model
    };
    let dot = MODEL["vocab"].as_array().expect("a list").iter().position(|entry| entry[0] == ".");
    vec![
        ("plain", model(json!(0), &[], same)),
        ("no unknown", model(Value::Null, &[], same)),
        ("no unknown, positive", model(Value::Null, &[], |piece, _| 1.0 + 0.3 * length(piece))),
        (
            "a full stop is unknown",
            model(json!(dot.expect("in the texts")), &[("..", -20.0)], same),
        ),
        ("bytes", with_bytes(&bytes)),
        ("some bytes", with_bytes(&bytes[..200])),
        ("integers that tie", model(json!(0), &[], |piece, _| -10.0 - length(piece))),
        ("fractions that tie", model(json!(0), &[], |piece, _| -11.7 - 0.1 * length(piece))),
        ("equal scores", model(json!(0), &[], |_, _| -9.3)),
        ("across words", model(json!(0), &[("s▁a", -1.0), ("▁▁", -2.0), ("s▁are", -3.0)], same)),
    ]
}

fn added(content: &str, flags: &str) -> Value {
    json!({"id": 0, "content": content, "single_word": flags.contains('w'), "lstrip": flags.contains('l'),
        "rstrip": flags.contains('r'), "normalized": flags.contains('n'), "special": flags.contains('s')})
}

fn file(normalizer: &Value, pre_tokenizer: &Value, model: &Value, added: &[Value]) -> Vec<u8> {
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null,
        "decoder": null, "model": model})
    .to_string()
    .into_bytes()
}

fn metaspace(scheme: &str, split: bool) -> Value {
    json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
}

fn sequence(of: &str, parts: &[Value]) -> Value {
    json!({"type": "Sequence", of: parts})
}

fn charsmap() -> Value {
    json!({"type": "Precompiled", "precompiled_charsmap": test_charsmap::base64()})
}

fn replace(kind: &str, pattern: &str, content: &str) -> Value {
    json!({"type": "Replace", "pattern": {kind: pattern}, "content": content})
}

fn strip(left: bool) -> Value {
    json!({"type": "Strip", "strip_left": left, "strip_right": true})
}

fn normalizers() -> Vec<Value> {
    let parts = |parts: &[Value]| sequence("normalizers", parts);
    vec![
        Value::Null,
        charsmap(),
        parts(&[charsmap(), replace("Regex", " {2,}", " ")]),
        parts(&[charsmap(), strip(false), replace("Regex", " {2,}", "▁")]),
        parts(&[strip(true), charsmap(), json!({"type": "Lowercase"})]),
    ]
}

fn imitated_bert(lowercase: bool) -> Value {
    let mut parts =
        vec![json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": null, "lowercase": lowercase})];
    parts.extend(
        [".", ",", "!", "'", "_", "<", ">"].map(|c| replace("String", c, &format!(" {c} "))),
    );
    parts.extend([replace("Regex", r"\s+", " "), strip(true)]);
    sequence("normalizers", &parts)
}

fn own(json: &[u8]) -> Option<Tokenizer> {
    Tokenizer::own(&Definition::read(json).expect("a tokenizer file"))
}

fn both(name: String, json: &[u8]) -> Both {
    Both::new(name, json, "Unigram, built in")
}

/// A word without ids goes by like any other: the word behind it is not the first of the text.
#[test]
fn a_word_without_ids_is_remembered_as_one() {
    let file = |scheme: &str| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                    "strip_accents": null, "lowercase": true},
                {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
                {"type": "Strip", "strip_left": true, "strip_right": true},
            ]},
            "pre_tokenizer": metaspace(scheme, true), "post_processor": null, "decoder": null,
            "model": {"type": "Unigram", "unk_id": null, "byte_fallback": false,
                "vocab": [["a", -1.0], ["▁a", -1.5]]},
        })
    };
    for scheme in ["never", "always"] {
        let json = serde_json::to_vec(&file(scheme)).expect("JSON");
        let pair = both(scheme.to_owned(), &json);
        for text in ["Σ a", "a Σ a", "Σ Σ a a", "Σ ▁a", " Σ  a"] {
            let mut session = pair.ours.session();
            for _ in 0..3 {
                let (mut ids, mut expected) = (Vec::new(), Vec::new());
                pair.theirs.tokenize(text, &mut expected).expect("no text is refused");
                session.tokenize(text, &mut ids).expect("no text is refused");
                assert_eq!(ids, expected, "{scheme}: {text:?}");
            }
        }
    }
}

/// Every shape with the plain model, and every model with the shapes that differ most.
static PAIRS: LazyLock<Vec<Both>> = LazyLock::new(|| {
    let plain = model(json!(0), &[], |_, score| score);
    let tokens =
        [added("<pad>", "wlrns"), added("<unk>", "s"), added("word", "l"), added("[x y]", "r")];
    let mut pairs = Vec::new();
    let mut add = |name: String, file: Vec<u8>| pairs.push(both(name, &file));
    for (number, normalizer) in normalizers().iter().enumerate() {
        for scheme in ["always", "never", "first"] {
            if scheme == "first" && number > 1 {
                continue;
            }
            for split in [true, false] {
                let metaspace = metaspace(scheme, split);
                let behind_split = sequence(
                    "pretokenizers",
                    &[json!({"type": "WhitespaceSplit"}), metaspace.clone()],
                );
                for (shape, pre_tokenizer) in [("alone", metaspace), ("words", behind_split)] {
                    for tokens in [&[][..], &tokens] {
                        let name = format!("{number} {scheme} {split} {shape} {}", tokens.len());
                        add(name, file(normalizer, &pre_tokenizer, &plain, tokens));
                    }
                }
            }
        }
    }
    let words =
        sequence("pretokenizers", &[json!({"type": "WhitespaceSplit"}), metaspace("always", true)]);
    for (name, model) in models() {
        add(format!("words, {name}"), file(&charsmap(), &words, &model, &tokens));
        let whole = metaspace("always", false);
        add(format!("whole, {name}"), file(&charsmap(), &whole, &model, &tokens[1..]));
        for lowercase in [true, false] {
            let bert = imitated_bert(lowercase);
            add(format!("bert, {name}"), file(&bert, &whole, &model, &tokens[1..]));
        }
        add(
            format!("bert never, {name}"),
            file(&imitated_bert(true), &metaspace("never", false), &model, &[]),
        );
        add(
            format!("bert split, {name}"),
            file(&imitated_bert(true), &metaspace("always", true), &model, &tokens),
        );
    }
    let underline =
        json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true});
    add("another replacement".into(), file(&charsmap(), &underline, &plain, &tokens));
    let spaced = [added("a <pad>", "n"), added("\u{A0}x", "n")];
    add("whitespace in a token".into(), file(&charsmap(), &words, &plain, &spaced));
    pairs
});

#[test]
fn ids_of_hard_texts_are_those_of_the_reference() {
    for pair in &*PAIRS {
        for text in TEXTS.iter().chain(FRAGMENTS).chain(&[""]) {
            pair.check(text);
        }
        for fragment in FRAGMENTS {
            for (before, after) in
                [("", "a"), ("a", ""), ("a", "b"), (" ", " "), ("a ", " b"), ("\u{600}", "\u{301}")]
            {
                pair.check(&format!("{before}{fragment}{after}"));
            }
        }
    }
}

#[test]
fn long_texts_are_served_in_one_piece() {
    for pair in &*PAIRS {
        pair.check(&TEXTS.join(" ").repeat(8));
        pair.check(&"pattern".repeat(100));
        pair.check(&"\u{301}".repeat(300));
        pair.check(&" \u{301}".repeat(300));
        pair.check(&" ".repeat(300));
        pair.check(&"x\u{600} ".repeat(100));
    }
}

#[test]
fn a_sink_that_breaks_off_leaves_nothing_behind() {
    struct Few(usize);
    impl IdSink for Few {
        fn push(&mut self, _: u32) -> std::ops::ControlFlow<()> {
            self.0 -= 1;
            if self.0 == 0 {
                return std::ops::ControlFlow::Break(());
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    for pair in &*PAIRS {
        for few in 1..5 {
            let text = format!("\u{E000} {}\u{E000}", TEXTS[0]);
            pair.ours.session().tokenize(&text, &mut Few(few)).expect("no text is refused");
            pair.check(TEXTS[1]);
        }
    }
}

#[track_caller]
fn check_refused(normalizer: &Value, pre_tokenizer: &Value, model: &Value) {
    let file = file(normalizer, pre_tokenizer, model, &[]);
    assert!(own(&file).is_none(), "{normalizer} {pre_tokenizer}");
}

#[test]
fn what_is_not_understood_is_left_to_the_reference() {
    let plain = model(json!(0), &[], |_, score| score);
    let always = metaspace("always", true);
    check_refused(&Value::Null, &Value::Null, &plain);
    check_refused(&Value::Null, &json!({"type": "Whitespace"}), &plain);
    check_refused(&Value::Null, &json!({"type": "Metaspace", "replacement": "ab"}), &plain);
    check_refused(&Value::Null, &metaspace("sometimes", true), &plain);
    check_refused(&json!({"type": "NFKC"}), &always, &plain);
    check_refused(&json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}), &always, &plain);
    check_refused(&replace("String", "a", "b"), &always, &plain);
    check_refused(&normalizers()[2], &metaspace("first", true), &plain);
    check_refused(&imitated_bert(true), &metaspace("first", false), &plain);
    check_refused(&Value::Null, &always, &model(json!(1_000_000), &[], |_, score| score));
    let mut twice = plain.clone();
    twice["vocab"].as_array_mut().expect("a list").push(json!(["▁", -1.0]));
    twice["vocab"].as_array_mut().expect("a list").push(json!(["▁", -1.0]));
    check_refused(&Value::Null, &always, &twice);
    let mut bert = imitated_bert(true);
    bert["normalizers"].as_array_mut().expect("a list").pop();
    check_refused(&bert, &always, &plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ids_of_any_text_are_those_of_the_reference(
        fragments in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(FRAGMENTS).prop_map(str::to_owned),
                1 => any::<char>().prop_map(String::from),
                1 => (0_u32..0x3100).prop_map(|code| char::from_u32(code).into_iter().collect()),
                1 => (prop::sample::select(TEXTS), 0_usize..60, 1_usize..12)
                    .prop_map(|(text, skip, take)| text.chars().skip(skip).take(take).collect()),
            ],
            0..12,
        ),
    ) {
        let text = fragments.concat();
        for pair in &*PAIRS {
            pair.check(&text);
        }
    }
}
