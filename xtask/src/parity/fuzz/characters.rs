//! What each character of Unicode is, in tables made once.
//!
//! Categories and combining classes are those of the crates that the reference itself reads.

use unicode_categories::UnicodeCategories as _;
use unicode_normalization_alignments::UnicodeNormalization as _;
use unicode_normalization_alignments::char::canonical_combining_class;

use crate::random::Random;

/// General categories, put together where tokenizers treat them alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Cased,
    Uncased,
    Nonspacing,
    SpacingOrEnclosing,
    Decimal,
    OtherNumber,
    Punctuation,
    Symbol,
    Separator,
    Control,
    Format,
    PrivateOrUnassigned,
}

/// Number of groups.
const GROUPS: usize = Group::PrivateOrUnassigned as usize + 1;

impl Group {
    fn of(c: char) -> Self {
        if c.is_letter_uppercase() || c.is_letter_lowercase() || c.is_letter_titlecase() {
            Self::Cased
        } else if c.is_letter() {
            Self::Uncased
        } else if c.is_mark_nonspacing() {
            Self::Nonspacing
        } else if c.is_mark() {
            Self::SpacingOrEnclosing
        } else if c.is_number_decimal_digit() {
            Self::Decimal
        } else if c.is_number() {
            Self::OtherNumber
        } else if c.is_punctuation() {
            Self::Punctuation
        } else if c.is_symbol() {
            Self::Symbol
        } else if c.is_separator() {
            Self::Separator
        } else if c.is_other_control() {
            Self::Control
        } else if c.is_other_format() {
            Self::Format
        } else {
            Self::PrivateOrUnassigned
        }
    }
}

/// Characters by blocks of 64, so that a large script is not drawn more often than a small one.
#[derive(Default)]
pub(super) struct Pool {
    blocks: Vec<(u32, Vec<char>)>,
}

impl Pool {
    /// Takes characters in ascending order.
    fn push(&mut self, c: char) {
        let number = u32::from(c) / 64;
        match self.blocks.last_mut() {
            Some((last, block)) if *last == number => block.push(c),
            _ => self.blocks.push((number, vec![c])),
        }
    }

    /// One character, from any block.
    pub(super) fn draw(&self, random: &mut Random) -> char {
        let block = self.draw_block(random);
        random.pick(block)
    }

    /// Characters that are neighbors.
    pub(super) fn draw_block(&self, random: &mut Random) -> &[char] {
        &self.blocks[random.below(self.blocks.len())].1
    }
}

/// The tables.
pub(super) struct Characters {
    groups: Vec<Group>,
    combining: Vec<u8>,
    pools: [Pool; GROUPS],
    /// Decimal digits beyond ASCII.
    pub(super) digits: Pool,
    /// Whose canonical decomposition is another text.
    pub(super) composed: Pool,
    /// With a combining class that canonical ordering looks at.
    pub(super) reordered: Pool,
    /// Whose lower or upper case is more than one character, or neither.
    pub(super) case_changing: Pool,
}

impl Characters {
    pub(super) fn new() -> Self {
        let mut characters = Self {
            groups: Vec::new(),
            combining: Vec::new(),
            pools: std::array::from_fn(|_| Pool::default()),
            digits: Pool::default(),
            composed: Pool::default(),
            reordered: Pool::default(),
            case_changing: Pool::default(),
        };
        for code in 0..=u32::from(char::MAX) {
            let c = char::from_u32(code);
            let group = c.map_or(Group::PrivateOrUnassigned, Group::of);
            let class = c.map_or(0, canonical_combining_class);
            characters.groups.push(group);
            characters.combining.push(class);
            let Some(c) = c else { continue };
            // Empty planes would otherwise be nearly all of what is unassigned.
            let drawn = code < 0x3_2000 || code.is_multiple_of(0x1000) || code >= 0xE_0000;
            if drawn || group != Group::PrivateOrUnassigned {
                characters.pools[group as usize].push(c);
            }
            if group == Group::Decimal && !c.is_ascii() {
                characters.digits.push(c);
            }
            if decomposes(c) {
                characters.composed.push(c);
            }
            if class != 0 {
                characters.reordered.push(c);
            }
            if changes_case_oddly(c) {
                characters.case_changing.push(c);
            }
        }
        characters
    }

    pub(super) fn group(&self, c: char) -> Group {
        self.groups[c as usize]
    }

    pub(super) fn combining_class(&self, c: char) -> u8 {
        self.combining[c as usize]
    }

    pub(super) fn pool(&self, group: Group) -> &Pool {
        &self.pools[group as usize]
    }
}

pub(super) fn decomposes(c: char) -> bool {
    !c.is_ascii() && decomposition(c) != [c]
}

/// The canonical decomposition of a character.
pub(super) fn decomposition(c: char) -> Vec<char> {
    std::iter::once(c).nfd().map(|(part, _)| part).collect()
}

/// Special when case is changed, `ß` and `İ` as well as the final sigma.
pub(super) fn changes_case_oddly(c: char) -> bool {
    !c.is_ascii()
        && ("Σςσſıẞµ".contains(c)
            || c.is_letter_titlecase()
            || c.to_lowercase().count() > 1
            || c.to_uppercase().count() > 1
            || c.to_lowercase().any(|lower| lower.is_ascii()))
}
