//! The vector kernel.

use std::marker::PhantomData;

use super::block::{Block, MAX_IDS, Token};
use super::scalar::{self, Sums};
use crate::weights::{Elements, TokenWeights};

/// Columns that are handled together: every loop below runs over this many neighbors.
pub(super) const CHUNK: usize = 16;

/// What an instruction set adds to the portable loops.
pub(super) trait Isa {
    /// Bytes of running sums that fit into registers beside what else the loop needs.
    const SUMS: usize;

    fn widen_f16(bits: &[u16; CHUNK]) -> [f32; CHUNK];

    fn prefetch<T>(element: &T);
}

/// Where the results of a block go.
pub(super) enum Target<'a> {
    /// The block is the whole bag: its means.
    Mean(&'a mut [f32]),
    /// The block is a part of a bag: onto the running sums.
    Sums(&'a mut Sums),
}

/// Pools a block.
#[inline(always)]
pub(super) fn pool<I: Isa>(block: &Block<'_>, target: Target<'_>) {
    let file = block.file;
    let job = Job { block, target };
    match (&block.weights.elements, &block.weights.factors) {
        (Elements::F32(t), TokenWeights::None) => job.run::<I, Unweighted<F32>>(t.get(file)),
        (Elements::F16(t), TokenWeights::None) => job.run::<I, Unweighted<F16>>(t.get(file)),
        (Elements::Bf16(t), TokenWeights::None) => job.run::<I, Unweighted<Bf16>>(t.get(file)),
        (Elements::I8(t), TokenWeights::None) => job.run::<I, Exact<i8>>(t.get(file)),
        (Elements::U8(t), TokenWeights::None) => job.run::<I, Exact<u8>>(t.get(file)),
        (Elements::F32(t), TokenWeights::Single(_)) => job.run::<I, Weighted<F32>>(t.get(file)),
        (Elements::F16(t), TokenWeights::Single(_)) => job.run::<I, Weighted<F16>>(t.get(file)),
        (Elements::Bf16(t), TokenWeights::Single(_)) => job.run::<I, Weighted<Bf16>>(t.get(file)),
        (Elements::I8(t), TokenWeights::Single(_)) => job.run::<I, Weighted<I8>>(t.get(file)),
        (Elements::U8(t), TokenWeights::Single(_)) => job.run::<I, Weighted<U8>>(t.get(file)),
        (Elements::F64(_), _) | (_, TokenWeights::Half(_) | TokenWeights::Double(_)) => job.rare(),
    }
}

struct Job<'a> {
    block: &'a Block<'a>,
    target: Target<'a>,
}

impl Job<'_> {
    #[inline(never)]
    fn rare(self) {
        match self.target {
            Target::Mean(row) => scalar::mean(self.block, row),
            Target::Sums(sums) => scalar::add(self.block, sums),
        }
    }

    #[inline(always)]
    fn run<I: Isa, K: Kind>(self, table: &[K::Element]) {
        let mut tokens = [Token::default(); MAX_IDS];
        let tokens = self.block.resolve(&mut tokens);
        let rows = Rows { table, dim: self.block.weights.dim, tokens };
        match self.target {
            Target::Mean(row) => rows.pool::<I, K, _>(&mut Means { row, count: tokens.len() }),
            Target::Sums(sums) => rows.pool::<I, K, _>(&mut Running { sums: K::Sum::of(sums) }),
        }
    }
}

struct Rows<'a, T> {
    table: &'a [T],
    dim: usize,
    tokens: &'a [Token],
}

