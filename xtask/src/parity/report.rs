//! The table that parity prints, and the rules for PASS.

use std::fmt::Write as _;

use embed_core::Embedder as _;
use embed_model2vec::{Description, StaticModel};
use half::f16;

/// Largest difference of a normalized value from the reference.
pub(super) const NORMALIZED_TOLERANCE: f64 = 3e-6;

/// The distance of neighboring F16 values from 0.5 to 1.
const HALF_ULP_BELOW_ONE: f64 = 1.0 / 2048.0;

/// How close two rows have to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// Only ids are compared.
    IdsOnly,
    /// Every bit.
    Bits,
    /// The reference is in F16: ours, rounded to F16, may differ by so many units in the last place.
    HalfUlps(u32),
    /// Every value within 3e-6.
    Normalized,
    /// The same, and for long texts what rounding of a sum in another order makes of it.
    NormalizedSumOrder,
    /// Every value of a normalized row within one F16 unit in the last place of values up to 1: Python
    /// rounds to F16 before it normalizes and once more after.
    NormalizedHalf,
    /// Every value within `2 * tokens * epsilon * mean|x|`: rounding of a sum in another order.
    SumOrder,
}

/// One comparison of two sets of rows.
#[derive(Clone, Debug)]
pub(super) struct Line {
    name: String,
    rule: Rule,
    texts: usize,
    id_mismatches: Option<usize>,
    max_delta: f64,
    bit_equal: usize,
    failures: usize,
    first_failure: Option<String>,
}

impl Line {
    pub(super) fn new(name: impl Into<String>, rule: Rule) -> Self {
        Self {
            name: name.into(),
            rule,
            texts: 0,
            id_mismatches: None,
            max_delta: 0.0,
            bit_equal: 0,
            failures: 0,
            first_failure: None,
        }
    }

    /// Compares the ids of one text.
    pub(super) fn ids(&mut self, text: &str, ours: &[u32], reference: &[u32]) {
        if self.rule == Rule::IdsOnly {
            self.texts += 1;
        }
        let mismatches = self.id_mismatches.get_or_insert(0);
        if ours != reference {
            *mismatches += 1;
            self.fail(text, &format!("ids {ours:?}, reference {reference:?}"));
        }
    }

    /// Compares one row. `bound` is the allowed difference of each value under [`Rule::SumOrder`]
    /// and [`Rule::NormalizedSumOrder`].
    pub(super) fn row(&mut self, text: &str, ours: &[f32], reference: &[f32], bound: f64) {
        self.texts += 1;
        if ours.len() != reference.len() {
            self.fail(text, &format!("{} values, reference {}", ours.len(), reference.len()));
            return;
        }
        let delta = ours
            .iter()
            .zip(reference)
            .map(|(a, b)| {
                if a.to_bits() == b.to_bits() { 0.0 } else { (f64::from(*a) - f64::from(*b)).abs() }
            })
            .fold(0.0, nan_max);
        self.max_delta = nan_max(self.max_delta, delta);
        let equal = match self.rule {
            Rule::HalfUlps(_) => ours.iter().zip(reference).all(|(a, b)| half_ulps(*a, *b) == 0),
            _ => ours.iter().zip(reference).all(|(a, b)| a.to_bits() == b.to_bits()),
        };
        self.bit_equal += usize::from(equal);
        let close = match self.rule {
            Rule::IdsOnly => false,
            Rule::Bits => equal,
            Rule::HalfUlps(limit) => {
                ours.iter().zip(reference).all(|(a, b)| half_ulps(*a, *b) <= limit)
            }
            Rule::Normalized => delta <= NORMALIZED_TOLERANCE,
            Rule::NormalizedHalf => delta <= HALF_ULP_BELOW_ONE,
            Rule::SumOrder | Rule::NormalizedSumOrder => delta <= bound,
        };
        if !close {
            self.fail(text, &format!("values differ by up to {delta:e}"));
        }
    }

    fn fail(&mut self, text: &str, what: &str) {
        const SHOWN_CHARS: usize = 200;
        self.failures += 1;
        let shorten = |s: &str| s.chars().take(SHOWN_CHARS).collect::<String>();
        self.first_failure.get_or_insert_with(|| format!("{:?}: {}", shorten(text), shorten(what)));
    }
}

/// `max` that does not hide a NaN.
fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Distance in F16 units in the last place, after rounding both to F16.
fn half_ulps(a: f32, b: f32) -> u32 {
    // Bits of a float, mapped so that neighboring values have neighboring numbers.
    let ordered = |value: f32| {
        let bits = i32::from(f16::from_f32(value).to_bits());
        if bits & 0x8000 == 0 { bits } else { 0x8000 - bits }
    };
    ordered(a).abs_diff(ordered(b))
}

/// All comparisons of one model.
pub(super) struct Report {
    heading: String,
    lines: Vec<Line>,
}

