//! Rows of `f32` as arrays of JSON, each number in the shortest form that reads back as the same `f32`.
//!
//! The text of an embedding costs more than the embedding: a row of 256 numbers is tokenized and pooled in
//! a microsecond, and a formatter that writes one number at a time needs five for its text. The
//! values of rows of length 1 lie in a small range, for which `shortest.rs` has an exact and short
//! arithmetic, and `array.rs` turns a block of them into text at a time. Every other number (0, powers of
//! two, below 2^-16, 1 and above) is `zmij`'s, whose text is also what all others must equal: a test
//! compares each of the 134,217,712 numbers of the range.
//!
//! # Example
//!
//! ```
//! let mut text = Vec::new();
//! embed_decimal::write_array(&[0.25, -0.1, 1.0, 1e-7], &mut text);
//! assert_eq!(text, b"[0.25,-0.1,1.0,1e-7]");
//! ```

mod array;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod digits;
mod shortest;

pub use array::{HEADROOM, WIDEST, write_array};

#[cfg(test)]
mod tests;