impl<T: Copy> Rows<'_, T> {
    #[inline(always)]
    fn pool<I: Isa, K: Kind<Element = T>, O: Output<K>>(&self, output: &mut O) {
        let columns = output.columns();
        let mut start = 0;
        // The condition on SUMS is constant.
        let wide = I::SUMS / size_of::<K::Lane>() / CHUNK;
        if wide >= 16 {
            while columns - start >= 16 * CHUNK {
                self.column_block::<I, K, O, 16>(start, output);
                start += 16 * CHUNK;
            }
        }
        if wide >= 8 {
            while columns - start >= 8 * CHUNK {
                self.column_block::<I, K, O, 8>(start, output);
                start += 8 * CHUNK;
            }
        }
        while columns - start >= 4 * CHUNK {
            self.column_block::<I, K, O, 4>(start, output);
            start += 4 * CHUNK;
        }
        while columns > start {
            self.column_block::<I, K, O, 1>(start, output);
            start += CHUNK;
        }
    }

    #[inline(always)]
    fn column_block<I: Isa, K: Kind<Element = T>, O: Output<K>, const N: usize>(
        &self,
        start: usize,
        output: &mut O,
    ) {
        let mut sums = [[K::ZERO; CHUNK]; N];
        output.open(start, sums.as_flattened_mut());
        for (index, token) in self.tokens.iter().enumerate() {
            if start == 0
                && AHEAD > 0
                && let Some(next) = self.tokens.get(index + AHEAD)
            {
                let at = next.row as usize * self.dim;
                let row = &self.table[at..at + output.columns()];
                for element in row.iter().step_by(64 / size_of::<T>()) {
                    I::prefetch(element);
                }
            }
            let at = token.row as usize * self.dim + start;
            if let Some(elements) = self.table.get(at..at + N * CHUNK) {
                let (chunks, _) = elements.as_chunks::<CHUNK>();
                for (sum, chunk) in sums.iter_mut().zip(chunks) {
                    K::add::<I>(sum, chunk, token.factor);
                }
            } else {
                self.last_row::<I, K>(at, token.factor, &mut sums[0]);
            }
        }
        output.close(start, sums.as_flattened());
    }

    #[cold]
    #[inline(never)]
    fn last_row<I: Isa, K: Kind<Element = T>>(
        &self,
        at: usize,
        factor: f32,
        sums: &mut [K::Lane; CHUNK],
    ) {
        let rest = &self.table[at..];
        let mut padded = [rest[0]; CHUNK];
        padded[..rest.len()].copy_from_slice(rest);
        K::add::<I>(sums, &padded, factor);
    }
}

pub(super) const AHEAD: usize = 8;

trait Output<K: Kind> {
    fn columns(&self) -> usize;
    fn open(&self, start: usize, lanes: &mut [K::Lane]);
    fn close(&mut self, start: usize, lanes: &[K::Lane]);
}

struct Means<'a> {
    row: &'a mut [f32],
    count: usize,
}

impl<K: Kind> Output<K> for Means<'_> {
    #[inline(always)]
    fn columns(&self) -> usize {
        self.row.len()
    }

    #[inline(always)]
    fn open(&self, _: usize, _: &mut [K::Lane]) {}

    #[inline(always)]
    fn close(&mut self, start: usize, lanes: &[K::Lane]) {
        let count = self.count as f32;
        for (mean, &lane) in self.row[start..].iter_mut().zip(lanes) {
            *mean = K::value(lane) / count;
        }
    }
}

struct Running<'a, S> {
    sums: &'a mut [S],
}

impl<K: Kind> Output<K> for Running<'_, K::Sum> {
    #[inline(always)]
    fn columns(&self) -> usize {
        self.sums.len()
    }

    #[inline(always)]
    fn open(&self, start: usize, lanes: &mut [K::Lane]) {
        for (lane, &sum) in lanes.iter_mut().zip(&self.sums[start..]) {
            *lane = K::open(sum);
        }
    }

    #[inline(always)]
    fn close(&mut self, start: usize, lanes: &[K::Lane]) {
        for (&lane, sum) in lanes.iter().zip(&mut self.sums[start..]) {
            *sum = K::close(*sum, lane);
        }
    }
}

