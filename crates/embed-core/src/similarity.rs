//! How alike two rows are.

/// The cosine of the angle between two rows of equal width, from -1 to 1; 0 if one of them is all zeros, or
/// has no values.
///
/// It is summed in `f64`, from the first value to the last, so that it is the same on every machine. Rows need
/// not have length 1.
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
    if norms > 0.0 { dot(a, b) / norms } else { 0.0 }
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
    #[should_panic(expected = "different widths")]
    fn rows_of_different_widths_have_none() {
        cosine(&[1.0], &[1.0, 2.0]);
    }
}
