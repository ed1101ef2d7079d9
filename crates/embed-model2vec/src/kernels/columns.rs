//! The vector kernel: one loop for every instruction set.
//!
//! # How it goes
//!
//! The columns of the table are taken in blocks so narrow that the running sums of a block fit into
//! registers: for each block of columns, go over the tokens, add each token's part of its row to the
//! sums, and at the end write the means. Nothing is loaded but table, and nothing is stored but
//! results. The scalar loop goes over whole rows instead and has to load and store a sum for each
//! element.
//!
//! A block is a whole number of chunks of [`CHUNK`] neighboring columns, and a chunk is one value of
//! a type that an [`Isa`] provides, with the few operations on it that pooling needs. [`pool`] is
//! compiled once for each instruction set; see `x86.rs`.
//!
//! # Why the bits are those of the definition
//!
//! - A column sees its additions in token order: only the order *between* columns is changed.
//! - A sum of integers is kept in 16 bits and exact: a block of ids is short enough
//!   ([`MAX_IDS`](super::block::MAX_IDS)). Signed and unsigned 16-bit additions are the same operation.
//! - A product is rounded before it is added: the two are separate operations, and the compiler never
//!   fuses them by itself.
//! - The mean of a single block is divided in `f32`, not in `f64` as in the definition. Dividend and
//!   divisor are both exact in `f32` (a sum of bytes is below 2^16, the count is at most 2^8), and
//!   `f64` has more than twice the digits of `f32` and two to spare: then rounding the `f64` quotient
//!   to `f32` gives what dividing in `f32` gives, for subnormal results too.
//! - In the last chunk of a narrow row, columns beyond the wanted ones are computed and thrown away.
//!
//! # What makes it fast
//!
//! - Rows lie all over a table that is larger than the caches. The pooler asks for a row when its id
//!   arrives, so that it comes while the rest of the text is tokenized.
//! - Row number and weight of each token are looked up once, not once for each block of columns.
//!
//! # What did not pay
//!
//! - Arrays in place of the vector types, for the compiler to vectorize: F32 rows came out as well,
//!   but sums of I8 rows and wide blocks were taken apart into single elements, three to ten times
//!   slower, and differently with each change nearby. It remains the portable fallback.
//! - `array::map` around the operations: its closures are not always inlined, and an operation that
//!   is not inlined is a call. I8 rows took twice as long.
//! - Asking for rows once more here, some tokens ahead of their turn: the processor looks ahead by
//!   itself, and F32 rows took an eighth longer.
//! - Reading rows that begin in the middle of a cache line from the beginning of the line on, and
//!   throwing the lanes in front away: aligned loads, but one line more. Moving the table to aligned
//!   pages (`weights.rs`) gained a fifth to a third instead.
#![expect(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the instructions of its caller"
)]

use std::marker::PhantomData;

use super::block::{Block, Token};
use super::scalar::{self, Accumulate as _, Sums};
use crate::weights::{Elements, TokenWeights};

/// Neighboring columns that are handled together: one AVX-512 register of `f32`.
pub(super) const CHUNK: usize = 16;

/// An instruction set: values of [`CHUNK`] columns and operations on them, column by column.
pub(super) trait Isa {
    /// The widest block whose sums of 32 bits fit into registers, in chunks.
    const F32_CHUNKS: usize;
    /// The same for sums of 16 bits.
    const I16_CHUNKS: usize;

    type F32s: Copy;
    type I16s: Copy;

    fn load_f32(values: &[f32; CHUNK]) -> Self::F32s;
    fn store_f32(values: Self::F32s) -> [f32; CHUNK];
    fn widen_f16(bits: &[u16; CHUNK]) -> Self::F32s;
    fn widen_bf16(bits: &[u16; CHUNK]) -> Self::F32s;
    fn widen_i8(values: &[i8; CHUNK]) -> Self::F32s;
    fn widen_u8(values: &[u8; CHUNK]) -> Self::F32s;
    fn add(left: Self::F32s, right: Self::F32s) -> Self::F32s;
    fn scale(values: Self::F32s, factor: f32) -> Self::F32s;
    fn divide(values: Self::F32s, count: f32) -> Self::F32s;

