//! Texts for comparing tokenizers: a few to train on, fixed edges, and a generator that loves edges.

use proptest::prelude::*;

/// Texts that test tokenizers are trained on.
pub(super) const TRAINING: &[&str] = &[
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "Embedding a text means to turn it into a row of numbers; similar texts have similar rows.",
    "It's unbelievable: tokenization of 1,234.56 words (or more) took 0.7 ms! Isn't that quick?",
    "naïve café über Straße résumé İstanbul ΣΊΣΥΦΟΣ ﬁne don't can't we'll they've I'm she'd",
    "def embed(texts: list[str]) -> np.ndarray:\n    return model.encode(texts, batch_size=32)",
    "東京 日本語 テスト 한국어 ไทย हिन्दी العربية עברית русский язык ελληνικά",
    "aaaa aaab aab abab abc abcd abcde running runner runs ran internationalization",
    "http://example.org/a?b=c#d user@example.org C++ foo_bar GPT-4 2026-01-31 50% $3 [x] {y}",
];

/// What texts are made of: words, literals of added tokens, characters with a history.
const WORDS: &[&str] = &[
    "the",
    "quick",
    "The",
    "QUICK",
    "unbelievable",
    "don't",
    "I'LL",
    "we're",
    "abab",
    "abcde",
    "ab",
    "a",
    "x",
    "naïve",
    "Café",
    "e\u{301}",
    "é",
    "Straße",
    "strasse",
    "İstanbul",
    "ΣΊΣΥΦΟΣ",
    "ﬁne",
    "ǅ",
    "東京",
    "日本語",
    "テスト",
    "\u{2B81E}\u{2B820}\u{2B91F}\u{2B920}",
    "\u{F900}",
    "\u{2F800}",
    "\u{9FFF}\u{A000}",
    "한국어",
    "\u{1100}\u{1161}\u{11A8}",
    "हिन्दी",
    "क्षि",
    "ไทย",
    "العربية",
    "עִבְרִית",
    "русский",
    "ελληνικά",
    "😀",
    "👩\u{200D}👩\u{200D}👧",
    "🇩🇪",
    "👍🏽",
    "\u{1D16D}\u{302E}",
    "\u{302E}\u{1D165}",
    "q\u{323}\u{307}",
    "\u{0E33}",
    "\u{0903}",
    "\u{20DD}",
    "\u{0600}",
    "\u{110BD}",
    "123",
    "१२३",
    "４２",
    "²",
    "½",
    "Ⅻ",
    "1,234.5",
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[pad]",
    "[unk]",
    "<mask>",
    "</s>",
    "<s>",
    "<pad>",
    "<unk>",
    "##ing",
    "▁",
    "▁the",
    "Ġ",
    "�",
    "\\ud83d",
    "http://a.b/c?d=e",
    "foo_bar",
    "C++",
    "…",
    "—",
    "“q”",
    "internationalization",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
];

/// What stands between words.
const GLUE: &[&str] = &[
    " ",
    " ",
    " ",
    " ",
    "",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\u{B}",
    "\u{C}",
    "\u{85}",
    "\u{A0}",
    "\u{1680}",
    "\u{2003}",
    "\u{2028}",
    "\u{2029}",
    "\u{202F}",
    "\u{3000}",
    "\u{200B}",
    "\u{200D}",
    "\u{AD}",
    "\u{FEFF}",
    "\u{0}",
    "\u{1}",
    "\u{1F}",
    "\u{7F}",
    "\u{9F}",
    "\u{E000}",
    "\u{FFFD}",
    "\u{A8}",
    "\u{37E}",
    "\u{1FEF}",
    "-",
    ", ",
    ". ",
    "!",
    "'",
    "_",
    "`",
    "@",
    "[",
    "\u{301}",
    "\u{E0001}",
];

/// A text of up to some dozens of parts.
pub(super) fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(str::to_owned),
        2 => "[a-z]{1,18}",
        1 => "[A-Za-z0-9]{14,19}",
        1 => any::<char>().prop_map(String::from),
        1 => any::<[char; 4]>().prop_map(String::from_iter),
        1 => "\\PC{0,6}",
        1 => (0..0x3_2000u32).prop_map(|start| (start..start + 8).filter_map(char::from_u32).collect()),
        1 => (prop::sample::select(vec!["a", "é", "東", "ab", "\u{302E}"]), 14..120usize)
            .prop_map(|(unit, count)| unit.repeat(count)),
    ];
    let glue = prop::sample::select(GLUE);
    prop::collection::vec((word, glue), 0..24).prop_map(|parts| {
        parts.into_iter().flat_map(|(word, glue)| [word, glue.to_owned()]).collect()
    })
}

/// Texts that have been wrong somewhere once, or could be.
pub(super) fn edges() -> Vec<String> {
    let mut texts: Vec<String> = TRAINING.iter().map(|text| (*text).to_owned()).collect();
    texts.extend(WORDS.iter().chain(GLUE).map(|part| (*part).to_owned()));
    for word in WORDS {
        for glue in GLUE {
            texts.push(format!("{glue}{word}{glue}a{glue}"));
        }
    }
    // Lengths around the limit of a word, and around blocks of 16 and 64 bytes.
    for unit in ["a", "é", "东", "1", "Z", "\u{302E}"] {
        for count in [15, 16, 17, 63, 64, 65, 79, 80, 81, 99, 100, 101, 199, 200, 201, 1000] {
            texts.push(unit.repeat(count));
            texts.push(format!("x {}, {}é", unit.repeat(count), unit.repeat(count)));
        }
    }
    for shift in 0..70 {
        texts.push(format!("{}the quick, naïve fox [PAD] 東京!", " ".repeat(shift)));
        texts.push(format!("{}unbelievable, quick", "x".repeat(shift)));
    }
    texts
}
