//! The shortest decimals of numbers between 2^-16 and 1, exactly, in `f64`.
//!
//! Such a number is `v = m / 2^e` with `2^23 <= m < 2^24` and `24 <= e <= 39`. What reads back as `v` is
//! what lies nearer to it than half a step of `m`: the numbers between `(m - 1/2) / 2^e` and
//! `(m + 1/2) / 2^e`. We count in units of `10^-k`, where `k` is the least with `10^k >= 2^e`. Then:
//!
//! - The interval is at least one unit wide and less than ten: a whole number of units lies in it, and at
//!   most one multiple of ten. The multiple of ten, if there is one, is the shortest; else it is the whole
//!   number nearest to `v`, and of two that are equally near the even one. Zeros at its end are not written.
//! - Everything is exact. In units, `v` is `m * 10^k / 2^e`, the ends are `(2m - 1) * 10^k / 2^(e + 1)` and
//!   `(2m + 1) * 10^k / 2^(e + 1)`: whole numbers `2m * 5^k` and `(2m ± 1) * 5^k` over a power of two. With
//!   `k <= 12` none of them exceeds 2^53, so that each is an `f64`, and no product or sum is rounded where it
//!   must not be.
//! - An end is an odd number over a power of two, and no whole number: whether ends belong to the
//!   interval, which the parity of `m` decides, need not be asked.
//! - There are at most `10 * 2^24` units, hence nine digits.
//!
//! Powers of two (`m = 2^23`) have a nearer neighbor below, and are left to others.
//!
//! The idea that the interval decides between two candidates, a short and a long one, is that of Raffaello
//! Giulietti's Schubfach. In whole numbers of 64 bits the same steps take twice the time, because processors
//! multiply vectors of doubles, not of those.
#![expect(clippy::cast_possible_truncation, reason = "the module docs bound every number")]
#![expect(clippy::inline_always, reason = "compiled twice, for each kind of processor as a whole")]

/// So many numbers become text together. With half of it the processor waits for the last steps of one block
/// before it gets to the next: a tenth more time. Twice as many bring nothing.
pub(crate) const BLOCK: usize = 32;

/// The decimals of a block of numbers: `units / 10^places` each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimals {
    /// At most nine digits; eight if `places` is 8.
    pub(crate) units: [u32; BLOCK],
    /// 8 to 12; 0, with no units, for a number that has no arithmetic here.
    pub(crate) places: [u8; BLOCK],
}

/// The exponents `e` of the numbers with an arithmetic here.
const EXPONENTS: std::ops::RangeInclusive<u32> = 24..=39;

/// `10^k` at `k`, and 0 where no number of the range has so many places.
const SCALES: [f64; 16] = {
    let mut scales = [0.0; 16];
    let mut e = *EXPONENTS.start();
    while e <= *EXPONENTS.end() {
        scales[places_of(e) as usize] = 10_u64.pow(places_of(e)) as f64;
        e += 1;
    }
    scales
};

/// The least `k` with `10^k >= 2^e`, for every `e` of the range: `1233 / 4096` is the common logarithm of
/// two, but for a part in sixty thousand.
#[inline(always)]
const fn places_of(e: u32) -> u32 {
    ((e * 1233) >> 12) + 1
}

/// Half a step of `m`, over the power of two below the number.
const HALF_STEP: f64 = 1.0 / (1 << 24) as f64;

/// At this size an `f64` holds whole numbers only: adding it rounds to the nearest one, and to the even one
/// of two, and the low bits of the sum are that number.
const WHOLE: f64 = (1_u64 << 52) as f64;

impl Decimals {
    /// Of the absolute values of at most [`BLOCK`] numbers. Steps are loops of their own, so that compilers
    /// can put them into vectors.
    #[inline(always)]
    pub(crate) fn of(values: &[f32]) -> Self {
        let mut bits = [0; BLOCK];
        for (bits, value) in bits.iter_mut().zip(values) {
            *bits = value.to_bits();
        }
        let mut places = [0; BLOCK];
        for (bits, places) in bits.iter_mut().zip(&mut places) {
            let e = 150_u32.wrapping_sub(*bits >> 23 & 0xff);
            let has_arithmetic = EXPONENTS.contains(&e) && *bits & 0x7f_ffff != 0;
            *places = if has_arithmetic { places_of(e) as u8 } else { 0 };
            *bits = if has_arithmetic { *bits & 0x7fff_ffff } else { 0 };
        }
        let scales = places.map(|places| SCALES[usize::from(places & 15)]);
        let mut units = [0; BLOCK];
        for (index, bits) in bits.into_iter().enumerate() {
            units[index] = units_of(bits, scales[index]);
        }
        Self { units, places }
    }
}

/// The units of a number by its bits without a sign, if there are `scale` in 1.
#[inline(always)]
fn units_of(bits: u32, scale: f64) -> u32 {
    let middle = f64::from(f32::from_bits(bits)) * scale;
    let power_below = f64::from(f32::from_bits(bits & 0x7f80_0000));
    let half = power_below * (scale * HALF_STEP);
    let (below, above) = (middle - half, middle + half);
    // It is no whole number, so that the nearest one to what is a half less is the one below.
    let floor = (above + (WHOLE - 0.5)) - WHOLE;
    // A tenth of it has 0 to 9 tenths above a whole number: less 4.5 tenths, that is the nearest one, with so
    // much to spare that it does not matter how a tenth is rounded.
    let tens = ((floor * 0.1 - 0.45) + WHOLE) - WHOLE;
    let short = tens * 10.0;
    let long = (middle + WHOLE) - WHOLE;
    let units = if short > below { short } else { long };
    (units + WHOLE).to_bits() as u32
}
