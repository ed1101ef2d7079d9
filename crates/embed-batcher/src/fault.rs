//! Deliberate faults: one small wrongness for each invariant, to prove that the tests can see it.
//!
//! Without the feature `faults` no fault can be chosen and [`Seeded::is`] is `false` at compile time. What
//! is left in the program are three small fields of planner and worker that nothing reads.

/// One deliberate fault, named after the invariant that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "faults"), expect(unreachable_pub, reason = "public with the feature"))]
#[allow(
    missing_docs,
    reason = "the variants are described as a whole, and each stands at its place in the code"
)]
pub enum Fault {
    I1LosesTheLastAnswer,
    I2RotatesRows,
    I3TakesOneRowTooMany,
    I4RunsWithoutTheGate,
    I5ForgetsToReleaseTheCancelled,
    I6DispatchesTheCancelled,
    I7SkipsTheChecks,
    I8FailsTheBatchAfterAFailure,
    I9SharesAcrossOptions,
    I10KeepsWhatWasRefused,
    I11WaitsWhenIdle,
    I12ForgetsWhatStillWaits,
    I13ArrivalsMoveTheWindow,
    I14IgnoresAFullBudget,
    I15LeavesATimerBehind,
    I16IgnoresAge,
    I17ChargesNothing,
    I18IgnoresDeadlines,
    I19TakesTheLastFirst,
    I20AdmitsWhileDraining,
    I21OutlivesItsHandles,
    I22TrustsTheClock,
    I23ArraysGetOneRow,
    I24DependsOnOrder,
}

/// The fault that is active in one batcher, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seeded(#[cfg(feature = "faults")] Option<Fault>);

impl Seeded {
    #[cfg(feature = "faults")]
    pub(crate) fn with(fault: Fault) -> Self {
        Self(Some(fault))
    }

    #[cfg(feature = "faults")]
    pub(crate) fn is(self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    #[cfg(not(feature = "faults"))]
    #[expect(clippy::unused_self, reason = "the same signature as with faults")]
    pub(crate) const fn is(self, _: Fault) -> bool {
        false
    }
}
