//! The definition of pooling, in plain loops.
//!
//! A kernel is chosen by two types: how an element of the table reads as a number, and how a number
//! is accumulated. [`Accumulate`] has one implementation for each precision in the contract; `pool`
//! is the one place that pairs stored types with them, and `pool_bags` is the one loop.
//!
//! The loop runs over the tokens of a bag and, inside, over the columns: a row is read from front to
//! back, and each column still sees its additions in token order, so the compiler may use vectors
//! without changing a bit.

use half::{bf16, f16};

use super::Bags;
use crate::weights::{Elements, TokenWeights, Weights};

pub(super) fn pool(weights: &Weights, file: &[u8], bags: &Bags, columns: usize, out: &mut [f32]) {
    let job = Job { weights, bags, columns, out };
    match &weights.elements {
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

/// Everything but the table's elements.
struct Job<'a> {
    weights: &'a Weights,
    bags: &'a Bags,
    columns: usize,
    out: &'a mut [f32],
}

impl Job<'_> {
    /// Rows whose values are `f64`, or products that are.
    fn double<T: Copy>(self, table: &[T], read: impl Fn(T) -> f64) {
        match &self.weights.factors {
            TokenWeights::None => self.pool_bags::<f64, _>(table, |element, _| read(element)),
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => self
                .pool_bags::<f64, _>(table, |element, id| read(element) * f64::from(factors[id])),
            TokenWeights::Double(factors) => {
                self.pool_bags::<f64, _>(table, |element, id| read(element) * factors[id]);
            }
        }
    }

    /// Rows of more than 16 bits, or of a type that numpy does not have.
    fn float<T: Copy>(self, table: &[T], read: impl Fn(T) -> f32) {
        match &self.weights.factors {
            TokenWeights::None => self.pool_bags::<f32, _>(table, |element, _| read(element)),
            TokenWeights::Single(factors) | TokenWeights::Half(factors) => {
                self.pool_bags::<f32, _>(table, |element, id| read(element) * factors[id]);
            }
            TokenWeights::Double(_) => self.double(table, |element| f64::from(read(element))),
        }
    }

    /// Rows of at most 16 bits, where F16 weights give F16 products.
    fn half_or_less<T: Copy>(self, table: &[T], read: impl Fn(T) -> f32) {
        match &self.weights.factors {
            TokenWeights::Half(factors) => self.pool_bags::<f32, _>(table, |element, id| {
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
        match &self.weights.factors {
            TokenWeights::None => self.pool_bags::<i64, _>(table, |element, _| i64::from(element)),
            _ => self.half_or_less(table, f32::from),
        }
    }

    /// The loop: `value` reads an element of a token's row, its weight applied.
    fn pool_bags<A: Accumulate, T: Copy>(self, table: &[T], value: impl Fn(T, usize) -> A) {
        let Self { weights, bags, columns, out } = self;
        let mut sums = vec![A::ZERO; columns];
        for (bag, row) in bags.iter().zip(out.chunks_exact_mut(columns)) {
            sums.fill(A::ZERO);
            for &id in bag {
                let start = weights.row_of(id) * weights.dim;
                let elements = &table[start..start + columns];
                for (sum, &element) in sums.iter_mut().zip(elements) {
                    *sum = sum.add(value(element, id as usize));
                }
            }
            for (mean, sum) in row.iter_mut().zip(&sums) {
                *mean = if bag.is_empty() { 0.0 } else { sum.mean(bag.len()) };
            }
        }
    }
}

/// A precision in which a column is added up.
trait Accumulate: Copy {
    const ZERO: Self;

    fn add(self, value: Self) -> Self;

    /// The sum divided by a count that is not zero.
    fn mean(self, count: usize) -> f32;
}

impl Accumulate for f32 {
    const ZERO: Self = 0.0;

    fn add(self, value: Self) -> Self {
        self + value
    }

    fn mean(self, count: usize) -> f32 {
        f64::from(self).mean(count)
    }
}

impl Accumulate for f64 {
    const ZERO: Self = 0.0;

    fn add(self, value: Self) -> Self {
        self + value
    }

    /// numpy divides by the count as `f64`, also for `f32` sums. For counts below 2^24 an `f32`
    /// division would give the same bits.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is the result's precision"
    )]
    fn mean(self, count: usize) -> f32 {
        (self / count as f64) as f32
    }
}

impl Accumulate for i64 {
    const ZERO: Self = 0;

    fn add(self, value: Self) -> Self {
        // 2^56 tokens of 8 bits would have to come together before this overflows.
        self + value
    }

    fn mean(self, count: usize) -> f32 {
        (self as f64).mean(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Stored;

    fn weights(elements: Elements, factors: TokenWeights, mapping: Option<Vec<u32>>) -> Weights {
        Weights { elements, rows: 3, dim: 2, factors, mapping, table_name: "embeddings".into() }
    }

    #[track_caller]
    fn check(weights: &Weights, bags: &[&[u32]], columns: usize, expected: &[f32]) {
        let mut csr = Bags::new();
        for bag in bags {
            csr.open().extend(*bag);
            csr.close();
        }
        let mut out = vec![f32::NAN; bags.len() * columns];
        pool(weights, &[], &csr, columns, &mut out);
        assert_eq!(out, expected);
    }

    fn f32_table() -> Elements {
        Elements::F32(Stored::Copied(vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0]))
    }

    #[test]
    fn rows_are_means_and_empty_bags_are_zero() {
        let plain = weights(f32_table(), TokenWeights::None, None);
        check(&plain, &[&[0, 1], &[], &[2, 2, 2]], 2, &[2.0, 3.0, 0.0, 0.0, 5.0, 7.0]);
        check(&plain, &[&[0, 1], &[], &[2]], 1, &[2.0, 0.0, 5.0]);
        check(&plain, &[], 2, &[]);
    }

    #[test]
    fn weights_belong_to_ids_and_the_mapping_to_rows() {
        let factors = TokenWeights::Single(vec![1.0, 10.0, 100.0]);
        let mapped = weights(f32_table(), factors, Some(vec![2, 0, 0]));
        check(
            &mapped,
            &[&[0], &[1], &[2], &[0, 1]],
            2,
            &[5.0, 7.0, 10.0, 20.0, 100.0, 200.0, 7.5, 13.5],
        );
    }

    #[test]
    fn the_mean_divides_by_the_number_of_tokens_not_by_the_weights() {
        let factors = TokenWeights::Double(vec![0.5, 0.5, 0.5]);
        check(&weights(f32_table(), factors, None), &[&[0, 1]], 2, &[1.0, 1.5]);
    }

    #[test]
    fn products_with_half_weights_are_rounded_to_half_for_small_tables_only() {
        // 1/3 as F16 is 0.333251953125; 2049 * that needs more than F16's 11 bits.
        let third = f16::from_f32(1.0 / 3.0).to_f32();
        let factors = || TokenWeights::Half(vec![third; 3]);
        let i8_table = Elements::I8(Stored::Copied(vec![127, -128, 3, 0, 1, 1]));
        let rounded = |value: f32| f16::from_f32(value * third).to_f32();
        check(&weights(i8_table, factors(), None), &[&[0]], 2, &[rounded(127.0), rounded(-128.0)]);
        assert!(rounded(127.0).to_bits() != (127.0 * third).to_bits(), "the rounding is visible");
        check(&weights(f32_table(), factors(), None), &[&[2]], 2, &[5.0 * third, 7.0 * third]);
    }

    #[test]
    fn every_element_type_reads_as_its_value() {
        let expected = [2.0, 4.0];
        let half = |v: f32| f16::from_f32(v).to_bits();
        let brain = |v: f32| bf16::from_f32(v).to_bits();
        let values = [1.0, 2.0, 3.0, 6.0, 0.0, 0.0];
        let tables = [
            Elements::F64(Stored::Copied(values.map(f64::from).to_vec())),
            Elements::F32(Stored::Copied(values.to_vec())),
            Elements::F16(Stored::Copied(values.map(half).to_vec())),
            Elements::Bf16(Stored::Copied(values.map(brain).to_vec())),
            Elements::I8(Stored::Copied(vec![1, 2, 3, 6, 0, 0])),
            Elements::U8(Stored::Copied(vec![1, 2, 3, 6, 0, 0])),
        ];
        for table in tables {
            let doubled = |factors| (factors, expected.map(|v| v * 2.0));
            for (factors, expected) in [
                (TokenWeights::None, expected),
                doubled(TokenWeights::Single(vec![2.0; 3])),
                doubled(TokenWeights::Half(vec![2.0; 3])),
                doubled(TokenWeights::Double(vec![2.0; 3])),
            ] {
                let copy = match &table {
                    Elements::F64(t) => Elements::F64(Stored::Copied(t.get(&[]).to_vec())),
                    Elements::F32(t) => Elements::F32(Stored::Copied(t.get(&[]).to_vec())),
                    Elements::F16(t) => Elements::F16(Stored::Copied(t.get(&[]).to_vec())),
                    Elements::Bf16(t) => Elements::Bf16(Stored::Copied(t.get(&[]).to_vec())),
                    Elements::I8(t) => Elements::I8(Stored::Copied(t.get(&[]).to_vec())),
                    Elements::U8(t) => Elements::U8(Stored::Copied(t.get(&[]).to_vec())),
                };
                check(&weights(copy, factors, None), &[&[0, 1]], 2, &expected);
            }
        }
    }

    #[test]
    fn unsigned_bytes_are_not_signed() {
        let table = Elements::U8(Stored::Copied(vec![255, 0, 0, 0, 0, 0]));
        check(&weights(table, TokenWeights::None, None), &[&[0]], 2, &[255.0, 0.0]);
    }

    #[test]
    fn integer_sums_stay_exact_beyond_the_precision_of_f32() {
        let table = Elements::I8(Stored::Copied(vec![127, 1, -128, 0, 0, 0]));
        let bag: Vec<u32> = std::iter::repeat_n(0, 1_000_001).collect();
        check(&weights(table, TokenWeights::None, None), &[&bag], 2, &[127.0, 1.0]);
    }
}
