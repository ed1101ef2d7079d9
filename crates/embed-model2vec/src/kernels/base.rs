//! The vector kernel for any processor: arrays, and what the compiler makes of them.
#![expect(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the instructions of its caller"
)]

use super::columns::{CHUNK, Isa};

/// What every processor that the crate is compiled for can do.
pub(super) struct Base;

impl Isa for Base {
    // One chunk fills four registers of 128 bits. With more, conversions of bytes are not vectorized.
    const F32_CHUNKS: usize = 1;
    const I16_CHUNKS: usize = 4;

    type F32s = [f32; CHUNK];
    type I16s = [i16; CHUNK];

    #[inline(always)]
    fn load_f32(values: &[f32; CHUNK]) -> [f32; CHUNK] {
        *values
    }

    #[inline(always)]
    fn store_f32(values: [f32; CHUNK]) -> [f32; CHUNK] {
        values
    }

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
        bits.map(f16_to_f32)
    }

    #[inline(always)]
    fn widen_bf16(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
        bits.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }

    #[inline(always)]
    fn widen_i8(values: &[i8; CHUNK]) -> [f32; CHUNK] {
        values.map(f32::from)
    }

    #[inline(always)]
    fn widen_u8(values: &[u8; CHUNK]) -> [f32; CHUNK] {
        values.map(f32::from)
    }

    #[inline(always)]
    fn add(mut left: [f32; CHUNK], right: [f32; CHUNK]) -> [f32; CHUNK] {
        for (left, right) in left.iter_mut().zip(right) {
            *left += right;
        }
        left
    }

    #[inline(always)]
    fn scale(values: [f32; CHUNK], factor: f32) -> [f32; CHUNK] {
        values.map(|value| value * factor)
    }

    #[inline(always)]
    fn divide(values: [f32; CHUNK], count: f32) -> [f32; CHUNK] {
        values.map(|value| value / count)
    }

    #[inline(always)]
    fn load_i8(values: &[i8; CHUNK]) -> [i16; CHUNK] {
        values.map(i16::from)
    }

    #[inline(always)]
    fn load_u8(values: &[u8; CHUNK]) -> [i16; CHUNK] {
        values.map(i16::from)
    }

    #[inline(always)]
    fn store_i16(values: [i16; CHUNK]) -> [i16; CHUNK] {
        values
    }

    #[inline(always)]
    fn i16_to_f32(values: [i16; CHUNK]) -> [f32; CHUNK] {
        values.map(f32::from)
    }

    #[inline(always)]
    fn u16_to_f32(values: [i16; CHUNK]) -> [f32; CHUNK] {
        values.map(|bits| f32::from(bits.cast_unsigned()))
    }

    #[inline(always)]
    fn add_i16(mut left: [i16; CHUNK], right: [i16; CHUNK]) -> [i16; CHUNK] {
        for (left, right) in left.iter_mut().zip(right) {
            *left = left.wrapping_add(right);
        }
        left
    }
}

/// Exact, and without branches, so that it vectorizes.
///
/// The bits of an F16 number, shifted into the places of an `f32`, read as the number times 2^-112:
/// multiplying by 2^112 gives the number, subnormal ones included. Only infinities and NaNs need their
/// exponent put right.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    const TWO_TO_112: f32 = f32::from_bits((112 + 127) << 23);
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    let value = f32::from_bits(magnitude << 13) * TWO_TO_112;
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(value.to_bits() | special | sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_f16_reads_as_its_value() {
        for bits in 0..=u16::MAX {
            let expected = f16::from_bits(bits).to_f32();
            let found = f16_to_f32(bits);
            let same = found.to_bits() == expected.to_bits();
            assert!(same || found.is_nan() && expected.is_nan(), "{bits:#06x}");
        }
    }
}
