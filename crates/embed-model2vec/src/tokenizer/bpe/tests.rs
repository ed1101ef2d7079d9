//! Every file here is trained on the spot with the `tokenizers` crate, and its ids are compared with
//! those of that crate.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{PreTokenizerWrapper, Tokenizer as Theirs};

use super::super::test_both::Both;
use super::*;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const TEXTS: [&str; 10] = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind.",
    "They're here; we've seen them, I'll say it's theirs and you'd agree. I'm sure. THEY'RE. IT'S.",
    "In 2024 there were 1234567 items at $99.50 each -- 10% more than in 1999!!! (see #42)",
    "fn main() {\n    println!(\"hello, world\");\n\n\n    return 0;\n}\n\t\tindented\ttext  with   spaces",
    "Größe, naïve, café, Zürich, œuvre, ſ, ﬁ, İstanbul, crème brûlée",
    "Привет, как дела? Это хорошо. Добрый день.",
    "中文文本没有空格。日本語のテキスト、カタカナ。한국어 텍스트입니다.",
    "العربية نص ١٢٣ و हिन्दी पाठ १२३ ไทย",
    "😀😀👍🏽👨‍👩‍👧‍👦 emoji 🇩🇪 and symbols ©®™ → ← ≠ ½ ² Ⅷ",
    "a\u{A0}b\u{3000}c\u{2028}d e\u{301} aaaa aaa aa aaaaaaaaaaaaaaaa ........ ----",
];

/// A tokenizer trained on [`TEXTS`], as JSON.
fn train(pre_tokenizer: &Value, size: usize, full_alphabet: bool) -> Value {
    let mut tokenizer = Theirs::new(BPE::default());
    let wrapper: PreTokenizerWrapper =
        serde_json::from_value(pre_tokenizer.clone()).expect("valid");
    tokenizer.with_pre_tokenizer(Some(wrapper));
    let alphabet: Vec<char> = ByteLevel::alphabet().into_iter().filter(|_| full_alphabet).collect();
    let trainer = BpeTrainer::builder()
        .vocab_size(size)
        .min_frequency(0)
        .show_progress(false)
        .initial_alphabet(alphabet.into_iter().collect())
        .build();
    let texts = TEXTS.iter().chain(&TEXTS[..3]);
    tokenizer.train(&mut TrainerWrapper::BpeTrainer(trainer), texts).expect("trains");
    serde_json::to_value(&tokenizer).expect("has a JSON form")
}

fn byte_level(add_prefix_space: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
        "use_regex": use_regex})
}

fn split(pattern: &str) -> Value {
    json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        byte_level(false, false),
    ]})
}

fn added_tokens() -> Value {
    let token = |content: &str, flags: &str| {
        json!({"id": 0, "content": content, "single_word": flags.contains('w'),
            "lstrip": flags.contains('l'), "rstrip": flags.contains('r'),
            "normalized": flags.contains('n'), "special": flags.contains('s')})
    };
    json!([
        token("<|endoftext|>", "s"),
        token("<l>", "l"),
        token("<r>", "rs"),
        token("word", "w"),
        token("<N>", "n"),
        token("é", "n"),
        token("the", "nw"),
        token("  ", ""),
    ])
}

fn both(name: &str, json: &Value) -> Both {
    Both::new(name, &serde_json::to_vec(json).expect("valid"), "BPE, built in")
}

fn with(mut json: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').expect("a path");
        json.pointer_mut(parent).expect("is there")[key] = value.clone();
    }
    json
}

fn model_tokens(json: &mut Value) -> &mut serde_json::Map<String, Value> {
    json["model"]["vocab"].as_object_mut().expect("a map")
}

