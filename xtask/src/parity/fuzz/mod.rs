//! `cargo xtask parity --fuzz N`: the ids of N generated texts against the `tokenizers` crate.
//!
//! Nothing is cut and nothing left out, so that every id of every text is compared. Texts come in lots
//! that threads take one after the other: the texts, and what is found, do not depend on who does it.

mod characters;
mod classes;
mod generator;
mod scripts;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use embed_core::{EncodeOptions, MaxLength, Tokens as _, UnknownTokens};
use embed_model2vec::{Sequential, StaticModel};
use serde_json::Value;

use classes::CLASSES;
use generator::{Counts, Generator, LOT};

/// One text in so many must belong to a class.
const RAREST: usize = 100;

/// Differences that are told in full.
const SHOWN: usize = 10;

/// Comparisons that making one text shorter may take.
const SHRINKING: usize = 2000;

/// Compares, prints, and says whether all ids are equal and all classes common enough.
pub(super) fn run(
    model: &StaticModel,
    folder: Option<&Path>,
    count: NonZero<usize>,
    seed: u64,
) -> Result<bool> {
    let generator = Generator::new(&tokenizer_file(model, folder)?, seed);
    let pair = Pair {
        ours: model,
        reference: Sequential::new(model)?,
        options: EncodeOptions::default()
            .with_max_length(MaxLength::Unlimited)
            .with_unknown(UnknownTokens::Keep),
    };
    let found = pair.compare(&generator, count.get());
    let description = model.description();
    println!(
        "{}, {}: {count} texts of seed {seed}, {:.1} bytes each on average",
        description.origin,
        description.tokenizer,
        found.bytes as f64 / count.get() as f64,
    );
    println!("\n  {:<28}{:>10}{:>9}{:>11}", "class", "texts", "share", "different");
    let mut rare = 0;
    for class in CLASSES {
        let [texts, differing] = found.counts.of(class);
        let enough = texts * RAREST >= count.get();
        rare += usize::from(!enough);
        let share = 100.0 * texts as f64 / count.get() as f64;
        let verdict = if enough { "" } else { "  FAIL: too rare" };
        println!("  {:<28}{texts:>10}{share:>7.1} %{differing:>11}{verdict}", class.name);
    }
    for (number, text) in found.different.iter().take(SHOWN) {
        pair.tell(&generator, *number, text);
    }
    let different = found.different.len();
    let passed = different == 0 && rare == 0;
    let verdict = if passed { "PASS" } else { "FAIL" };
    println!(
        "\n{verdict}: {different} of {count} texts have other ids, {rare} classes are too rare\n"
    );
    Ok(passed)
}

/// The `tokenizer.json` of a model.
fn tokenizer_file(model: &StaticModel, folder: Option<&Path>) -> Result<Value> {
    let Some(folder) = folder else {
        return Ok(serde_json::from_slice(embed_default_model::TOKENIZER)?);
    };
    let path = folder.join(model.bundle().layout().tokenizer());
    let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Ids, or the reason why there are none.
type Ids = Result<Vec<u32>, String>;

/// Ours and the reference.
struct Pair<'m> {
    ours: &'m StaticModel,
    reference: Sequential<'m>,
    options: EncodeOptions,
}

/// What a comparison found.
#[derive(Default)]
struct Found {
    bytes: usize,
    counts: Counts,
    /// Texts that differ, with their numbers.
    different: Vec<(usize, String)>,
}

impl Pair<'_> {
    fn compare(&self, generator: &Generator, count: usize) -> Found {
        let lots = AtomicUsize::new(0);
        let all = Mutex::new(Found::default());
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let work = || {
            let mut found = Found::default();
            loop {
                let lot = lots.fetch_add(1, Ordering::Relaxed);
                let first = lot * LOT;
                if first >= count {
                    break;
                }
                for (index, text) in generator.lot(lot).into_iter().enumerate().take(count - first)
                {
                    let (ours, reference) = self.ids(&text);
                    let differs = !agree(&ours, &reference);
                    found.bytes += text.len();
                    found.counts.add(&generator.material, &text, differs);
                    if differs {
                        found.different.push((first + index, text));
                    }
                }
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.bytes += found.bytes;
            all.counts.merge(&found.counts);
            all.different.append(&mut found.different);
        };
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let mut found = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.different.sort();
        found
    }

    fn ids(&self, text: &str) -> (Ids, Ids) {
        let mut ids = Vec::new();
        let ours = self.ours.token_ids(text, &self.options, &mut ids);
        let ours = ours.map(|_| ids).map_err(|error| error.to_string());
        let reference = self.reference.token_ids(text, &self.options);
        (ours, reference.map_err(|error| error.to_string()))
    }

    /// Prints a difference, with a text that was made shorter.
    fn tell(&self, generator: &Generator, number: usize, text: &str) {
        let differs = |text: &str| {
            let (ours, reference) = self.ids(text);
            !agree(&ours, &reference)
        };
        let short = shrink(text, differs);
        let (ours, reference) = self.ids(&short);
        let classes = CLASSES.iter().filter(|class| (class.found)(&generator.material, text));
        let classes: Vec<&str> = classes.map(|class| class.name).collect();
        println!("\n  text {number}, {}: \"{}\"", classes.join("; "), text.escape_default());
        println!("    shorter:   \"{}\"", short.escape_default());
        println!("    ours:      {ours:?}");
        println!("    reference: {reference:?}");
    }
}

/// Equal ids; or neither side has any, for whatever reason.
fn agree(ours: &Ids, reference: &Ids) -> bool {
    match (ours, reference) {
        (Ok(ours), Ok(reference)) => ours == reference,
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

/// The text without characters that it does not need to differ.
fn shrink(text: &str, differs: impl Fn(&str) -> bool) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut length = chars.len().div_ceil(2);
    let mut left = SHRINKING;
    while length > 0 {
        let mut start = 0;
        let mut shorter = false;
        while start < chars.len() && left > 0 {
            left -= 1;
            let end = (start + length).min(chars.len());
            let rest: String = chars[..start].iter().chain(&chars[end..]).collect();
            if differs(&rest) {
                chars.drain(start..end);
                shorter = true;
            } else {
                start += length;
            }
        }
        if !shorter || length > 1 {
            length /= 2;
        }
    }
    chars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, differs: impl Fn(&str) -> bool, expected: &str) {
        assert_eq!(shrink(text, differs), expected);
    }

    #[test]
    fn a_text_shrinks_to_what_it_needs() {
        check("some words, é and more", |text| text.contains('é'), "é");
        check("xxaxxxbxx", |text| text.contains('a') && text.contains('b'), "ab");
        check("aaaaaaaa", |text| text.len() >= 3, "aaa");
        check("abc", |_| true, "");
    }

    #[test]
    fn a_refusal_of_one_side_is_a_difference() {
        let refused = || Err("refused".to_owned());
        assert!(agree(&refused(), &refused()));
        assert!(!agree(&Ok(vec![]), &refused()));
        assert!(agree(&Ok(vec![1]), &Ok(vec![1])) && !agree(&Ok(vec![1]), &Ok(vec![2])));
    }
}
