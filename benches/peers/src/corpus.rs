//! Texts to measure with.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Queries that take turns.
pub const QUERIES: usize = 1000;

/// Words of the shortest query, and how many lengths there are: 5 to 20 words.
const SHORTEST: usize = 5;
const LENGTHS: usize = 16;

/// Bytes of an unkind text, more or less a character.
const UNKIND_BYTES: usize = 1_000_000;

/// The lines of a file.
pub fn read(path: &Path, lines: Option<NonZeroUsize>) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let limit = lines.map_or(usize::MAX, NonZeroUsize::get);
    let texts: Vec<String> = text.lines().take(limit).map(str::to_owned).collect();
    let blank = texts.iter().all(|text| text.trim().is_empty());
    ensure!(!blank, "{}: no text", path.display());
    Ok(texts)
}

/// Queries of 5 to 20 words in a row, from all over the corpus.
pub fn queries(texts: &[String]) -> Vec<String> {
    (0..QUERIES)
        .map(|number| {
            let start = number * texts.len() / QUERIES;
            let words = texts[start..].iter().chain(texts.iter().cycle());
            let words = words.flat_map(|text| text.split_whitespace());
            words.take(SHORTEST + number % LENGTHS).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// Plain prose first, then texts of the same size whose cost might grow faster than they do.
pub fn unkind(texts: &[String]) -> Vec<(&'static str, String)> {
    let mut prose = String::with_capacity(UNKIND_BYTES + 1024);
    for text in texts.iter().cycle() {
        prose.push_str(text);
        prose.push(' ');
        if prose.len() >= UNKIND_BYTES {
            break;
        }
    }
    while prose.len() > UNKIND_BYTES {
        prose.pop();
    }
    let repeat = |text: &str| text.repeat(UNKIND_BYTES / text.len());
    vec![
        ("plain prose", prose),
        ("one letter", repeat("a")),
        ("one CJK character", repeat("漢")),
        ("combining marks", repeat("\u{301}")),
        ("spaces", repeat(" ")),
        ("two letters in turn", repeat("ab")),
        ("punctuation", repeat("!")),
    ]
}
