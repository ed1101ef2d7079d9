//! The definition of pooling, in plain loops.
//!
//! The loop is chosen by two types: how an element of the table reads as a number, and how a number
//! is accumulated. [`Accumulate`] has one implementation for each precision in the contract; [`add`]
//! is the one place that pairs stored types with them, and `add_tokens` is the one loop.
//!
//! The loop runs over the tokens and, inside, over the columns: a row is read from front to back, and
//! each column sees its additions in token order. Running sums live in [`Sums`] between the blocks of
//! a long bag, so that where a bag is divided makes no difference.

use half::{bf16, f16};

use super::block::Block;
use super::columns::Target;
use crate::weights::{Elements, TokenWeights, Weights};

/// Adds the tokens of a block to the running sums of their bag.
fn add(block: &Block<'_>, sums: &mut Sums) {
    let job = Job { block, sums };
    let file = block.file;
    match &block.weights.elements {
        Elements::F64(table) => job.double(table.get(file), |element| element),
        Elements::F32(table) => job.float(table.get(file), |element| element),
        Elements::F16(table) => {
            job.half_or_less(table.get(file), |bits| f16::from_bits(bits).to_f32());
        }
        Elements::Bf16(table) => job.float(table.get(file), |bits| bf16::from_bits(bits).to_f32()),
        Elements::I8(table) => job.integer(table.get(file)),
        Elements::U8(table) => job.integer(table.get(file)),
    }
}

/// Pools a block of ids; what every other kernel must be equal to.
pub(super) fn pool(block: &Block<'_>, target: Target<'_>) {
    match target {
        Target::Sums(sums) => add(block, sums),
        Target::Mean(row) => {
            let mut sums = Sums::new(block.weights, row.len());
            add(block, &mut sums);
            sums.mean(block.ids.len(), row);
        }
    }
}

/// Every element of a table as `f64`, which holds each of the types exactly.
#[cfg(feature = "candle")]
pub(super) fn rows_as_f64(elements: &Elements, file: &[u8]) -> Vec<f64> {
    match elements {
        Elements::F64(table) => table.get(file).to_vec(),
        Elements::F32(table) => table.get(file).iter().map(|&element| element.into()).collect(),
        Elements::F16(table) => {
            table.get(file).iter().map(|&bits| f16::from_bits(bits).into()).collect()
        }
        Elements::Bf16(table) => {
            table.get(file).iter().map(|&bits| bf16::from_bits(bits).into()).collect()
        }
        Elements::I8(table) => table.get(file).iter().map(|&element| element.into()).collect(),
        Elements::U8(table) => table.get(file).iter().map(|&element| element.into()).collect(),
    }
}

/// The running sums of a bag, one for each column, in the precision that the weights ask for.
#[derive(Debug)]
pub(super) enum Sums {
    Double(Vec<f64>),
    Single(Vec<f32>),
    Integer(Vec<i64>),
}

impl Sums {
    /// Zeros for a bag of these weights.
    pub(super) fn new(weights: &Weights, columns: usize) -> Self {
        match (&weights.elements, &weights.factors) {
            (Elements::F64(_), _) | (_, TokenWeights::Double(_)) => {
                Self::Double(vec![0.0; columns])
            }
            (Elements::I8(_) | Elements::U8(_), TokenWeights::None) => {
                Self::Integer(vec![0; columns])
            }
            _ => Self::Single(vec![0.0; columns]),
        }
    }

    /// Zeros again, for the next bag.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Double(sums) => sums.fill(0.0),
            Self::Single(sums) => sums.fill(0.0),
            Self::Integer(sums) => sums.fill(0),
        }
    }

    /// Writes the sums divided by a count that is not zero.
    pub(super) fn mean(&self, count: usize, row: &mut [f32]) {
        fn means<A: Accumulate>(sums: &[A], count: usize, row: &mut [f32]) {
            for (mean, sum) in row.iter_mut().zip(sums) {
                *mean = sum.mean(count);
            }
        }
        match self {
            Self::Double(sums) => means(sums, count, row),
            Self::Single(sums) => means(sums, count, row),
            Self::Integer(sums) => means(sums, count, row),
        }
    }
}

struct Job<'a> {
    block: &'a Block<'a>,
    sums: &'a mut Sums,
}

