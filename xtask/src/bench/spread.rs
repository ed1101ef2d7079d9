//! Values of several turns: the median, with the least and the greatest.

use std::fmt;

/// One value for each turn, in the order of the turns; at least one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn new(values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "there is at least one turn");
        Self(values)
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            f64::midpoint(sorted[half - 1], sorted[half])
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Turn by turn, this over that.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }

    /// Each value changed in the same way.
    pub(crate) fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().copied().map(change).collect())
    }
}

/// `2.51 (2.40 to 2.60)`, with as many digits as asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let (median, least, greatest) = (self.median(), self.least(), self.greatest());
        write!(f, "{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_median_least_and_greatest() {
        assert_eq!(Spread::new(vec![3.0, 1.0, 2.0]).to_string(), "2.00 (1.00 to 3.00)");
        assert_eq!(format!("{:.1}", Spread::new(vec![4.0, 1.0])), "2.5 (1.0 to 4.0)");
    }

    #[test]
    fn ratios_are_taken_within_a_turn() {
        let ours = Spread::new(vec![10.0, 20.0]);
        let theirs = Spread::new(vec![5.0, 10.0]);
        assert_eq!(ours.over(&theirs), Spread::new(vec![2.0, 2.0]));
        assert_eq!(ours.map(|value| value + 1.0), Spread::new(vec![11.0, 21.0]));
    }
}