trait Kind {
    type Element: Copy;
    type Lane: Copy;
    type Sum: scalar::Accumulate;
    const ZERO: Self::Lane;
    fn add<I: Isa>(sums: &mut [Self::Lane; CHUNK], row: &[Self::Element; CHUNK], factor: f32);
    fn value(lane: Self::Lane) -> f32;
    fn open(sum: Self::Sum) -> Self::Lane;
    fn close(sum: Self::Sum, lane: Self::Lane) -> Self::Sum;
}
use scalar::Accumulate as _;

struct Unweighted<F>(PhantomData<F>);
struct Weighted<F>(PhantomData<F>);
struct Exact<T>(PhantomData<T>);

macro_rules! single {
    () => {
        type Element = F::Element;
        type Lane = f32;
        type Sum = f32;
        const ZERO: f32 = 0.0;

        #[inline(always)]
        fn value(lane: f32) -> f32 {
            lane
        }

        #[inline(always)]
        fn open(sum: f32) -> f32 {
            sum
        }

        #[inline(always)]
        fn close(_: f32, lane: f32) -> f32 {
            lane
        }
    };
}

impl<F: Format> Kind for Unweighted<F> {
    single!();

    #[inline(always)]
    fn add<I: Isa>(sums: &mut [f32; CHUNK], row: &[F::Element; CHUNK], _: f32) {
        let values = F::widen::<I>(row);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
}

impl<F: Format> Kind for Weighted<F> {
    single!();

    #[inline(always)]
    fn add<I: Isa>(sums: &mut [f32; CHUNK], row: &[F::Element; CHUNK], factor: f32) {
        let values = F::widen::<I>(row);
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * factor;
        }
    }
}

macro_rules! exact {
    ($element:ty, $lane:ty) => {
        impl Kind for Exact<$element> {
            type Element = $element;
            type Lane = $lane;
            type Sum = i64;
            const ZERO: $lane = 0;

            #[inline(always)]
            fn add<I: Isa>(sums: &mut [$lane; CHUNK], row: &[$element; CHUNK], _: f32) {
                for (sum, &element) in sums.iter_mut().zip(row) {
                    *sum = sum.wrapping_add(<$lane>::from(element));
                }
            }

            #[inline(always)]
            fn value(lane: $lane) -> f32 {
                f32::from(lane)
            }

            #[inline(always)]
            fn open(_: i64) -> $lane {
                0
            }

            #[inline(always)]
            fn close(sum: i64, lane: $lane) -> i64 {
                sum + i64::from(lane)
            }
        }
    };
}
exact!(i8, i16);
exact!(u8, u16);

trait Format {
    type Element: Copy;
    fn widen<I: Isa>(row: &[Self::Element; CHUNK]) -> [f32; CHUNK];
}

struct F32;
struct F16;
struct Bf16;
struct I8;
struct U8;

impl Format for F32 {
    type Element = f32;

    #[inline(always)]
    fn widen<I: Isa>(row: &[f32; CHUNK]) -> [f32; CHUNK] {
        *row
    }
}

impl Format for F16 {
    type Element = u16;

    #[inline(always)]
    fn widen<I: Isa>(row: &[u16; CHUNK]) -> [f32; CHUNK] {
        I::widen_f16(row)
    }
}

impl Format for Bf16 {
    type Element = u16;

    #[inline(always)]
    fn widen<I: Isa>(row: &[u16; CHUNK]) -> [f32; CHUNK] {
        row.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
}

impl Format for I8 {
    type Element = i8;

    #[inline(always)]
    fn widen<I: Isa>(row: &[i8; CHUNK]) -> [f32; CHUNK] {
        row.map(f32::from)
    }
}

impl Format for U8 {
    type Element = u8;

    #[inline(always)]
    fn widen<I: Isa>(row: &[u8; CHUNK]) -> [f32; CHUNK] {
        row.map(f32::from)
    }
}

pub(super) struct Base;

impl Isa for Base {
    const SUMS: usize = 256;

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
        bits.map(f16_to_f32)
    }

    #[inline(always)]
    fn prefetch<T>(_: &T) {}
}

#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | sign)
}
