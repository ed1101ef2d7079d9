//! Text of many numbers at a time.
//!
//! A block of numbers goes through three steps, the first two of which are loops without branches
//! over small arrays:
//!
//! 1. the decimals of all numbers (`shortest.rs`);
//! 2. their digits, in vector instructions of any processor (`digits.rs`);
//! 3. one number after the other into the text: zeros and a point first, the digits over them, and the
//!    length from the zeros at the end. What is written behind the length, the next number writes over.
//!
//! All of it is compiled a second time for processors with AVX2 (`avx2.rs`): 4.7 nanoseconds a number there,
//! 6.1 without.
//!
//! Tried without gain: the same arithmetic for one number at a time (10 nanoseconds), the zeros, the point
//! and the first digit as one word in the third step, more room at a time, and copying zmij's text
//! in two overlapping pieces in place of a call of `memcpy` (zmij itself needs 21 of 23).
#![expect(clippy::inline_always, reason = "compiled twice, for each kind of processor as a whole")]

#[cfg(target_arch = "x86_64")]
use crate::avx2::Avx2;
use crate::digits::Digits;
use crate::shortest::BLOCK;

/// The longest text of a number, in bytes, with a comma behind it.
pub const WIDEST: usize = ROOM + 1;

/// What `zmij` may need for a number.
const ROOM: usize = 24;

/// So many bytes behind its text [`write_array`] takes for a moment: what a block may need. Where a `Vec` has
/// capacity for the text and for so much more, the text does not move.
pub const HEADROOM: usize = BLOCK * WIDEST;

/// Appends an array of JSON: `values` in their order, each in the shortest form that reads back as the same
/// `f32`. It is the form of `zmij`, in every byte.
///
/// The text takes at most `2 + WIDEST * values.len()` bytes, and [`HEADROOM`] more for a moment.
///
/// Values must be finite: JSON has no infinity and no NaN, and such values become words that no JSON reader
/// takes.
pub fn write_array(values: &[f32], text: &mut Vec<u8>) {
    text.push(b'[');
    #[cfg(target_arch = "x86_64")]
    match Avx2::detect() {
        Some(avx2) => avx2.write_numbers(values, text),
        None => write_numbers(values, text),
    }
    #[cfg(not(target_arch = "x86_64"))]
    write_numbers(values, text);
    text.push(b']');
}

/// Appends numbers with a comma between two.
#[inline(always)]
pub(crate) fn write_numbers(values: &[f32], text: &mut Vec<u8>) {
    let mut end = text.len();
    for block in values.chunks(BLOCK) {
        // Room that is left over from the block before serves again: most numbers need half of theirs.
        if text.len() < end + HEADROOM {
            text.resize(end + HEADROOM, 0);
        }
        end += write_block(block, text[end..].first_chunk_mut().expect("resized to it"));
    }
    // Over the comma behind the last number.
    text.truncate(end - usize::from(!values.is_empty()));
}

/// Writes at most [`BLOCK`] numbers, each with a comma behind it, and gives their length.
#[inline(always)]
fn write_block(values: &[f32], text: &mut [u8; HEADROOM]) -> usize {
    let digits = Digits::of(values);
    let mut end = 0;
    for (index, &value) in values.iter().enumerate() {
        let room = text[end..].first_chunk_mut().expect("no number is wider than its share");
        end += match digits.places[index] {
            0 => write_other(value, room),
            _ => write_digits(value, &digits, index, room),
        };
        text[end] = b',';
        end += 1;
    }
    end
}

/// Writes a number from its digits, and gives its length.
#[inline(always)]
fn write_digits(value: f32, digits: &Digits, index: usize, room: &mut [u8; ROOM]) -> usize {
    let rest = digits.rest(index);
    // The last zeros are not written. They are the highest bytes, as the digits lie in order in memory.
    let zeros = rest.leading_zeros() as usize / 8;
    let is_negative = usize::from(value.is_sign_negative());
    room[0] = b'-';
    let room: &mut [u8; ROOM - 1] =
        room[is_negative..].first_chunk_mut().expect("one byte less at most");
    // Of "0." and nine digits behind as many zeros as are missing. If there are eight places, the ninth digit
    // from the end is 0 and falls on the point, which comes last for that.
    room[..8].copy_from_slice(b"0.000000");
    let nine = usize::from(digits.places[index] - 7) & 7;
    room[nine] = b'0' | digits.first[index];
    room[nine + 1..nine + 9].copy_from_slice(&(rest | ZEROS).to_le_bytes());
    room[1] = b'.';
    is_negative + nine + 9 - zeros
}

/// Eight times the character 0.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// Writes a number that has no fast way, and gives its length.
#[cold]
#[inline(never)]
fn write_other(value: f32, room: &mut [u8; ROOM]) -> usize {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format(value).as_bytes();
    room[..text.len()].copy_from_slice(text);
    text.len()
}
