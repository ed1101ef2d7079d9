//! Classifying 64 bytes as letters and digits, punctuation, blanks, and everything else.
//!
//! The answer is three sets of positions as bit masks, so that the tokenizer walks over words by
//! counting bits instead of looking at bytes. Bytes that are not plain printable ASCII, nor one of the
//! four ASCII blanks that every BERT setting agrees on, are `other`: what becomes of them depends on
//! the normalizer.
//!
//! The portable version works on eight bytes in a register at a time; AVX2 and AVX-512 versions do the
//! same on 32 and 64. All give the same masks, and the best one is chosen once.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vector loads and calls of functions for detected instructions")
)]

/// Number of bytes that are sorted at once.
pub(super) const BLOCK: usize = 64;

/// Positions by kind; a position in none of the sets is a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masks {
    /// ASCII letters and digits.
    pub(super) word: u64,
    /// ASCII punctuation.
    pub(super) punctuation: u64,
    /// Bytes of characters beyond ASCII, and control characters other than tab, LF and CR.
    pub(super) other: u64,
}

/// An implementation, for an instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scanner(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Scanner {
    /// The fastest one for this machine.
    pub(super) fn detect() -> Self {
        Self::available().last().unwrap_or(Self(Level::Portable))
    }

    /// All that this machine can run, the fastest last.
    fn available() -> impl Iterator<Item = Self> {
        let levels = [
            Some(Level::Portable),
            #[cfg(target_arch = "x86_64")]
            is_x86_feature_detected!("avx2").then_some(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"))
                .then_some(Level::Avx512),
        ];
        levels.into_iter().flatten().map(Self)
    }

    #[inline]
    pub(super) fn scan(self, block: &[u8; BLOCK]) -> Masks {
        match self.0 {
            Level::Portable => portable(block),
            // SAFETY: the level exists only where `available` has found the instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2(block) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512(block) },
        }
    }
}

/// One bit in each byte of a register.
const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

fn portable(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks { word: 0, punctuation: 0, other: 0 };
    let (groups, _) = block.as_chunks::<8>();
    for (group, bytes) in groups.iter().enumerate() {
        let bytes = u64::from_le_bytes(*bytes);
        let beyond_ascii = bytes & HIGHS;
        // Seven bits to a byte from here on: sums of two of them do not carry over.
        let low = bytes & !HIGHS;
        let folded = low | ONES << 5;
        let word = in_range(folded, b'a', b'z') | in_range(low, b'0', b'9');
        let blank = equal(low, b' ') | equal(low, b'\t') | equal(low, b'\n') | equal(low, b'\r');
        let other = (in_range(low, 0, 0x1F) | equal(low, 0x7F)) & !blank | beyond_ascii;
        let word = word & !beyond_ascii;
        let punctuation = HIGHS & !(word | blank | other);
        masks.word |= gather(word) << (8 * group);
        masks.punctuation |= gather(punctuation) << (8 * group);
        masks.other |= gather(other) << (8 * group);
    }
    masks
}

/// The high bit of each byte that lies between `first` and `last`; bytes are below 128.
fn in_range(bytes: u64, first: u8, last: u8) -> u64 {
    let at_least = bytes + ONES * u64::from(128 - first);
    let beyond = bytes + ONES * u64::from(127 - last);
    at_least & !beyond & HIGHS
}

fn equal(bytes: u64, byte: u8) -> u64 {
    in_range(bytes, byte, byte)
}

