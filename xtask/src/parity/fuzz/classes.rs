//! Kinds of text: how each is made, and how it is told.
//!
//! A class is told by what stands in a text, never by how the text was made: a text can belong to many
//! classes, and a class that nothing makes any more is noticed.

use super::characters::{Characters, Group, changes_case_oddly, decomposes, decomposition};
use super::scripts::{
    byte_letters, cjk_bounds, emoji, hangul, has_indic_mark, indic, is_cjk_bound, is_emoji_part,
    is_hangul, is_right_to_left, right_to_left, surrogates,
};
use crate::random::Random;

/// What texts are made of.
pub(super) struct Material {
    pub(super) characters: Characters,
    /// Literals of added tokens: the model's own, or common ones if it has none.
    pub(super) literals: Vec<String>,
    /// Pieces of the vocabulary without the marks of their place in a word.
    pub(super) pieces: Vec<String>,
}

/// A kind of text.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// Adds something of this kind to a text.
    pub(super) make: fn(&Material, &mut Random, &mut String),
    /// Whether something of this kind is in a text.
    pub(super) found: fn(&Material, &str) -> bool,
    /// Whether what it makes is ASCII.
    pub(super) ascii: bool,
}

const fn class(
    name: &'static str,
    make: fn(&Material, &mut Random, &mut String),
    found: fn(&Material, &str) -> bool,
) -> Class {
    Class { name, make, found, ascii: false }
}

const fn ascii(
    name: &'static str,
    make: fn(&Material, &mut Random, &mut String),
    found: fn(&Material, &str) -> bool,
) -> Class {
    Class { name, make, found, ascii: true }
}

/// A class of all characters of some groups, beyond ASCII unless they are controls: letters, blanks and
/// punctuation of ASCII are nearly everywhere.
macro_rules! groups {
    ($name:literal, $($group:ident)|+) => {
        class(
            $name,
            |material, random, text| {
                let group = random.pick(&[$(Group::$group),+]);
                let pool = material.characters.pool(group);
                let block = pool.draw_block(random);
                for _ in 0..random.within(1..6) {
                    text.push(random.pick(block));
                }
            },
            |material, text| {
                text.chars().any(|c| {
                    let group = material.characters.group(c);
                    (!c.is_ascii() || group == Group::Control) && matches!(group, $(Group::$group)|+)
                })
            },
        )
    };
}

/// All classes.
pub(super) const CLASSES: &[Class] = &[
    ascii("plain ASCII", plain_words, |_, text| {
        text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    }),
    ascii("contractions, punctuation", punctuated, has_inner_punctuation),
    class("digits beyond ASCII", digits, |material, text| {
        text.chars().any(|c| !c.is_ascii() && material.characters.group(c) == Group::Decimal)
    }),
    groups!("Lu Ll Lt", Cased),
    groups!("Lm Lo", Uncased),
    groups!("Mn", Nonspacing),
    groups!("Mc Me", SpacingOrEnclosing),
    groups!("Nd Nl No", Decimal | OtherNumber),
    groups!("P", Punctuation),
    groups!("S", Symbol),
    groups!("Zs Zl Zp", Separator),
    groups!("Cc", Control),
    groups!("Cf", Format),
    groups!("Co Cn", PrivateOrUnassigned),
    class("composed and decomposed", composed, has_composition),
    class("marks out of order", reordered, has_marks_out_of_order),
    ascii("added-token literals", literal, |material, text| {
        material.literals.iter().any(|literal| text.contains(literal))
    }),
    ascii("controls in words", controls, |_, text| text.chars().any(is_cleaned)),
    class("words of 99 to 101 chars", long_words, |_, text| {
        words(text).any(|word| (99..=101).contains(&word.chars().count()))
    }),
    class("words of 15 to 17 bytes", short_blocks, |_, text| {
        words(text).any(|word| (15..=17).contains(&word.len()))
    }),
    class("words of 63 to 65 bytes", blocks, |_, text| {
        words(text).any(|word| (63..=65).contains(&word.len()))
    }),
    class("bounds of CJK", cjk_bounds, |_, text| text.chars().any(is_cjk_bound)),
    class("Hangul", hangul, |_, text| text.chars().any(is_hangul)),
    class("Indic marks", indic, has_indic_mark),
    class("emoji sequences", emoji, |_, text| text.chars().any(is_emoji_part)),
    class("Arabic, Hebrew", right_to_left, |_, text| text.chars().any(is_right_to_left)),
    class("lone surrogates", surrogates, |_, text| {
        text.contains("\\ud") || text.contains('\u{FFFD}')
    }),
    class("U+2581, byte letters", byte_letters, |_, text| {
        text.chars().any(|c| c == '▁' || ('\u{100}'..='\u{143}').contains(&c))
    }),
    class("runs of white space", white_space, has_white_run),
    class("odd changes of case", odd_case, |_, text| text.chars().any(changes_case_oddly)),
    class("a kilobyte or more", a_kilobyte, |_, text| text.len() >= 1024),
];

