//! One suite for every level of this machine, and every level against the definition.

use half::{bf16, f16};
use proptest::prelude::*;

use super::block::{Block, MAX_IDS};
use super::columns::Target;
use super::{Level, Pooler, scalar};
use crate::tokenizer::IdSink as _;
use crate::weights::{Elements, Stored, TokenWeights, Weights};

fn weights(elements: Elements, factors: TokenWeights, mapping: Option<Vec<u32>>) -> Weights {
    Weights { elements, rows: 3, dim: 2, factors, mapping, table_name: "embeddings".into() }
}

/// Pools the bags one after the other with a single pooler.
fn pool(weights: &Weights, level: Level, bags: &[&[u32]], columns: usize) -> Vec<f32> {
    let mut pooler = Pooler::new(weights, &[], level, columns);
    let mut rows = vec![f32::NAN; bags.len() * columns];
    for (bag, row) in bags.iter().zip(rows.chunks_exact_mut(columns)) {
        assert!(bag.iter().all(|&id| pooler.push(id).is_continue()));
        pooler.finish(row);
    }
    rows
}

#[track_caller]
fn check(weights: &Weights, bags: &[&[u32]], columns: usize, expected: &[f32]) {
    for level in Level::available() {
        assert_eq!(pool(weights, level, bags, columns), expected, "{level:?}");
    }
}

fn f32_table() -> Elements {
    Elements::F32(Stored::Converted(vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0]))
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
    let expected = [5.0, 7.0, 10.0, 20.0, 100.0, 200.0, 7.5, 13.5];
    check(&mapped, &[&[0], &[1], &[2], &[0, 1]], 2, &expected);
}

#[test]
fn the_mean_divides_by_the_number_of_tokens_not_by_the_weights() {
    let factors = TokenWeights::Double(vec![0.5, 0.5, 0.5]);
    check(&weights(f32_table(), factors, None), &[&[0, 1]], 2, &[1.0, 1.5]);
}

#[test]
fn products_with_half_weights_are_rounded_to_half_for_small_tables_only() {
    // 1/3 as F16 is 0.333251953125; 127 * that needs more than F16's 11 bits.
    let third = f16::from_f32(1.0 / 3.0).to_f32();
    let factors = || TokenWeights::Half(vec![third; 3]);
    let i8_table = Elements::I8(Stored::Converted(vec![127, -128, 3, 0, 1, 1]));
    let rounded = |value: f32| f16::from_f32(value * third).to_f32();
    check(&weights(i8_table, factors(), None), &[&[0]], 2, &[rounded(127.0), rounded(-128.0)]);
    assert!(rounded(127.0).to_bits() != (127.0 * third).to_bits(), "the rounding is visible");
    check(&weights(f32_table(), factors(), None), &[&[2]], 2, &[5.0 * third, 7.0 * third]);
}

#[test]
fn products_are_rounded_before_they_are_added() {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24, whose last term f32 drops; a fused sum with -1 keeps it.
    let value = 1.0 + 2f32.powi(-12);
    let table = Elements::F32(Stored::Converted(vec![-1.0, 0.0, value, 0.0, 0.0, 0.0]));
    let factors = TokenWeights::Single(vec![1.0, value, 0.0]);
    check(&weights(table, factors, None), &[&[0, 1]], 2, &[2f32.powi(-12), 0.0]);
}

#[test]
fn unsigned_bytes_are_not_signed() {
    let table = Elements::U8(Stored::Converted(vec![255, 0, 0, 0, 0, 0]));
    check(&weights(table, TokenWeights::None, None), &[&[0]], 2, &[255.0, 0.0]);
}

#[test]
fn sums_of_bytes_are_exact_where_a_block_of_ids_ends() {
    let extremes = [MAX_IDS - 1, MAX_IDS, MAX_IDS + 1, 5 * MAX_IDS];
    for count in extremes {
        let bag = vec![0; count];
        let signed = Elements::I8(Stored::Converted(vec![-128, 127, 0, 0, 0, 0]));
        check(&weights(signed, TokenWeights::None, None), &[&bag], 2, &[-128.0, 127.0]);
        let unsigned = Elements::U8(Stored::Converted(vec![255, 1, 0, 0, 0, 0]));
        check(&weights(unsigned, TokenWeights::None, None), &[&bag], 2, &[255.0, 1.0]);
    }
}

#[test]
fn integer_sums_stay_exact_beyond_the_precision_of_f32() {
    let tokens = if cfg!(miri) { 1_001 } else { 1_000_001 };
    let table = Elements::I8(Stored::Converted(vec![127, 1, -128, 0, 0, 0]));
    let bag: Vec<u32> = std::iter::repeat_n(0, tokens).collect();
    check(&weights(table, TokenWeights::None, None), &[&bag], 2, &[127.0, 1.0]);
}

/// The types that a table can have, by number.
const ELEMENTS: std::ops::Range<usize> = 0..6;

/// The types that weights can have, by number; the first is none at all.
const FACTORS: std::ops::Range<usize> = 0..4;

fn stored<T>(count: usize, value: impl FnMut() -> T) -> Stored<T> {
    Stored::Converted(std::iter::repeat_with(value).take(count).collect())
}

