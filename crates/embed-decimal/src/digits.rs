//! Decimal digits of a block of numbers.
//!
//! Nine digits are one digit and two groups of four. All groups of a block are halved into groups of two and
//! those into digits by the same few operations on 16 bits, for which compilers take vector instructions:
//! division by 100 and by 10 is a product of which the upper half counts, exact for the few values that
//! come in (a test tries all of them). Steps are loops of their own, because a loop that does one thing is
//! what compilers can put into vectors.
#![expect(clippy::cast_possible_truncation, reason = "groups of digits are small numbers")]
#![expect(clippy::inline_always, reason = "compiled twice, for each kind of processor as a whole")]

use crate::shortest::{BLOCK, Decimals};

/// The digits of a block of numbers.
pub(crate) struct Digits {
    /// How many digits stand behind the point, zeros at the end included; 0 for a number that has no fast
    /// way.
    pub(crate) places: [u8; BLOCK],
    /// The first of the nine digits.
    pub(crate) first: [u8; BLOCK],
    /// The other eight, two to an element, the earlier one in the lower byte.
    pairs: [u16; 4 * BLOCK],
}

impl Digits {
    /// Of at most [`BLOCK`] numbers.
    #[inline(always)]
    pub(crate) fn of(values: &[f32]) -> Self {
        let Decimals { units, places } = Decimals::of(values);
        let mut first = [0; BLOCK];
        let mut fours = [0; 2 * BLOCK];
        for (index, units) in units.into_iter().enumerate() {
            let is_long = u32::from(units >= 100_000_000);
            let eight = units - is_long * 100_000_000;
            first[index] = is_long as u8;
            fours[2 * index] = (eight / 10_000) as u16;
            fours[2 * index + 1] = (eight % 10_000) as u16;
        }
        let mut twos = [0; 4 * BLOCK];
        for (index, four) in fours.into_iter().enumerate() {
            let upper = hundreds(four);
            twos[2 * index] = upper;
            twos[2 * index + 1] = four - upper * 100;
        }
        Self { places, first, pairs: twos.map(pair) }
    }

    /// The last eight digits of a number, 0 to 9 each in a byte, the first one in the lowest.
    #[inline(always)]
    pub(crate) fn rest(&self, index: usize) -> u64 {
        let pair = |nth: usize| u64::from(self.pairs[4 * index + nth]) << (16 * nth);
        pair(0) | pair(1) | pair(2) | pair(3)
    }
}

/// `four / 100`, for numbers below 10,000.
#[inline(always)]
fn hundreds(four: u16) -> u16 {
    upper_half(four, 10_486) >> 4
}

/// The two digits of a number below 100, the first in the lower byte.
#[inline(always)]
fn pair(two: u16) -> u16 {
    let tens = upper_half(two, 6_554);
    // tens + 256 * (two - 10 * tens), without a byte that overflows.
    (two << 8) - tens * (10 * 256 - 1)
}

#[inline(always)]
fn upper_half(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_digits_are_divided_exactly() {
        assert!((0..10_000).all(|four| hundreds(four) == four / 100));
        assert!(
            (0..100).all(|two| pair(two).to_le_bytes() == [(two / 10) as u8, (two % 10) as u8])
        );
    }
}