const WORDS: &[&str] = &[
    "the",
    "of",
    "a",
    "I",
    "is",
    "search",
    "memory",
    "Embedding",
    "tokenization",
    "quick",
    "brown",
    "fox",
    "running",
    "unbelievable",
    "GPT",
    "NASA",
    "iPhone",
    "internationalization",
    "xylophone",
    "zzz",
    "qwrtp",
    "2026",
    "1",
    "42",
    "1000000",
    "x86",
    "HTTPServer",
    "SCREAMING",
    "ab",
    "aaaa",
];

fn plain_words(material: &Material, random: &mut Random, text: &mut String) {
    for number in 0..random.within(1..4) {
        if number > 0 {
            text.push(' ');
        }
        word(material, random, text);
    }
}

/// One word of ASCII.
fn word(material: &Material, random: &mut Random, text: &mut String) {
    match random.below(4) {
        0 => letters(random, text),
        1 if !material.pieces.is_empty() => {
            for _ in 0..random.within(1..4) {
                let piece = &material.pieces[random.below(material.pieces.len())];
                if piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    text.push_str(piece);
                }
            }
        }
        _ => match (random.pick(WORDS), random.below(6)) {
            (word, 0) => text.push_str(&word.to_uppercase()),
            (word, _) => text.push_str(word),
        },
    }
}

fn letters(random: &mut Random, text: &mut String) {
    let alphabet = random.pick(&[
        b"abcdefghijklmnopqrstuvwxyz".as_slice(),
        b"etaoin",
        b"ab",
        b"ABCDEFghijkl0123",
        b"0123456789",
    ]);
    for _ in 0..random.within(1..14) {
        text.push(char::from(random.pick(alphabet)));
    }
}

fn punctuated(material: &Material, random: &mut Random, text: &mut String) {
    const WHOLE: &[&str] = &[
        "don't",
        "I'LL",
        "we're",
        "it's",
        "they've",
        "I'm",
        "she'd",
        "'s",
        "'S",
        "''s",
        "'re",
        "e.g.",
        "U.S.A.",
        "3.14159",
        "1,234.56",
        "2026-01-31",
        "C++",
        "foo_bar",
        "a/b",
        "x=y;",
        "(so)",
        "[x]",
        "{y}",
        "http://a.b/c?d=e#f",
        "user@example.org",
        "##ing",
        "100%",
        "$3",
        "a--b",
        "...",
        "?!",
        "\"q\"",
        "`x`",
        "~",
        "^",
        "a'b'c",
        "'tis",
        "rock'n'roll",
        "'ll've",
        "\\n",
        "<b>",
        "1'000",
        "_",
    ];
    if random.once_in(3) {
        word(material, random, text);
        for _ in 0..random.within(1..4) {
            let code = random.pick(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~");
            text.push(char::from(code));
        }
        word(material, random, text);
    } else {
        text.push_str(random.pick(WHOLE));
    }
}

/// Punctuation right beside a letter or a digit.
fn has_inner_punctuation(_: &Material, text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| {
        (pair[0].is_ascii_punctuation() && pair[1].is_ascii_alphanumeric())
            || (pair[0].is_ascii_alphanumeric() && pair[1].is_ascii_punctuation())
    })
}