    fn load_i8(values: &[i8; CHUNK]) -> Self::I16s;
    fn load_u8(values: &[u8; CHUNK]) -> Self::I16s;
    fn store_i16(values: Self::I16s) -> [i16; CHUNK];
    fn i16_to_f32(values: Self::I16s) -> Self::F32s;
    fn u16_to_f32(values: Self::I16s) -> Self::F32s;
    /// Wraps around, so that it serves unsigned sums as well.
    fn add_i16(left: Self::I16s, right: Self::I16s) -> Self::I16s;
}

/// Where the results of a block of ids go.
pub(super) enum Target<'a> {
    /// The block is the whole bag: its means.
    Mean(&'a mut [f32]),
    /// The block is a part of a bag: onto the running sums.
    Sums(&'a mut Sums),
}

/// Pools a block of ids.
///
/// F64 tables, F64 weights and F16 weights are rare and left to the definition.
#[inline(always)]
pub(super) fn pool<I: Isa>(block: &Block<'_>, target: Target<'_>) {
    let file = block.file;
    let job = Job { block, target };
    match (&block.weights.elements, &block.weights.factors) {
        (Elements::F64(_), _) | (_, TokenWeights::Half(_) | TokenWeights::Double(_)) => {
            scalar::pool(block, job.target);
        }
        (Elements::F32(t), TokenWeights::None) => job.run::<I, Plain<F32>>(t.get(file)),
        (Elements::F16(t), TokenWeights::None) => job.run::<I, Plain<F16>>(t.get(file)),
        (Elements::Bf16(t), TokenWeights::None) => job.run::<I, Plain<Bf16>>(t.get(file)),
        (Elements::I8(t), TokenWeights::None) => job.run::<I, ExactI8>(t.get(file)),
        (Elements::U8(t), TokenWeights::None) => job.run::<I, ExactU8>(t.get(file)),
        (Elements::F32(t), TokenWeights::Single(_)) => job.run::<I, Weighted<F32>>(t.get(file)),
        (Elements::F16(t), TokenWeights::Single(_)) => job.run::<I, Weighted<F16>>(t.get(file)),
        (Elements::Bf16(t), TokenWeights::Single(_)) => job.run::<I, Weighted<Bf16>>(t.get(file)),
        (Elements::I8(t), TokenWeights::Single(_)) => job.run::<I, Weighted<I8>>(t.get(file)),
        (Elements::U8(t), TokenWeights::Single(_)) => job.run::<I, Weighted<U8>>(t.get(file)),
    }
}

struct Job<'a> {
    block: &'a Block<'a>,
    target: Target<'a>,
}

impl Job<'_> {
    #[inline(always)]
    fn run<I: Isa, K: Kind<I>>(self, table: &[K::Element]) {
        let tokens = self.block.tokens;
        let rows = Rows { table, dim: self.block.weights.dim, tokens };
        match self.target {
            Target::Mean(row) => rows.pool::<I, K>(&mut Output::Means(row, tokens.len() as f32)),
            Target::Sums(sums) => rows.pool::<I, K>(&mut Output::Sums(K::Sum::of(sums))),
        }
    }
}

/// The rows of a block's tokens.
struct Rows<'a, T> {
    table: &'a [T],
    dim: usize,
    tokens: &'a [Token],
}