/// Weights with random tensors, a few of their values infinite, NaN or subnormal.
fn random_weights(elements: usize, factors: usize, mapped: bool, dim: usize, seed: u64) -> Weights {
    const ROWS: usize = 23;
    const VOCABULARY: usize = 31;
    let mut random = Random(seed);
    let count = ROWS * dim;
    let real = |random: &mut Random| match random.below(4_000) {
        0 => f32::from_bits(random.next()),
        1 => f32::from_bits(random.below(1 << 23)),
        _ => {
            (random.below(1 << 24) as f32 / 8e6 - 1.0) * [1e-3, 1.0, 1e3][random.below(3) as usize]
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    let elements = match elements {
        0 => Elements::F64(stored(count, || real(&mut random).into())),
        1 => Elements::F32(stored(count, || real(&mut random))),
        2 => Elements::F16(stored(count, || match random.below(100) {
            0 => random.next() as u16,
            _ => f16::from_f32(real(&mut random)).to_bits(),
        })),
        3 => Elements::Bf16(stored(count, || bf16::from_f32(real(&mut random)).to_bits())),
        4 => Elements::I8(stored(count, || random.next() as i8)),
        _ => Elements::U8(stored(count, || random.next() as u8)),
    };
    let single = |random: &mut Random| (0..VOCABULARY).map(|_| real(random)).collect::<Vec<f32>>();
    let factors = match factors {
        0 => TokenWeights::None,
        1 => TokenWeights::Single(single(&mut random)),
        2 => TokenWeights::Half(
            single(&mut random).iter().map(|&value| f16::from_f32(value).to_f32()).collect(),
        ),
        _ => {
            TokenWeights::Double(single(&mut random).iter().map(|&v| f64::from(v) / 3.0).collect())
        }
    };
    // Without a mapping the last ids have no row; `ids` leaves them out.
    let mapping = mapped.then(|| (0..VOCABULARY).map(|_| random.below(23)).collect());
    Weights { elements, rows: ROWS, dim, factors, mapping, table_name: "embeddings".into() }
}

/// A random bag, often in the neighborhood of one or two blocks.
fn ids(random: &mut Random, weights: &Weights) -> Vec<u32> {
    let lengths = [0, 1, 2, 7, 46, 255, 256, 257, 511, 512, 513, 3_000];
    let last = if cfg!(miri) { 5 } else { lengths.len() };
    let length = lengths[random.below(u32::try_from(last).expect("few")) as usize];
    let limit = if weights.mapping.is_some() { 31 } else { 23 };
    let repeated = random.below(5) == 0;
    let first = random.below(limit);
    (0..length).map(|_| if repeated { first } else { random.below(limit) }).collect()
}

/// Bits that compare: the payload of a NaN is the processor's choice.
fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|&value| if value.is_nan() { f32::NAN } else { value }.to_bits()).collect()
}

fn check_levels(weights: &Weights, bags: &[&[u32]], columns: usize) {
    let mut expected = vec![0.0; bags.len() * columns];
    for (ids, row) in bags.iter().zip(expected.chunks_exact_mut(columns)) {
        if !ids.is_empty() {
            // The definition takes a bag in one piece, however long.
            scalar::pool(&Block { weights, file: &[], ids, tokens: &[] }, Target::Mean(row));
        }
    }
    for level in Level::available() {
        let found = pool(weights, level, bags, columns);
        assert_eq!(bits(&found), bits(&expected), "{level:?}");
    }
}

/// Every pair of types at every width that takes another way through the blocks of columns.
#[test]
fn all_types_agree_at_all_widths() {
    let dims: &[usize] =
        if cfg!(miri) { &[1, 63, 100] } else { &[1, 2, 63, 64, 100, 129, 256, 384, 1024] };
    let mut random = Random(3);
    for elements in ELEMENTS {
        for factors in FACTORS {
            for &dim in dims {
                let weights = random_weights(elements, factors, factors % 2 == 0, dim, 9);
                let bags: Vec<Vec<u32>> = (0..6).map(|_| ids(&mut random, &weights)).collect();
                let mut bags: Vec<&[u32]> = bags.iter().map(Vec::as_slice).collect();
                // The last row of the table, behind which there is nothing to read.
                let last = if weights.mapping.is_some() { 30 } else { 22 };
                let ends = [last; 3];
                bags.push(&ends);
                for columns in [dim, dim.div_ceil(2)] {
                    check_levels(&weights, &bags, columns);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_level_equals_the_definition(
        elements in ELEMENTS,
        factors in FACTORS,
        mapped: bool,
        dim in 1usize..=300,
        fewer in 0usize..300,
        seed: u64,
    ) {
        let weights = random_weights(elements, factors, mapped, dim, seed);
        let mut random = Random(!seed);
        let bags: Vec<Vec<u32>> = (0..4).map(|_| ids(&mut random, &weights)).collect();
        let bags: Vec<&[u32]> = bags.iter().map(Vec::as_slice).collect();
        check_levels(&weights, &bags, dim - fewer % dim);
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.next() % limit
    }
}
