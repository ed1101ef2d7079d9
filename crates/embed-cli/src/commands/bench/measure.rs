//! The clock, and what follows from durations. The only place where time is read to be measured.

use std::fs;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Seconds of passes over the same work.
pub(super) struct Passes {
    /// The first pass, which finds everything cold.
    pub(super) first: f64,
    /// The passes after it, in ascending order; at least one.
    warm: Vec<f64>,
}

impl Passes {
    /// The shortest pass after the first.
    pub(super) fn best(&self) -> f64 {
        self.warm[0]
    }

    /// The middle of the passes after the first; of two middles, the mean.
    pub(super) fn median(&self) -> f64 {
        let (half, odd) = (self.warm.len() / 2, self.warm.len() % 2 == 1);
        if odd { self.warm[half] } else { f64::midpoint(self.warm[half - 1], self.warm[half]) }
    }
}

/// One pass, and `rounds` more.
pub(super) fn passes(rounds: NonZeroUsize, mut pass: impl FnMut() -> Result<()>) -> Result<Passes> {
    let mut timed = || {
        let (result, duration) = timed(&mut pass);
        result.map(|()| duration.as_secs_f64())
    };
    let first = timed()?;
    let mut warm = (0..rounds.get()).map(|_| timed()).collect::<Result<Vec<f64>>>()?;
    warm.sort_by(f64::total_cmp);
    Ok(Passes { first, warm })
}

/// What `work` returns, and the nanoseconds that it took with one reading of the clock.
pub(super) fn nanoseconds_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let (result, duration) = timed(work);
    (result, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "measuring is what this module is for")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed())
}

/// The value in `sorted` that `percent` in a hundred do not exceed.
pub(super) fn rank<T: Copy>(sorted: &[T], percent: usize) -> T {
    sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
}

/// Memory of this process that is in RAM, pages of mapped files included; `None` where the system
/// does not tell.
pub(super) fn resident_bytes() -> Option<u64> {
    // Not `statm`, which counts pages and leaves their size to the reader.
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pass_does_not_count() -> Result<()> {
        let mut calls = 0;
        let rounds = NonZeroUsize::new(3).expect("not zero");
        let passes = passes(rounds, || {
            calls += 1;
            Ok(())
        })?;
        assert_eq!((calls, passes.warm.len()), (4, 3));
        Ok(())
    }

    #[test]
    fn a_failed_pass_ends_the_measuring() {
        let failing = || anyhow::bail!("no");
        assert!(passes(NonZeroUsize::MIN, failing).is_err());
    }

    #[test]
    fn the_middle_is_the_median() {
        let median = |warm: &[f64]| Passes { first: 9.0, warm: warm.to_vec() }.median();
        assert_eq!(median(&[1.0]), 1.0);
        assert_eq!(median(&[1.0, 4.0]), 2.5);
        assert_eq!(median(&[1.0, 2.0, 10.0]), 2.0);
    }

    #[test]
    fn ranks_are_values_that_occurred() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!((rank(&hundred, 50), rank(&hundred, 99)), (50, 99));
        assert_eq!((rank(&[7], 50), rank(&[7], 99)), (7, 7));
        assert_eq!((rank(&[1, 2], 50), rank(&[1, 2], 99)), (1, 2));
    }
}
