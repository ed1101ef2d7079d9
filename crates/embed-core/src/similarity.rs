//! How alike two rows are.

/// The cosine of the angle between two rows of equal width, from -1 to 1; 0 if one of them is all zeros, or
/// has no values.
///
/// It is summed in `f64`, from the first value to the last, so that it is the same on every machine. Rows
/// need not have length 1. What rounding puts beyond -1 or 1 is cut off.
///
/// # Panics
///
/// If the rows differ in width: such rows come from different models, or were cut differently.
///
/// ```
/// assert_eq!(embed_core::cosine(&[3.0, 0.0], &[0.5, 0.0]), 1.0);
/// ```
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "a cosine of rows of different widths");
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms > 0.0 { (dot(a, b) / norms).clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_does_not_depend_on_lengths() {
        assert_eq!(cosine(&[3.0, 0.0], &[7.0, 0.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        assert_eq!(cosine(&[1.0, 0.0], &[-2.0, 0.0]), -1.0);
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 1.0]), 0.0);
        assert_eq!(cosine(&[], &[]), 0.0);
        // Squares of the smallest and largest rows are far from the ends of `f64`.
        assert_eq!(cosine(&[f32::MIN_POSITIVE], &[f32::MAX]), 1.0);
    }

    #[test]
    fn rounding_makes_no_cosine_larger_than_one() {
        for values in [[2.0, 21.0], [4.0, 41.0], [7.0, 54.0]] {
            let row = values.map(|value| value * 1.1);
            assert_eq!(cosine(&values, &row), 1.0);
            assert_eq!(cosine(&values, &row.map(|value| -value)), -1.0);
        }
    }

    #[test]
    fn rows_of_different_widths_have_none() {
        assert!(std::panic::catch_unwind(|| cosine(&[1.0], &[1.0, 2.0])).is_err());
    }
}
