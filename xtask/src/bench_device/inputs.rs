//! Lines of prose that need no file: words of the model's own vocabulary, as often as words occur.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::random::Random;

/// Words of a line: from the first to below the second.
const WORDS: std::ops::Range<usize> = 5..36;

/// Lines of random words. The word at place `n` of the vocabulary, which lists frequent words first, is drawn
/// with a likelihood that falls as `1 / (n + 2.7)`, Zipf's law as Mandelbrot corrected it.
pub(super) fn lines(count: usize, seed: u64) -> Result<Vec<String>> {
    let words = words()?;
    let mut sums = Vec::with_capacity(words.len());
    let mut sum = 0.0;
    for place in 0..words.len() {
        sum += 1.0 / (place as f64 + 2.7);
        sums.push(sum);
    }
    let mut random = Random::new(seed);
    let word = |random: &mut Random| {
        let place = f64::midpoint(f64::from(random.unit()), 1.0) * sum;
        words[sums.partition_point(|&sum| sum < place).min(words.len() - 1)].as_str()
    };
    let mut line = || {
        let mut line = String::new();
        for _ in 0..random.within(WORDS) {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word(&mut random));
        }
        line.push('.');
        line
    };
    Ok((0..count).map(|_| line()).collect())
}

/// The whole words of the embedded model, in the order of their ids.
fn words() -> Result<Vec<String>> {
    let tokenizer: Value = serde_json::from_slice(embed_default_model::TOKENIZER)?;
    let vocabulary =
        tokenizer["model"]["vocab"].as_object().context("a tokenizer with a vocabulary")?;
    let whole = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut words: Vec<(u64, &String)> = vocabulary
        .iter()
        .filter(|(word, _)| whole(word))
        .filter_map(|(word, id)| Some((id.as_u64()?, word)))
        .collect();
    words.sort_unstable();
    Ok(words.into_iter().map(|(_, word)| word.clone()).collect())
}

/// At least `count` texts: the lines of a file, again and again, or random ones.
pub(super) fn texts(count: usize, corpus: Option<&Path>) -> Result<Vec<String>> {
    let Some(path) = corpus else { return lines(count, 1) };
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    ensure!(!lines.is_empty(), "{} has no text", path.display());
    Ok(lines.iter().cycle().take(count).map(|&line| line.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_made_of_the_models_words() -> Result<()> {
        let lines = lines(200, 1)?;
        assert_eq!(lines, super::lines(200, 1)?);
        let words = words()?;
        assert!(words.len() > 10_000, "{}", words.len());
        for line in &lines {
            let found: Vec<&str> = line.trim_end_matches('.').split(' ').collect();
            assert!(WORDS.contains(&found.len()));
            assert!(found.iter().all(|word| words.iter().any(|known| known == word)), "{line}");
        }
        Ok(())
    }
}