/// The high bits of eight bytes, side by side.
fn gather(highs: u64) -> u64 {
    // Each product bit in the top byte comes from exactly one of the factors' bits.
    (highs >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "bytes and masks, not numbers"
)]
fn avx2(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_andnot_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };

    let all = |byte: u8| _mm256_set1_epi8(byte as i8);
    // Signed comparisons: bytes beyond ASCII are negative and lie in no range.
    let in_range = |bytes: __m256i, first: u8, last: u8| {
        _mm256_and_si256(
            _mm256_cmpgt_epi8(bytes, all(first - 1)),
            _mm256_cmpgt_epi8(all(last + 1), bytes),
        )
    };
    let mut masks = Masks { word: 0, punctuation: 0, other: 0 };
    let (halves, _) = block.as_chunks::<32>();
    for (half, bytes) in halves.iter().enumerate() {
        // SAFETY: 32 bytes are read from an array of 32 bytes; the load needs no alignment.
        let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        let folded = _mm256_or_si256(bytes, all(0x20));
        let word = _mm256_or_si256(in_range(folded, b'a', b'z'), in_range(bytes, b'0', b'9'));
        let blank = [b' ', b'\t', b'\n', b'\r']
            .map(|byte| _mm256_cmpeq_epi8(bytes, all(byte)))
            .into_iter()
            .reduce(|a, b| _mm256_or_si256(a, b))
            .unwrap_or(word);
        // Below 0x20 as a signed number: controls and everything beyond ASCII.
        let low = _mm256_cmpgt_epi8(all(0x20), bytes);
        let other =
            _mm256_andnot_si256(blank, _mm256_or_si256(low, _mm256_cmpeq_epi8(bytes, all(0x7F))));
        let mask = |lanes: __m256i| u64::from(_mm256_movemask_epi8(lanes) as u32);
        let (word, blank, other) = (mask(word), mask(blank), mask(other));
        let punctuation = !(word | blank | other) & 0xFFFF_FFFF;
        masks.word |= word << (32 * half);
        masks.punctuation |= punctuation << (32 * half);
        masks.other |= other << (32 * half);
    }
    masks
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
#[expect(clippy::cast_possible_wrap, reason = "bytes, not numbers")]
fn avx512(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m512i, _mm512_cmpeq_epi8_mask, _mm512_cmplt_epi8_mask, _mm512_cmplt_epu8_mask,
        _mm512_loadu_si512, _mm512_or_si512, _mm512_set1_epi8, _mm512_sub_epi8,
    };

    let all = |byte: u8| _mm512_set1_epi8(byte as i8);
    let in_range = |bytes: __m512i, first: u8, last: u8| {
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, all(first)), all(last - first + 1))
    };
    // SAFETY: 64 bytes are read from an array of 64 bytes; the load needs no alignment.
    let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
    let folded = _mm512_or_si512(bytes, all(0x20));
    // Folding leaves bytes beyond ASCII beyond ASCII.
    let word = in_range(folded, b'a', b'z') | in_range(bytes, b'0', b'9');
    let blank = _mm512_cmpeq_epi8_mask(bytes, all(b' '))
        | _mm512_cmpeq_epi8_mask(bytes, all(b'\t'))
        | _mm512_cmpeq_epi8_mask(bytes, all(b'\n'))
        | _mm512_cmpeq_epi8_mask(bytes, all(b'\r'));
    let low = _mm512_cmplt_epi8_mask(bytes, all(0x20));
    let other = (low | _mm512_cmpeq_epi8_mask(bytes, all(0x7F))) & !blank;
    Masks { word, punctuation: !(word | blank | other), other }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, one byte at a time.
    fn by_byte(block: &[u8; BLOCK]) -> Masks {
        let positions = |test: fn(u8) -> bool| {
            (0..BLOCK).filter(|&at| test(block[at])).map(|at| 1 << at).sum::<u64>()
        };
        let blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        Masks {
            word: positions(|byte| byte.is_ascii_alphanumeric()),
            punctuation: positions(|byte| byte.is_ascii_punctuation()),
            other: positions(|byte| !byte.is_ascii_graphic())
                & !(0..BLOCK).filter(|&at| blank(block[at])).map(|at| 1 << at).sum::<u64>(),
        }
    }

    #[test]
    fn every_byte_at_every_position_is_sorted_by_every_implementation() {
        for scanner in Scanner::available() {
            for byte in 0..=u8::MAX {
                for place in 0..BLOCK {
                    let mut block = [b'a'; BLOCK];
                    block[place] = byte;
                    assert_eq!(scanner.scan(&block), by_byte(&block), "{scanner:?} {byte:#x}");
                }
            }
            for shift in 0..=u8::MAX {
                let block =
                    std::array::from_fn(|at| u8::try_from(at * 7).unwrap_or(1).wrapping_add(shift));
                assert_eq!(scanner.scan(&block), by_byte(&block), "{scanner:?} {shift}");
            }
        }
    }
}
