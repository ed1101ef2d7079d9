//! Texts of a few parts, each of some class: the same for the same seed, whoever asks for them.

use std::collections::HashMap;

use serde_json::Value;

use super::characters::Characters;
use super::classes::{CLASSES, Class, Material};
use crate::random::Random;

/// Texts that are made together: a lot can be made without those before it.
pub(super) const LOT: usize = 1024;

/// Literals for a model that has no added tokens: its tokenizer must take them for plain text.
const COMMON_LITERALS: &[&str] =
    &["[PAD]", "[UNK]", "[CLS]", "[MASK]", "<s>", "</s>", "<unk>", "<|endoftext|>"];

/// Makes the texts of one model.
pub(super) struct Generator {
    pub(super) material: Material,
    seed: u64,
    /// Classes that leave a text ASCII, which has paths of its own.
    ascii: Vec<&'static Class>,
}

impl Generator {
    /// A generator that knows the added tokens and the pieces of a `tokenizer.json`.
    pub(super) fn new(tokenizer: &Value, seed: u64) -> Self {
        let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
        let mut literals: Vec<String> = added
            .filter_map(|token| token["content"].as_str())
            .filter(|content| !content.is_empty())
            .map(str::to_owned)
            .collect();
        if literals.is_empty() {
            literals = COMMON_LITERALS.iter().map(|&literal| literal.to_owned()).collect();
        }
        Self {
            material: Material {
                characters: Characters::new(),
                literals,
                pieces: pieces(tokenizer),
            },
            seed,
            ascii: CLASSES.iter().filter(|class| class.ascii).collect(),
        }
    }

    /// The texts of a lot.
    pub(super) fn lot(&self, number: usize) -> Vec<String> {
        let mut random = Random::new(self.seed);
        // Lots of neighboring seeds have nothing in common.
        let start = random.next() ^ (number as u64).wrapping_mul(0xD134_2543_DE82_EF95);
        let mut random = Random::new(start);
        (0..LOT).map(|_| self.text(&mut random)).collect()
    }

    fn text(&self, random: &mut Random) -> String {
        let mut text = String::new();
        let plain = random.once_in(6);
        for number in 0..random.within(1..5) {
            if number > 0 {
                text.push_str(random.pick(&[" ", " ", " ", "", "", "-"]));
            }
            let class = match random.below(CLASSES.len() + 4) {
                _ if plain => random.pick(&self.ascii),
                // The last class is long: with as many turns as others it would have most of the bytes.
                number if number + 1 == CLASSES.len() && !random.once_in(3) => &CLASSES[0],
                number => CLASSES.get(number).unwrap_or(&CLASSES[0]),
            };
            (class.make)(&self.material, random, &mut text);
        }
        text
    }
}

/// Pieces of the vocabulary as they stand in words, in the order of the file.
fn pieces(tokenizer: &Value) -> Vec<String> {
    let model = &tokenizer["model"];
    let mut pieces: Vec<&str> = match &model["vocab"] {
        Value::Object(entries) => entries.keys().map(String::as_str).collect(),
        Value::Array(entries) => entries.iter().filter_map(|entry| entry[0].as_str()).collect(),
        _ => Vec::new(),
    };
    pieces.sort_unstable();
    let strip =
        |piece: &str| piece.trim_start_matches("##").trim_start_matches(['▁', 'Ġ']).to_owned();
    pieces.into_iter().map(strip).filter(|piece| !piece.is_empty()).collect()
}

/// How many texts each class has, and how many of them differ.
#[derive(Default)]
pub(super) struct Counts(HashMap<&'static str, [usize; 2]>);

impl Counts {
    /// Counts a text for each class that is found in it.
    pub(super) fn add(&mut self, material: &Material, text: &str, differs: bool) {
        for class in CLASSES.iter().filter(|class| (class.found)(material, text)) {
            let [texts, differing] = self.0.entry(class.name).or_default();
            *texts += 1;
            *differing += usize::from(differs);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (name, [texts, differing]) in &other.0 {
            let [all, all_differing] = self.0.entry(name).or_default();
            *all += texts;
            *all_differing += differing;
        }
    }

    /// Texts of a class, and how many of them differ.
    pub(super) fn of(&self, class: &Class) -> [usize; 2] {
        self.0.get(class.name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(seed: u64) -> Generator {
        let tokenizer = serde_json::json!({
            "added_tokens": [{ "content": "[UNK]" }],
            "model": { "vocab": { "the": 0, "##ing": 1 } },
        });
        Generator::new(&tokenizer, seed)
    }

    #[test]
    fn a_seed_fixes_the_texts() {
        let (seven, again, eight) = (generator(7), generator(7), generator(8));
        assert_eq!(seven.lot(0), again.lot(0));
        assert_eq!(seven.lot(3), again.lot(3));
        assert_ne!(seven.lot(0), seven.lot(1));
        assert_ne!(seven.lot(0), eight.lot(0));
        assert_eq!(seven.lot(0).len(), LOT);
    }

    #[test]
    fn every_class_has_its_share() {
        let generator = generator(1);
        let mut counts = Counts::default();
        for text in (0..4).flat_map(|number| generator.lot(number)) {
            counts.add(&generator.material, &text, false);
        }
        for class in CLASSES {
            let [texts, _] = counts.of(class);
            assert!(texts * 70 >= 4 * LOT, "{}: {texts} of {}", class.name, 4 * LOT);
        }
    }

    #[test]
    fn most_texts_are_short() {
        let mut lengths: Vec<usize> = generator(1).lot(0).iter().map(String::len).collect();
        lengths.sort_unstable();
        let median = lengths[LOT / 2];
        assert!((20..80).contains(&median), "{median} bytes in the median");
    }
}
