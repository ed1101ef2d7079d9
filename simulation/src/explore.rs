//! Random exploration, reproducible by its seed.

use std::cell::RefCell;

use embed_batcher::Fault;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::checks::check;
use crate::invariant::Invariant;
use crate::metamorphic::compare;
use crate::op::case;
use crate::trace::Counts;
use crate::world::World;

/// What an exploration saw.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases that were played.
    pub cases: u32,
    /// How often each kind of event and fault of the backend occurred.
    pub counts: Counts,
    /// The smallest case found in which the invariant does not hold, and how that shows.
    pub failure: Option<String>,
}

/// Plays up to `cases` random cases against a batcher, with `fault` if one is given, and stops at the
/// first in which `invariant` does not hold.
pub fn explore(invariant: Invariant, fault: Option<Fault>, cases: u32, seed: u64) -> Report {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        // A fault only has to be seen; a real failure should be readable.
        max_shrink_iters: if fault.is_some() { 0 } else { 4000 },
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let report = RefCell::new(Report::default());
    let outcome = TestRunner::new_with_rng(config, rng).run(&case(invariant), |(setup, ops)| {
        let trace = World::play(&setup, &ops, fault);
        let mut seen = report.borrow_mut();
        seen.cases += 1;
        for (what, count) in &trace.counts {
            *seen.counts.entry(what).or_default() += count;
        }
        drop(seen);
        // What is in the cache does not wait: the model of a single run does not cover it.
        let mut violations = if setup.config.cache_rows == 0 { check(&trace) } else { Vec::new() };
        violations.extend(compare(invariant, &setup, &ops, fault));
        match violations.into_iter().find(|(found, _)| *found == invariant) {
            Some((_, message)) => Err(TestCaseError::fail(message)),
            None => Ok(()),
        }
    });
    let mut report = report.into_inner();
    report.failure = outcome.err().map(|error| match error {
        TestError::Fail(reason, (setup, ops)) => format!("{reason}\n{setup:?}\n{ops:?}"),
        TestError::Abort(reason) => reason.to_string(),
    });
    report
}