fn digits(material: &Material, random: &mut Random, text: &mut String) {
    let block = material.characters.digits.draw_block(random);
    for _ in 0..random.within(1..6) {
        text.push(random.pick(block));
    }
}

fn composed(material: &Material, random: &mut Random, text: &mut String) {
    for _ in 0..random.within(1..3) {
        let c = material.characters.composed.draw(random);
        match random.below(3) {
            0 => text.push(c),
            1 => text.extend(decomposition(c)),
            _ => {
                text.push(c);
                text.extend(decomposition(c));
            }
        }
        if random.once_in(2) {
            text.push(char::from(random.pick(b"aeiou x")));
        }
    }
}

fn has_composition(material: &Material, text: &str) -> bool {
    let characters = &material.characters;
    let mut before = None;
    for c in text.chars() {
        if decomposes(c) {
            return true;
        }
        let pair =
            before.and_then(|before| unicode_normalization_alignments::char::compose(before, c));
        if pair.is_some() {
            return true;
        }
        // Marks of the same letter may stand in between.
        if characters.combining_class(c) == 0 {
            before = Some(c);
        }
    }
    false
}

fn reordered(material: &Material, random: &mut Random, text: &mut String) {
    text.push(random.pick(&['a', 'e', 'q', 'O', 'ä', 'д', 'ש', 'ع', 'क', ' ', '東']));
    let first = material.characters.reordered.draw(random);
    text.push(first);
    for _ in 0..random.within(1..4) {
        // Nearly all classes are below 230.
        if random.once_in(2) {
            text.push(
                random.pick(&['\u{301}', '\u{307}', '\u{323}', '\u{327}', '\u{334}', '\u{345}']),
            );
        } else {
            text.push(material.characters.reordered.draw(random));
        }
    }
    text.push_str(random.pick(&["\u{301}\u{323}", "\u{323}\u{327}", "\u{345}\u{301}", ""]));
}

fn has_marks_out_of_order(material: &Material, text: &str) -> bool {
    let mut before = 0;
    text.chars().any(|c| {
        let class = material.characters.combining_class(c);
        std::mem::replace(&mut before, class) > class && class != 0
    })
}

fn literal(material: &Material, random: &mut Random, text: &mut String) {
    let literal = &material.literals[random.below(material.literals.len())];
    match random.below(10) {
        0 => text.push_str(&literal.to_lowercase()),
        1 => text.extend(literal.chars().skip(1)),
        2 => text.extend(literal.chars().take(literal.chars().count() - 1)),
        3 => {
            text.push_str(literal);
            text.push_str(literal);
        }
        4 => {
            text.push_str(random.pick(&["a", "  ", "\t", "é", "-"]));
            text.push_str(literal);
            text.push_str(random.pick(&["a", "  ", "\n", "s", "."]));
        }
        _ => text.push_str(literal),
    }
}

/// What some normalizers drop.
fn is_cleaned(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{E}'..='\u{1F}' | '\u{7F}' | '\u{FFFD}')
}

fn controls(material: &Material, random: &mut Random, text: &mut String) {
    word(material, random, text);
    for _ in 0..random.within(1..3) {
        text.push(random.pick(&['\0', '\u{1}', '\u{8}', '\u{E}', '\u{1B}', '\u{1F}', '\u{7F}']));
    }
    word(material, random, text);
}

/// Runs of letters and digits.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// A word of a length in characters.
fn long_words(_: &Material, random: &mut Random, text: &mut String) {
    let count = random.within(98..102);
    repeated(random, text, |word| word.chars().count() < count);
}

fn short_blocks(_: &Material, random: &mut Random, text: &mut String) {
    let count = random.within(15..18);
    repeated(random, text, |word| word.len() < count);
}

fn blocks(_: &Material, random: &mut Random, text: &mut String) {
    let count = random.within(63..66);
    repeated(random, text, |word| word.len() < count);
}