impl Report {
    pub(super) fn new(model: &StaticModel) -> Self {
        let Description { origin, rows, dim, table_type, weights_type, mapped, vocabulary, .. } =
            model.description();
        let weights = weights_type.map_or_else(String::new, |kind| format!(", weights {kind}"));
        let mapping = if mapped { ", mapping" } else { "" };
        let id = &model.model_id()[..16];
        let device = model.device_name().map_or_else(String::new, |name| format!(", on {name}"));
        let heading = format!(
            "{origin} ({id}): {table_type} [{rows}, {dim}]{weights}{mapping}, {vocabulary} ids{device}"
        );
        Self { heading, lines: Vec::new() }
    }

    pub(super) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Prints the table and says whether everything passed.
    pub(super) fn print(&self) -> bool {
        let mut text = format!("{}\n\n", self.heading);
        let head =
            ["comparison", "texts", "id mismatches", "max |delta|", "bit-equal rows", "must be"];
        let rows: Vec<[String; 6]> = self.lines.iter().map(cells).collect();
        let width = |column: usize| {
            rows.iter().map(|row| row[column].len()).chain([head[column].len()]).max().unwrap_or(0)
        };
        let mut push_row = |row: [&str; 6], verdict: &str| {
            let _ = write!(text, "  {:<1$}", row[0], width(0));
            for (column, cell) in row.iter().enumerate().skip(1) {
                let _ = write!(text, "  {cell:>0$}", width(column));
            }
            let _ = writeln!(text, "  {verdict}");
        };
        push_row(head, "");
        for (line, row) in self.lines.iter().zip(&rows) {
            let verdict = if line.failures == 0 && line.texts > 0 { "PASS" } else { "FAIL" };
            push_row(row.each_ref().map(String::as_str), verdict);
        }
        for line in &self.lines {
            if let Some(failure) = &line.first_failure {
                let _ = writeln!(
                    text,
                    "\n  {}: {} failures, first: {failure}",
                    line.name, line.failures
                );
            } else if line.texts == 0 {
                let _ = writeln!(text, "\n  {}: nothing was compared", line.name);
            }
        }
        let passed = self.lines.iter().all(|line| line.failures == 0 && line.texts > 0);
        let _ = writeln!(text, "\n{}", if passed { "PASS" } else { "FAIL" });
        print!("{text}");
        passed
    }
}

fn cells(line: &Line) -> [String; 6] {
    let rule = match line.rule {
        Rule::IdsOnly => "equal ids".to_owned(),
        Rule::Bits => "equal bits".to_owned(),
        Rule::HalfUlps(0) => "equal F16 bits".to_owned(),
        Rule::HalfUlps(limit) => format!("within {limit} F16 ulp"),
        Rule::Normalized => format!("within {NORMALIZED_TOLERANCE:e}"),
        Rule::NormalizedSumOrder => format!("within {NORMALIZED_TOLERANCE:e}, long texts n eps"),
        Rule::NormalizedHalf => format!("within {HALF_ULP_BELOW_ONE:.2e}"),
        Rule::SumOrder => "within 2 n eps mean|x|".to_owned(),
    };
    let mismatches = line.id_mismatches.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let (delta, equal) = match line.rule {
        Rule::IdsOnly => ("-".to_owned(), "-".to_owned()),
        _ => (format!("{:.2e}", line.max_delta), format!("{}/{}", line.bit_equal, line.texts)),
    };
    [line.name.clone(), line.texts.to_string(), mismatches, delta, equal, rule]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_ulps_cross_zero_one_step_at_a_time() {
        let tiny = f16::from_bits(1).to_f32();
        assert_eq!(half_ulps(tiny, -tiny), 2);
        assert_eq!(half_ulps(0.0, -0.0), 0);
        assert_eq!(half_ulps(1.0, 1.0 + 1.0 / 1024.0), 1);
    }

    #[test]
    fn a_line_with_a_differing_row_fails() {
        let mut line = Line::new("x", Rule::Bits);
        line.row("t", &[1.0, 2.0], &[1.0, 2.0], 0.0);
        assert_eq!((line.failures, line.bit_equal), (0, 1));
        line.row("t", &[1.0, f32::NAN], &[1.0, 2.0], 0.0);
        assert_eq!((line.failures, line.bit_equal), (1, 1));
        line.ids("t", &[1], &[2]);
        assert_eq!((line.failures, line.id_mismatches), (2, Some(1)));
    }

    #[test]
    fn a_nan_is_never_within_a_tolerance() {
        for rule in [Rule::Normalized, Rule::SumOrder, Rule::NormalizedSumOrder, Rule::HalfUlps(1)]
        {
            let mut line = Line::new("x", rule);
            line.row("t", &[f32::NAN], &[0.5], 1.0);
            assert_eq!(line.failures, 1, "{rule:?}");
        }
    }
}