/// [`Target`], once the type of the sums is known.
enum Output<'a, S> {
    Means(&'a mut [f32], f32),
    Sums(&'a mut [S]),
}

impl<T: Copy> Rows<'_, T> {
    /// Goes over the columns in the widest blocks that fit.
    #[inline(always)]
    fn pool<I: Isa, K: Kind<I, Element = T>>(&self, output: &mut Output<'_, K::Sum>) {
        let columns = match output {
            Output::Means(row, _) => row.len(),
            Output::Sums(sums) => sums.len(),
        };
        let mut start = 0;
        // What K::CHUNKS excludes is never compiled: the comparisons are constant.
        while K::CHUNKS >= 16 && columns - start >= 16 * CHUNK {
            self.pool_columns::<I, K, 16>(start, output);
            start += 16 * CHUNK;
        }
        while K::CHUNKS >= 8 && columns - start >= 8 * CHUNK {
            self.pool_columns::<I, K, 8>(start, output);
            start += 8 * CHUNK;
        }
        while K::CHUNKS >= 4 && columns - start >= 4 * CHUNK {
            self.pool_columns::<I, K, 4>(start, output);
            start += 4 * CHUNK;
        }
        while columns > start {
            self.pool_columns::<I, K, 1>(start, output);
            start += CHUNK;
        }
    }

    /// `N` chunks of columns, the last of them maybe beyond the wanted ones.
    #[inline(always)]
    fn pool_columns<I: Isa, K: Kind<I, Element = T>, const N: usize>(
        &self,
        start: usize,
        output: &mut Output<'_, K::Sum>,
    ) {
        let mut lanes = [K::zero(); N];
        if let Output::Sums(sums) = output {
            for (lanes, sums) in lanes.iter_mut().zip(sums[start..].chunks(CHUNK)) {
                *lanes = K::open(sums);
            }
        }
        for &token in self.tokens {
            if let Some(elements) = self.elements::<N>(token, start) {
                for (lanes, elements) in lanes.iter_mut().zip(elements) {
                    *lanes = K::add(*lanes, elements, token.factor);
                }
            } else {
                lanes[0] = K::add(lanes[0], &self.end_of_table(token, start), token.factor);
            }
        }
        match output {
            Output::Means(row, count) => {
                let rest = &mut row[start..];
                // A store of constant length compiles to one instruction, any other to a call.
                if let Some(chunks) = rest.as_chunks_mut().0.first_chunk_mut::<N>() {
                    for (row, lanes) in chunks.iter_mut().zip(lanes) {
                        *row = I::store_f32(I::divide(K::values(lanes), *count));
                    }
                } else {
                    let means = I::store_f32(I::divide(K::values(lanes[0]), *count));
                    rest.copy_from_slice(&means[..rest.len()]);
                }
            }
            Output::Sums(sums) => {
                for (lanes, sums) in lanes.iter().zip(sums[start..].chunks_mut(CHUNK)) {
                    K::close(*lanes, sums);
                }
            }
        }
    }

    /// A token's elements from column `start` on, past the end of its row if need be; `None` at the
    /// end of the table.
    #[inline(always)]
    fn elements<const N: usize>(&self, token: Token, start: usize) -> Option<&[[T; CHUNK]; N]> {
        let at = token.row as usize * self.dim + start;
        let (chunks, _) = self.table.get(at..at + N * CHUNK)?.as_chunks();
        chunks.first_chunk()
    }

    /// The last elements of the table, and anything behind them.
    #[cold]
    fn end_of_table(&self, token: Token, start: usize) -> [T; CHUNK] {
        let rest = &self.table[token.row as usize * self.dim + start..];
        let mut elements = [rest[0]; CHUNK];
        elements[..rest.len()].copy_from_slice(rest);
        elements
    }
}

/// A way to add up rows: stored type, weights or none, and the type of the sums.
trait Kind<I: Isa> {
    type Element: Copy;
    type Lanes: Copy;
    /// The type of the sums between blocks of ids.
    type Sum: scalar::Accumulate;
    /// The widest block of columns.
    const CHUNKS: usize;

    fn zero() -> Self::Lanes;
    fn add(sums: Self::Lanes, row: &[Self::Element; CHUNK], factor: f32) -> Self::Lanes;
    /// The sums of a single block.
    fn values(sums: Self::Lanes) -> I::F32s;
    /// What to continue from, given up to [`CHUNK`] running sums.
    fn open(sums: &[Self::Sum]) -> Self::Lanes;
    /// Brings the running sums up to date.
    fn close(lanes: Self::Lanes, sums: &mut [Self::Sum]);
}