/// All shapes of files that are served.
static ALL: LazyLock<Vec<Both>> = LazyLock::new(|| {
    let gpt2 = train(&byte_level(false, true), 900, true);
    let prefixed = train(&byte_level(true, true), 700, true);
    let whole = train(&byte_level(false, false), 600, true);
    let qwen2 = train(&split(QWEN2), 900, true);
    let llama3 = train(&split(LLAMA3), 900, true);
    // Bytes that do not occur in the texts have no token.
    let sparse = train(&byte_level(true, true), 500, false);
    let mut sparse_with_unknown = with(sparse.clone(), &[("/model/unk_token", json!("<unk>"))]);
    model_tokens(&mut sparse_with_unknown).insert("<unk>".into(), json!(9_999));
    for letter in ["x", "!", "Ã", "Ġ"] {
        // No token for these, alone: merges with them are gone, too.
        let merges = sparse_with_unknown["model"]["merges"].as_array_mut().expect("a list");
        merges.retain(|pair| !pair.to_string().contains(letter));
        model_tokens(&mut sparse_with_unknown).retain(|token, _| !token.contains(letter));
    }
    let mut dense_then_not = gpt2.clone();
    for (_, id) in model_tokens(&mut dense_then_not) {
        *id = json!(id.as_u64().expect("an id") * 7 + 3);
    }
    // Tokens that no merge leads to, merges in another order, a merge that is listed twice.
    let mut strange = gpt2.clone();
    for (token, id) in
        [("Ġquick!", 5_000), ("中文", 5_001), ("qu", 5_002), ("Ġab", 5_003), ("fox", 5_004)]
    {
        model_tokens(&mut strange).entry(token).or_insert(json!(id));
    }
    let merges = strange["model"]["merges"].as_array_mut().expect("a list");
    merges.reverse();
    let again = merges[3].clone();
    merges.push(again);
    merges.insert(0, json!(["q", "u"]));
    let nfc = json!({"type": "NFC"});
    let nfkc =
        json!({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]});
    let unk = |name: &str, fuse: bool| {
        [("/model/unk_token", json!(name)), ("/model/fuse_unk", json!(fuse))]
    };
    vec![
        both("gpt2", &gpt2),
        both("gpt2, added", &with(gpt2.clone(), &[("/added_tokens", added_tokens())])),
        both(
            "gpt2, nfc, added",
            &with(gpt2.clone(), &[("/normalizer", nfc.clone()), ("/added_tokens", added_tokens())]),
        ),
        both("gpt2 as a split", &with(gpt2.clone(), &[("/pre_tokenizer", split(GPT2))])),
        both(
            "gpt2, ignore_merges",
            &with(strange.clone(), &[("/model/ignore_merges", json!(true))]),
        ),
        both("gpt2, strange merges", &strange),
        both("gpt2, ids with gaps", &dense_then_not),
        both("prefixed", &prefixed),
        both("prefixed, added", &with(prefixed.clone(), &[("/added_tokens", added_tokens())])),
        both(
            "prefixed, nfkc and lowercase, added",
            &with(prefixed, &[("/normalizer", nfkc), ("/added_tokens", added_tokens())]),
        ),
        both("whole", &whole),
        both("whole, prefixed", &with(whole, &[("/pre_tokenizer", byte_level(true, false))])),
        both("qwen2, nfc", &with(qwen2, &[("/normalizer", nfc)])),
        both("llama3", &with(llama3.clone(), &[("/model/ignore_merges", json!(true))])),
        both("cl100k", &with(llama3, &[("/pre_tokenizer", split(CL100K))])),
        both("sparse", &sparse),
        both("sparse, missing unknown token", &with(sparse.clone(), &unk("<unk>", true))),
        both("sparse, a letter as unknown token", &with(sparse, &unk("a", false))),
        both("sparse, unknown token", &sparse_with_unknown),
        both("sparse, fused", &with(sparse_with_unknown, &unk("<unk>", true))),
    ]
});

#[test]
fn texts_of_the_training_have_the_same_ids() {
    for both in ALL.iter() {
        for text in TEXTS {
            both.check(text);
        }
        both.check("");
        both.check(&TEXTS.join("\r\n "));
    }
}

#[test]
fn the_edges_of_the_patterns_have_the_same_ids() {
    let ends =
        ["", " ", "a", "1", "!", "\n", "\u{A0}", "\u{3000}", "é", "٣", "\u{301}", "'", "'s", "😀"];
    let middles = [
        "",
        " ",
        "  ",
        "\t",
        "\n",
        " \n",
        "\n ",
        "\r\n",
        " \r\n  ",
        "\u{A0}",
        " \u{A0}",
        "\u{2028} ",
        "'",
        " '",
        "''",
        "'S",
        "'ſ",
        "'re",
        "'Re",
        "'rE",
        "'lL",
        "'r",
        "'v ",
        "!\n",
        "!\r\n\n ",
        "12345",
        "²½",
        " ²",
        "١٢٣٤",
        "\u{85}",
        "\u{0}",
        "\u{1F}",
    ];
    for both in ALL.iter() {
        for start in ends {
            for middle in middles {
                for end in ends {
                    both.check(&format!("{start}{middle}{end}"));
                }
            }
        }
    }
}

