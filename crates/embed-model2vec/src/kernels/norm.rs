//! Scaling a row to length 1, bit for bit as numpy does it.
//!
//! `numpy.linalg.norm` squares the row in `f32` and adds the squares with numpy's pairwise summation.
//! A different order of the same additions changes the last bit of some rows, so the order is
//! reproduced: up to 8 values one after the other; up to [`BLOCK`] values in [`LANES`] interleaved
//! running sums that are then added in pairs, the values left over last; longer rows as the sum of two
//! halves, the first one rounded down to a multiple of [`LANES`].

#![expect(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the instructions of its caller"
)]

use embed_core::NormGuard;

const LANES: usize = 8;
const BLOCK: usize = 128;

/// Scales a row to length 1; compiled once for each instruction set, as the kernels are.
macro_rules! normalize {
    ($(#[$attribute:meta])* $name:ident) => {
        /// Scales `row` to Euclidean length 1. A zero row stays zero and a NaN stays NaN.
        $(#[$attribute])*
        pub(super) fn $name(row: &mut [f32], guard: NormGuard) {
            $(#[$attribute])*
            fn sum_of_squares(values: &[f32]) -> f32 {
                if values.len() > BLOCK {
                    let half = values.len() / 2;
                    let (left, right) = values.split_at(half - half % LANES);
                    sum_of_squares(left) + sum_of_squares(right)
                } else {
                    sum_of_block(values)
                }
            }
            divide(row, divisor(sum_of_squares(row).sqrt(), guard));
        }
    };
}

normalize!(base);
#[cfg(target_arch = "x86_64")]
normalize!(
    #[target_feature(enable = "avx2")]
    avx2
);
#[cfg(target_arch = "x86_64")]
normalize!(
    #[target_feature(enable = "avx512f,avx512vl")]
    avx512
);

fn divisor(norm: f32, guard: NormGuard) -> f32 {
    match guard {
        NormGuard::AddTiny => norm + 1e-32,
        // `max` would hide a NaN.
        NormGuard::ClampTiny if norm < 1e-12 => 1e-12,
        NormGuard::ClampTiny => norm,
    }
}

#[inline(always)]
fn divide(row: &mut [f32], divisor: f32) {
    for value in row {
        *value /= divisor;
    }
}

/// The sum of the squares of at most [`BLOCK`] values.
#[inline(always)]
fn sum_of_block(values: &[f32]) -> f32 {
    let (groups, rest) = values.as_chunks::<LANES>();
    let Some((first, groups)) = groups.split_first() else {
        return rest.iter().fold(0.0, |sum, value| sum + value * value);
    };
    let mut sums = *first;
    for value in &mut sums {
        *value *= *value;
    }
    for group in groups {
        for (sum, value) in sums.iter_mut().zip(group) {
            *sum += value * value;
        }
    }
    let total =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    rest.iter().fold(total, |sum, value| sum + value * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Level;

    /// Normalizes by every implementation of this machine, which must agree.
    fn normalize(row: &mut [f32], guard: NormGuard) {
        let before = row.to_vec();
        base(row, guard);
        for level in Level::available() {
            let mut other = before.clone();
            level.normalize(&mut other, guard);
            let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&other), bits(row), "{level:?}");
        }
    }

    #[test]
    fn a_row_gets_length_one() {
        let mut row = [3.0, 4.0];
        normalize(&mut row, NormGuard::AddTiny);
        assert_eq!(row, [0.6, 0.8]);
    }

    #[test]
    fn zero_rows_stay_zero_and_nan_rows_stay_nan() {
        for guard in [NormGuard::AddTiny, NormGuard::ClampTiny] {
            let mut zeros = [0.0; 3];
            normalize(&mut zeros, guard);
            assert_eq!(zeros, [0.0; 3]);
            let mut nan = [f32::NAN, 1.0];
            normalize(&mut nan, guard);
            assert!(nan.iter().all(|value| value.is_nan()));
        }
    }

    #[test]
    fn the_guards_differ_on_tiny_rows_only() {
        let scaled = |value: f32, guard| {
            let mut row = [value];
            normalize(&mut row, guard);
            row[0]
        };
        assert_eq!(scaled(1e-15, NormGuard::AddTiny), 1.0);
        assert_eq!(scaled(1e-15, NormGuard::ClampTiny), 1e-15 / 1e-12);
        assert_eq!(scaled(0.25, NormGuard::ClampTiny), 1.0);
    }

    /// Sums made by numpy 2.4.6: `x = (np.arange(n) % 7 + 0.1 * np.arange(n)).astype('f4')`,
    /// `np.add.reduce(x * x)`, as bits.
    #[test]
    fn sums_equal_numpys_at_every_branch() {
        let cases: &[(u16, u32)] = &[
            (0, 0x0000_0000),
            (1, 0x0000_0000),
            (7, 0x42dc_3852),
            (8, 0x42dd_3334),
            (9, 0x42e3_ae15),
            (63, 0x4532_6f34),
            (64, 0x4534_ea3d),
            (100, 0x45ea_a401),
            (127, 0x464e_6d3d),
            (128, 0x4651_5c00),
            (129, 0x4654_c828),
            (136, 0x4671_e265),
            (255, 0x4797_7a7a),
            (256, 0x4799_109a),
            (257, 0x479a_c6ae),
            (384, 0x4867_9dd0),
            (513, 0x4902_61a3),
            (768, 0x49ce_ba56),
            (1000, 0x4a5e_3df3),
            (1024, 0x4a6e_1cf8),
        ];
        for &(n, bits) in cases {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "numpy's astype rounds in the same way"
            )]
            let values: Vec<f32> =
                (0..n).map(|i| (f64::from(i % 7) + 0.1 * f64::from(i)) as f32).collect();
            // A row of length s divided by s: the sum shows in every bit of the result.
            let mut row = values.clone();
            normalize(&mut row, NormGuard::ClampTiny);
            let divisor = divisor(f32::from_bits(bits).sqrt(), NormGuard::ClampTiny);
            let expected: Vec<f32> = values.iter().map(|value| value / divisor).collect();
            assert_eq!(row, expected, "{n} values");
        }
    }
}