/// A word that stands alone and grows while it is `short`.
fn repeated(random: &mut Random, text: &mut String, short: impl Fn(&str) -> bool) {
    let units: &[char] = random.pick(&[
        ['a'].as_slice(),
        &['a', 'b'],
        &['e', 't', 'i', 'n', 'g', 's', 'r'],
        &['Q', 'u', '7'],
        &['é'],
        &['e', 'ü', 'n'],
        &['東'],
        &['д', 'о', 'м'],
        &['𝐚'],
        &['1', '2'],
    ]);
    let mut word = String::new();
    while short(&word) {
        word.push(random.pick(units));
    }
    text.push(' ');
    text.push_str(&word);
    text.push_str(random.pick(&[" ", ".", "\n", "\u{301}", "'s", "-"]));
}

fn white_space(_: &Material, random: &mut Random, text: &mut String) {
    const BLANKS: &[char] = &[
        ' ', '\t', '\n', '\r', '\u{B}', '\u{C}', '\u{85}', '\u{A0}', '\u{1680}', '\u{2000}',
        '\u{2003}', '\u{200A}', '\u{2028}', '\u{2029}', '\u{202F}', '\u{205F}', '\u{3000}',
    ];
    let only = random.pick(BLANKS);
    for _ in 0..random.within(2..9) {
        let other = random.pick(BLANKS);
        text.push(match random.below(3) {
            0 => ' ',
            1 => only,
            _ => other,
        });
    }
}

fn has_white_run(_: &Material, text: &str) -> bool {
    let mut before = false;
    text.chars().any(|c| std::mem::replace(&mut before, c.is_whitespace()) && c.is_whitespace())
}

fn odd_case(material: &Material, random: &mut Random, text: &mut String) {
    const WHOLE: &[&str] = &[
        "İstanbul",
        "Straße",
        "GROẞ",
        "ſee",
        "ΣΊΣΥΦΟΣ",
        "ὈΔΥΣΣΕΎΣ",
        "ς",
        "Σ",
        "aΣ",
        "Σa",
        "Σ.",
        "ǅ",
        "ǲ",
        "ﬁne",
        "ﬃ",
        "ı",
        "I\u{307}",
        "\u{212A}",
        "\u{212B}",
        "Ω",
        "ŉ",
        "ǰ",
        "ΐ",
        "ᾳ",
        "ᾼ",
        "µ",
    ];
    if random.once_in(2) {
        text.push_str(random.pick(WHOLE));
    } else {
        text.push(material.characters.case_changing.draw(random));
    }
}

/// Parts of other classes until the text is long.
fn a_kilobyte(material: &Material, random: &mut Random, text: &mut String) {
    let others = &CLASSES[..CLASSES.len() - 1];
    let mostly = &others[random.below(others.len())];
    let end = text.len() + random.within(1000..1600);
    while text.len() < end {
        let class = if random.once_in(3) { &others[random.below(others.len())] } else { mostly };
        (class.make)(material, random, text);
        if !random.once_in(3) {
            text.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_found_by_its_own_test() {
        let material = Material {
            characters: Characters::new(),
            literals: vec!["[UNK]".to_owned(), "<s>".to_owned()],
            pieces: vec!["ing".to_owned()],
        };
        for class in CLASSES {
            let mut random = Random::new(1);
            let found = (0..1000)
                .filter(|_| {
                    let mut text = String::new();
                    (class.make)(&material, &mut random, &mut text);
                    (class.found)(&material, &text)
                })
                .count();
            assert!(found > 500, "{}: {found} of 1000", class.name);
            assert_eq!((class.found)(&material, ""), class.name == "plain ASCII", "{}", class.name);
        }
    }

    #[test]
    fn classes_of_ascii_make_ascii() {
        let material = Material {
            characters: Characters::new(),
            literals: vec!["[UNK]".to_owned()],
            pieces: vec!["ing".to_owned(), "é".to_owned()],
        };
        for class in
            CLASSES.iter().filter(|class| class.ascii && class.name != "added-token literals")
        {
            let mut text = String::new();
            let mut random = Random::new(2);
            (0..1000).for_each(|_| (class.make)(&material, &mut random, &mut text));
            assert!(text.is_ascii(), "{}", class.name);
        }
    }
}