/// `f32` sums of rows.
struct Plain<F>(PhantomData<F>);

/// `f32` sums of rows times weights.
struct Weighted<F>(PhantomData<F>);

/// What the two have in common: the running sums are `f32` and simply continued.
macro_rules! f32_sums {
    () => {
        type Element = F::Element;
        type Lanes = I::F32s;
        type Sum = f32;
        const CHUNKS: usize = I::F32_CHUNKS;

        #[inline(always)]
        fn zero() -> I::F32s {
            I::load_f32(&[0.0; CHUNK])
        }

        #[inline(always)]
        fn values(sums: I::F32s) -> I::F32s {
            sums
        }

        #[inline(always)]
        fn open(sums: &[f32]) -> I::F32s {
            let mut values = [0.0; CHUNK];
            values[..sums.len()].copy_from_slice(sums);
            I::load_f32(&values)
        }

        #[inline(always)]
        fn close(lanes: I::F32s, sums: &mut [f32]) {
            sums.copy_from_slice(&I::store_f32(lanes)[..sums.len()]);
        }
    };
}

impl<I: Isa, F: Format<I>> Kind<I> for Plain<F> {
    f32_sums!();

    #[inline(always)]
    fn add(sums: I::F32s, row: &[F::Element; CHUNK], _: f32) -> I::F32s {
        I::add(sums, F::widen(row))
    }
}

impl<I: Isa, F: Format<I>> Kind<I> for Weighted<F> {
    f32_sums!();

    #[inline(always)]
    fn add(sums: I::F32s, row: &[F::Element; CHUNK], factor: f32) -> I::F32s {
        I::add(sums, I::scale(F::widen(row), factor))
    }
}

/// Exact sums of integers: of one block in 16 bits, between blocks in `i64`.
macro_rules! exact {
    ($(#[$doc:meta])* $name:ident, $element:ty, $load:ident, $to_f32:ident, $read:expr) => {
        $(#[$doc])*
        struct $name;

        impl<I: Isa> Kind<I> for $name {
            type Element = $element;
            type Lanes = I::I16s;
            type Sum = i64;
            const CHUNKS: usize = I::I16_CHUNKS;

            #[inline(always)]
            fn zero() -> I::I16s {
                I::$load(&[0; CHUNK])
            }

            #[inline(always)]
            fn add(sums: I::I16s, row: &[$element; CHUNK], _: f32) -> I::I16s {
                I::add_i16(sums, I::$load(row))
            }

            #[inline(always)]
            fn values(sums: I::I16s) -> I::F32s {
                I::$to_f32(sums)
            }

            #[inline(always)]
            fn open(_: &[i64]) -> I::I16s {
                <Self as Kind<I>>::zero()
            }

            #[inline(always)]
            fn close(lanes: I::I16s, sums: &mut [i64]) {
                for (sum, bits) in sums.iter_mut().zip(I::store_i16(lanes)) {
                    *sum += i64::from($read(bits));
                }
            }
        }
    };
}

exact!(
    /// Sums of I8 rows.
    ExactI8, i8, load_i8, i16_to_f32, |bits: i16| bits
);
exact!(
    /// Sums of U8 rows.
    ExactU8, u8, load_u8, u16_to_f32, i16::cast_unsigned
);

/// A stored type that reads as `f32`.
trait Format<I: Isa> {
    type Element: Copy;

    fn widen(row: &[Self::Element; CHUNK]) -> I::F32s;
}

macro_rules! format {
    ($name:ident, $element:ty, $widen:ident) => {
        struct $name;

        impl<I: Isa> Format<I> for $name {
            type Element = $element;

            #[inline(always)]
            fn widen(row: &[$element; CHUNK]) -> I::F32s {
                I::$widen(row)
            }
        }
    };
}

format!(F32, f32, load_f32);
format!(F16, u16, widen_f16);
format!(Bf16, u16, widen_bf16);
format!(I8, i8, widen_i8);
format!(U8, u8, widen_u8);
