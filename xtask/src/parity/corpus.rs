//! Generated texts: the same for the same seed, and fond of edges.

use crate::random::Random;

const WORDS: &[&str] = &[
    "the",
    "of",
    "search",
    "memory",
    "Embedding",
    "tokenization",
    "quick",
    "brown",
    "fox",
    "running",
    "unbelievable",
    "naïve",
    "Café",
    "über",
    "İstanbul",
    "ΣΊΣΥΦΟΣ",
    "straße",
    "ﬁne",
    "don't",
    "e.g.",
    "3.14159",
    "2026-01-31",
    "C++",
    "foo_bar",
    "http://example.org/a?b=c",
    "user@example.org",
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[unk]",
    "[MASK]",
    "##ing",
    "▁",
    "<pad>",
    "<unk>",
    "GPT-4",
    "x",
    "I",
    "東京",
    "日本語",
    "한국어",
    "テスト",
    "ไทย",
    "हिन्दी",
    "العربية",
    "עברית",
    "русский",
    "ελληνικά",
    "𠀀",
    "𫝀",
    "😀",
    "👩‍👩‍👧",
    "🇩🇪",
    "e\u{301}",
    "\u{1100}\u{1161}",
    "q̣̇",
];

const GLUE: &[&str] = &[
    " ", " ", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{2028}", "\u{3000}",
    "\u{200b}", "\u{ad}", "", "-", ", ", ". ", "!", "…", "\u{fffd}", "\u{0}", "\u{1f}", "\u{7f}",
    "\u{e000}",
];

/// `count` texts: first the fixed edges, then random mixtures.
pub(super) fn generate(count: usize, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut texts: Vec<String> = edges();
    while texts.len() < count {
        let text = match random.below(10) {
            0 => characters(&mut random),
            1 => "ab".repeat(random.below(120)),
            _ => words(&mut random),
        };
        texts.push(text);
    }
    texts.truncate(count);
    texts
}

fn edges() -> Vec<String> {
    let mut texts: Vec<String> =
        ["", " ", "\n\t ", "[UNK]", "[UNK] [UNK]", "\u{0}", "\u{fffd}", "a"]
            .map(str::to_owned)
            .into();
    for length in [99, 100, 101, 1000] {
        texts.push("a".repeat(length));
        texts.push("é".repeat(length));
    }
    for words in [510, 511, 512, 513, 600, 2000] {
        texts.push("cat ".repeat(words));
        texts.push("𓀀 ".repeat(words));
        texts.push("internationalization ".repeat(words));
    }
    texts
}

fn words(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(60) {
        text.push_str(random.pick(WORDS));
        text.push_str(random.pick(GLUE));
    }
    text
}

/// Characters from anywhere in Unicode, one block at a time.
fn characters(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(12) {
        let start = random.below(0x3_2000);
        for _ in 0..random.below(12) {
            let code = u32::try_from(start + random.below(64)).expect("below 0x32040");
            text.extend(char::from_u32(code));
        }
        text.push_str(random.pick(GLUE));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_texts() {
        assert_eq!(generate(300, 7), generate(300, 7));
        assert_ne!(generate(300, 7), generate(300, 8));
        assert_eq!(generate(300, 7).len(), 300);
    }
}