#[test]
fn long_words_have_the_same_ids() {
    let letters: String =
        (0..40_000_u32).map(|n| char::from(b'a' + (n * n % 251 % 26) as u8)).collect();
    let long = [
        letters.clone(),
        "a".repeat(5_000),
        "é中".repeat(3_000),
        " ".repeat(3_000),
        ".".repeat(999),
    ];
    for both in ALL.iter() {
        for text in &long {
            both.check(text);
            both.check(&format!("x {text} y"));
        }
        for length in [14, 15, 16, 17, 31, 95, 96, 97, 98, 255, 256, 257] {
            both.check(&letters[..length]);
            both.check(&letters[7..7 + length]);
        }
    }
}

#[test]
fn the_regex_engine_of_the_other_side_gives_up_at_the_same_length() {
    for both in ALL.iter().filter(|both| ["gpt2", "cl100k"].contains(&both.name.as_str())) {
        for length in [999_998, 999_999, 1_000_000] {
            // Whether the last blank goes to the run or to the word shows only for one parity.
            both.check(&format!("a{}b c", " ".repeat(length)));
            both.check(&format!("a\t{}b c", " ".repeat(length - 1)));
        }
    }
}

#[test]
fn a_sink_that_has_enough_gets_no_more() {
    struct Three(Vec<u32>);
    impl IdSink for Three {
        fn push(&mut self, id: u32) -> ControlFlow<()> {
            self.0.push(id);
            if self.0.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    for both in ALL.iter() {
        let mut sink = Three(Vec::new());
        both.ours.session().tokenize("<l>a b c d <r>", &mut sink).expect("no text is refused");
        assert_eq!(sink.0.len(), 3, "{}", both.name);
    }
}

#[track_caller]
fn check_left_to_others(json: &Value) {
    let text = json.to_string();
    let definition = Definition::read(text.as_bytes()).expect("valid");
    assert!(Bpe::new(&definition).is_none());
}

#[test]
fn files_that_are_not_understood_completely_are_left_to_others() {
    let gpt2 = train(&byte_level(false, true), 300, true);
    let changed = |pointer: &str, value: Value| with(gpt2.clone(), &[(pointer, value)]);
    check_left_to_others(&changed("/model/continuing_subword_prefix", json!("##")));
    check_left_to_others(&changed("/model/end_of_word_suffix", json!("</w>")));
    check_left_to_others(&changed("/pre_tokenizer", json!({"type": "Whitespace"})));
    check_left_to_others(&changed("/pre_tokenizer", Value::Null));
    check_left_to_others(&changed("/normalizer", json!({"type": "StripAccents"})));
    check_left_to_others(&changed("/model/vocab/Ġthe", json!(0)));
    check_left_to_others(&changed("/model/vocab/Ġthe", json!(u32::MAX)));
    check_left_to_others(&changed("/model/merges", json!([["a", "missing"]])));
    check_left_to_others(&changed("/model/merges", json!([["!", "\""]])));
    check_left_to_others(&changed("/model/type", json!("Unigram")));
    let mut missing_byte = changed("/model/byte_fallback", json!(true));
    model_tokens(&mut missing_byte).remove("\u{143}");
    check_left_to_others(&missing_byte);
    both("byte_fallback without effect", &changed("/model/byte_fallback", json!(true)))
        .check("any text \u{7F}\u{AD}");
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z]{1,8}",
        3 => " [a-z]{1,8}",
        2 => prop::sample::select(vec![
            "'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'ſ", "'", "the", " the", "don't", "<|endoftext|>",
            "<l>", "<r>", "<N>", "word", "é", "e\u{301}", "\u{301}", "中文", "한국어", "가", "\u{1100}\u{1161}",
            "が", "か\u{3099}", "\u{212B}", "ﬁ", "İ", "ß", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "<", ">", "quick!",
        ]).prop_map(str::to_owned),
        2 => r"[ \t\n\r\x0B\x0C\u{85}\u{A0}\u{1680}\u{2003}\u{2028}\u{3000}]{1,5}",
        1 => "[ ]{1,4}",
        1 => r"[\r\n]{1,3}",
        1 => r"\p{N}{1,5}",
        1 => "[0-9]{1,7}",
        1 => r"\p{L}{1,6}",
        1 => r"[!-/:-@\[-`{-~]{1,5}",
        1 => r"[\u{0}-\u{1F}\u{7F}-\u{9F}\u{AD}\u{200B}-\u{200F}\u{FEFF}\u{FFFD}]{1,2}",
        1 => r"[А-яёЁ]{1,12}",
        1 => r"\PC{1,4}",
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn generated_texts_have_the_same_ids(text in text()) {
        for both in ALL.iter() {
            both.check(&text);
        }
    }
}
