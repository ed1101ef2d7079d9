//! When requests are sent that do not wait for each other.
//!
//! An open-loop generator sends at times that were chosen before, and a latency counts from the chosen
//! time: a server that stands still for a while delays all that should have been sent meanwhile, and every
//! one of them is seen. A generator that waits for an answer before it sends the next request would see
//! one delay.

use std::time::Duration;

use crate::random::Random;

/// Times since the beginning, in ascending order: a Poisson process, as many independent clients make.
///
/// `rate` is requests a second.
pub(crate) fn poisson(rate: f64, length: Duration, seed: u64) -> Vec<Duration> {
    let mut random = Random::new(seed);
    let mut times = Vec::new();
    let mut at = 0.0;
    loop {
        // From 0 up to 1, without 1, so that the logarithm is finite.
        let uniform = f64::midpoint(f64::from(random.unit()), 1.0).min(1.0 - 1e-9);
        at += -(1.0 - uniform).ln() / rate;
        if at >= length.as_secs_f64() {
            return times;
        }
        times.push(Duration::from_secs_f64(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_rate_and_ascend() {
        let times = poisson(1000.0, Duration::from_secs(20), 3);
        // 20,000 are expected, with a standard deviation of 141.
        assert!((19_300..20_700).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
        assert!(times.last().is_some_and(|last| *last < Duration::from_secs(20)));
    }

    #[test]
    fn gaps_spread_like_those_of_independent_clients() {
        let times = poisson(1000.0, Duration::from_secs(20), 4);
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| pair[1].as_secs_f64() - pair[0].as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The deviation of an exponential distribution equals its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let length = Duration::from_secs(1);
        assert_eq!(poisson(50.0, length, 1), poisson(50.0, length, 1));
        assert_ne!(poisson(50.0, length, 1), poisson(50.0, length, 2));
    }
}