impl Job<'_> {
    /// Rows whose values are `f64`, or products that are.
    fn double<T: Copy>(self, table: &[T], read: impl Fn(T) -> f64) {
        match &self.block.weights.factors {
            TokenWeights::None => self.add_tokens::<f64, _>(table, |element, _| read(element)),
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => self
                .add_tokens::<f64, _>(table, |element, id| read(element) * f64::from(factors[id])),
            TokenWeights::Double(factors) => {
                self.add_tokens::<f64, _>(table, |element, id| read(element) * factors[id]);
            }
        }
    }

    /// Rows of more than 16 bits, or of a type that numpy does not have.
    fn float<T: Copy>(self, table: &[T], read: impl Fn(T) -> f32) {
        match &self.block.weights.factors {
            TokenWeights::None => self.add_tokens::<f32, _>(table, |element, _| read(element)),
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => {
                self.add_tokens::<f32, _>(table, |element, id| read(element) * factors[id]);
            }
            TokenWeights::Double(_) => self.double(table, |element| f64::from(read(element))),
        }
    }

    /// Rows of at most 16 bits, where F16 weights give F16 products.
    fn half_or_less<T: Copy>(self, table: &[T], read: impl Fn(T) -> f32) {
        match &self.block.weights.factors {
            TokenWeights::Half(factors) => self.add_tokens::<f32, _>(table, |element, id| {
                f16::from_f32(read(element) * factors[id]).to_f32()
            }),
            TokenWeights::None | TokenWeights::Single(_) | TokenWeights::Double(_) => {
                self.float(table, read);
            }
        }
    }

    /// Rows of small integers, whose plain sums are exact.
    fn integer<T: Copy>(self, table: &[T])
    where
        i64: From<T>,
        f32: From<T>,
    {
        match &self.block.weights.factors {
            TokenWeights::None => self.add_tokens::<i64, _>(table, |element, _| i64::from(element)),
            _ => self.half_or_less(table, f32::from),
        }
    }

    /// The loop: `value` reads an element of a token's row, its weight applied.
    fn add_tokens<A: Accumulate, T: Copy>(self, table: &[T], value: impl Fn(T, usize) -> A) {
        let Self { block, sums } = self;
        let sums = A::of(sums);
        for &id in block.ids {
            let start = block.weights.row_of(id) * block.weights.dim;
            let elements = &table[start..start + sums.len()];
            for (sum, &element) in sums.iter_mut().zip(elements) {
                *sum = sum.add(value(element, id as usize));
            }
        }
    }
}

/// A precision in which a column is added up.
pub(super) trait Accumulate: Copy {
    /// The sums in this precision.
    ///
    /// # Panics
    ///
    /// If the sums were made for weights of another precision.
    fn of(sums: &mut Sums) -> &mut [Self];

    fn add(self, value: Self) -> Self;

    /// The sum divided by a count that is not zero.
    fn mean(self, count: usize) -> f32;
}

impl Accumulate for f32 {
    fn of(sums: &mut Sums) -> &mut [Self] {
        let Sums::Single(sums) = sums else { panic!("the sums of these weights are f32") };
        sums
    }

    fn add(self, value: Self) -> Self {
        self + value
    }

    fn mean(self, count: usize) -> f32 {
        f64::from(self).mean(count)
    }
}

impl Accumulate for f64 {
    fn of(sums: &mut Sums) -> &mut [Self] {
        let Sums::Double(sums) = sums else { panic!("the sums of these weights are f64") };
        sums
    }

    fn add(self, value: Self) -> Self {
        self + value
    }

    /// numpy divides by the count as `f64`, also for `f32` sums.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is the result's precision"
    )]
    fn mean(self, count: usize) -> f32 {
        (self / count as f64) as f32
    }
}

impl Accumulate for i64 {
    fn of(sums: &mut Sums) -> &mut [Self] {
        let Sums::Integer(sums) = sums else { panic!("the sums of these weights are integers") };
        sums
    }

    fn add(self, value: Self) -> Self {
        // 2^55 tokens of 8 bits would have to come together before this overflows.
        self + value
    }

    fn mean(self, count: usize) -> f32 {
        (self as f64).mean(count)
    }
}
