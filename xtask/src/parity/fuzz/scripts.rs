//! Scripts and sequences with rules of their own.

use super::characters::Group;
use super::classes::Material;
use crate::random::Random;

const CJK_BOUNDS: &[u32] = &[
    0x4E00, 0x9FFF, 0x3400, 0x4DBF, 0xF900, 0xFAFF, 0x2_0000, 0x2_A6DF, 0x2_A700, 0x2_B73F,
    0x2_B740, 0x2_B81F, 0x2_B820, 0x2_B920, 0x2_CEAF, 0x2_F800, 0x2_FA1F,
];

pub(super) fn is_cjk_bound(c: char) -> bool {
    CJK_BOUNDS.iter().any(|bound| u32::from(c).abs_diff(*bound) <= 4)
}

pub(super) fn cjk_bounds(_: &Material, random: &mut Random, text: &mut String) {
    let bound = random.pick(CJK_BOUNDS);
    for _ in 0..random.within(1..4) {
        let code = bound - 4 + u32::try_from(random.below(9)).expect("below 9");
        text.extend(char::from_u32(code));
        text.push_str(random.pick(&["", "", "a", "\u{302E}"]));
    }
}

pub(super) fn is_hangul(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x11FF | 0x3131..=0x318E | 0xA960..=0xA97C | 0xAC00..=0xD7FB)
}

/// One of the characters from `first` to `last`.
fn between(random: &mut Random, first: char, last: char) -> char {
    let codes = u32::from(last) - u32::from(first) + 1;
    let offset = random.below(codes as usize);
    char::from_u32(u32::from(first) + u32::try_from(offset).expect("below a code"))
        .expect("no surrogates in between")
}

pub(super) fn hangul(_: &Material, random: &mut Random, text: &mut String) {
    for _ in 0..random.within(1..4) {
        match random.below(4) {
            0 => {
                text.push(between(random, '\u{1100}', '\u{1112}'));
                text.push(between(random, '\u{1161}', '\u{1175}'));
                if random.once_in(2) {
                    text.push(between(random, '\u{11A7}', '\u{11C3}'));
                }
            }
            1 => text.push(between(random, '\u{1100}', '\u{11FF}')),
            2 => {
                text.push(random.pick(&['가', '각', '힣', '\u{D7A3}', '\u{A960}', '\u{D7B0}']));
                text.push(between(random, '\u{11A7}', '\u{11C3}'));
            }
            _ => text.push(between(random, '가', '힣')),
        }
    }
}

pub(super) fn indic(_: &Material, random: &mut Random, text: &mut String) {
    // Devanagari to Malayalam: letters, vowel signs and viramas at the same places of a block.
    let block = 0x900 + 0x80 * u32::try_from(random.below(9)).expect("below 9");
    for _ in 0..random.within(1..4) {
        for offsets in [0x15..0x3A, 0x3C..0x4E] {
            let offset = u32::try_from(random.within(offsets)).expect("below a block");
            text.extend(char::from_u32(block + offset));
        }
        text.push_str(random.pick(&["", "", "\u{200D}", "\u{200C}", "\u{94D}", "\u{93C}"]));
    }
}

pub(super) fn has_indic_mark(material: &Material, text: &str) -> bool {
    text.chars().any(|c| {
        let group = material.characters.group(c);
        ('\u{900}'..='\u{DFF}').contains(&c)
            && matches!(group, Group::Nonspacing | Group::SpacingOrEnclosing)
    })
}

pub(super) fn is_emoji_part(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{FE0F}')
        || matches!(c, '\u{1F466}'..='\u{1F469}' | '\u{E0020}'..='\u{E007F}')
}

pub(super) fn emoji(_: &Material, random: &mut Random, text: &mut String) {
    match random.below(4) {
        0 => {
            for _ in 0..random.within(1..4) {
                text.push(between(random, '\u{1F1E6}', '\u{1F1FF}'));
            }
        }
        1 => {
            text.push(random.pick(&['👍', '👋', '🤝', '👩', 'a', '☝']));
            text.push(between(random, '\u{1F3FB}', '\u{1F3FF}'));
        }
        2 => {
            text.push(between(random, '\u{1F466}', '\u{1F469}'));
            for _ in 0..random.within(1..3) {
                text.push_str(random.pick(&["\u{200D}", "\u{FE0F}\u{200D}"]));
                text.push_str(random.pick(&["👩", "👧", "❤", "💻", "🚀", "x"]));
            }
        }
        _ => text.push_str(random.pick(&[
            "❤️",
            "1️⃣",
            "#️⃣",
            "🏳️\u{200D}🌈",
            "🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
            "☺︎☺️",
        ])),
    }
}

pub(super) fn is_right_to_left(c: char) -> bool {
    matches!(
        u32::from(c),
        0x590..=0x6FF | 0x750..=0x77F | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFE
    )
}

pub(super) fn right_to_left(_: &Material, random: &mut Random, text: &mut String) {
    for _ in 0..random.within(1..6) {
        let c = match random.below(8) {
            0 => between(random, '\u{591}', '\u{5C7}'),
            1 | 2 => between(random, 'א', 'ת'),
            3 => between(random, '\u{64B}', '\u{65F}'),
            4 => between(random, '\u{FB1D}', '\u{FDFF}'),
            5 => between(random, '\u{600}', '\u{6FF}'),
            _ => between(random, '\u{621}', '\u{64A}'),
        };
        text.push(c);
    }
}

/// What decoders of JSON make of half a pair, and how it is written there.
pub(super) fn surrogates(_: &Material, random: &mut Random, text: &mut String) {
    text.push_str(random.pick(&[
        "\\ud83d",
        "\\udc00x",
        "a\u{FFFD}b",
        "\u{FFFD}",
        "\u{FFFD}\u{FFFD}",
        "😀\u{FFFD}",
        "\\ud83d\\ude00",
        "\u{FFFD}\u{301}",
    ]));
}

pub(super) fn byte_letters(_: &Material, random: &mut Random, text: &mut String) {
    for _ in 0..random.within(1..4) {
        text.push_str(random.pick(&["▁", "▁▁", "▁the", "Ġ", "Ġthe", "Ċ", "ĠĠ", "Ã©", "âĢĻ", "Ń"]));
        if random.once_in(2) {
            text.push(between(random, '\u{100}', '\u{143}'));
        }
    }
}
