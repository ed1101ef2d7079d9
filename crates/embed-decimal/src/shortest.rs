//! The shortest decimal of numbers between 2^-16 and 1, in whole numbers of 64 bits.
//!
//! Such a number is `v = m / 2^e` with `2^23 <= m < 2^24` and `24 <= e <= 39`. What reads back as `v` is
//! what lies nearer to it than half a step of `m`: the numbers between `(m - 1/2) / 2^e` and
//! `(m + 1/2) / 2^e`. We count in units of `10^-k`, where `k` is the least with `10^k >= 2^e`. Then:
//!
//! - The interval is at least one unit wide and less than ten: a whole number of units lies in it, and at
//!   most one multiple of ten. The multiple of ten, if there is one, is the shortest; else it is
//!   the whole number nearest to `v`. Zeros at its end are not written.
//! - Everything is exact. In units, `v` is `m * 10^k / 2^e`, which is `2m * 5^k / 2^s` with
//!   `s = e - k + 1`, and the ends are `(2m - 1) * 5^k / 2^s` and `(2m + 1) * 5^k / 2^s`. With
//!   `k <= 12` no product exceeds 2^53.
//! - An end is an odd number over a power of two, and no whole number: whether ends belong to the
//!   interval, which the parity of `m` decides, need not be asked.
//! - There are at most `10 * 2^24` units, hence nine digits.
//!
//! Powers of two (`m = 2^23`) have a nearer neighbor below, and are left to others.
//!
//! The idea that the interval decides between two candidates, a short and a long one, is that of Raffaello
//! Giulietti's Schubfach.
#![expect(clippy::cast_possible_truncation, reason = "the module docs bound every number")]
#![expect(clippy::inline_always, reason = "compiled twice, for each kind of processor as a whole")]

/// A number of units: `units / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// At most nine digits; eight if `places` is 8.
    pub(crate) units: u32,
    /// 8 to 12; 0 for a number that has no arithmetic here.
    pub(crate) places: u8,
}

/// The numbers between two powers of two.
#[derive(Clone, Copy)]
struct Binade {
    /// `5^k`.
    five: u64,
    /// `s`.
    shift: u8,
    /// `k`.
    places: u8,
}

/// The exponent bits of 2^-16, the least number with an arithmetic here.
const FIRST: u32 = 127 - 16;

/// How many there are with one.
const COUNT: usize = 16;

/// From 2^-16 to 1/2, in this order, and one for all other numbers, which makes 0 of them.
const BINADES: [Binade; COUNT + 1] = {
    let mut binades = [Binade { five: 0, shift: 1, places: 0 }; COUNT + 1];
    let mut e = 39;
    while e >= 24 {
        let mut places = 0;
        while 10_u64.pow(places) < 1 << e {
            places += 1;
        }
        binades[39 - e as usize] =
            Binade { five: 5_u64.pow(places), shift: (e - places + 1) as u8, places: places as u8 };
        e -= 1;
    }
    binades
};

/// The shortest decimal of the absolute value, if it is in the range and no power of two.
#[inline(always)]
pub(crate) fn shortest(value: f32) -> Decimal {
    let bits = value.to_bits();
    let fraction = bits & 0x7f_ffff;
    let nth = (bits >> 23 & 0xff).wrapping_sub(FIRST) as usize;
    let nth = if fraction == 0 { COUNT } else { nth.min(COUNT) };
    let Binade { five, shift, places } = BINADES[nth];
    let middle = 2 * u64::from(fraction | 0x80_0000) * five;
    let (below, above) = (middle - five, middle + five);
    let short = u64::from((above >> shift) as u32 / 10 * 10);
    // Rounds to the nearest, and what lies in the middle to the even one.
    let half = 1 << (shift - 1);
    let long = (middle + half - 1 + (middle >> shift & 1)) >> shift;
    // No branch: nobody can guess which one it will be.
    let units = std::hint::select_unpredictable(short << shift > below, short, long);
    Decimal { units: units as u32, places }
}
