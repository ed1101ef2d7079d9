//! Percentiles, and a line through points.

/// Values in ascending order, so that any percentile can be told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The least value that at least `share` of all values do not exceed (nearest rank); without values
    /// it is no number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is a small number that is not negative"
    )]
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil().max(1.0) as usize;
        self.0.get(rank - 1).or(self.0.last()).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(0.5)
    }
}

/// The straight line through points that leaves the least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// Of y, for each unit of x.
    pub(crate) slope: f64,
    /// One standard error of the slope.
    pub(crate) error: f64,
}

impl Line {
    /// The line through at least three points that do not all have the same x.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let number = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let squares: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        if squares == 0.0 {
            return None;
        }
        let products: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let slope = products / squares;
        let rest: f64 =
            points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
        let error = (rest / (number - 2.0) / squares).sqrt();
        Some(Self { slope, error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[f64], share: f64, expected: f64) {
        assert_eq!(Sorted::new(values.to_vec()).percentile(share), expected);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        check(&[3.0, 1.0, 2.0], 0.5, 2.0);
        check(&[4.0, 3.0, 1.0, 2.0], 0.5, 2.0);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        check(&hundred, 0.99, 99.0);
        check(&hundred, 0.999, 100.0);
        check(&hundred, 1.0, 100.0);
        check(&hundred, 0.0, 1.0);
        check(&[5.0], 0.99, 5.0);
        assert!(Sorted::default().percentile(0.5).is_nan());
    }

    #[test]
    fn points_on_a_line_have_no_error() {
        let line = Line::through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert_eq!(line, Some(Line { slope: 2.0, error: 0.0 }));
    }

    #[test]
    fn points_beside_a_line_have_the_textbook_error() {
        // Residuals -1/6, 1/3, -1/6: their squares sum to 1/6, over (3 - 2) and 2.
        let line = Line::through(&[(0.0, 0.0), (1.0, 1.0), (2.0, 1.0)]).unwrap();
        assert!((line.slope - 0.5).abs() < 1e-12, "{line:?}");
        assert!((line.error - (1.0_f64 / 12.0).sqrt()).abs() < 1e-12, "{line:?}");
    }

    #[test]
    fn too_few_points_make_no_line() {
        assert_eq!(Line::through(&[(0.0, 1.0), (1.0, 3.0)]), None);
        assert_eq!(Line::through(&[(1.0, 1.0), (1.0, 3.0), (1.0, 2.0)]), None);
    }
}
