//! What must hold, in words.

use embed_batcher::Fault;

/// One property of the batcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "`statement` says it")]
pub enum Invariant {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I12,
    I13,
    I14,
    I15,
    I16,
    I17,
    I18,
    I19,
    I20,
    I21,
    I22,
    I23,
    I24,
}

impl Invariant {
    /// All of them, each with the fault that breaks it.
    pub const ALL: [(Self, Fault); 24] = [
        (Self::I1, Fault::I1LosesTheLastAnswer),
        (Self::I2, Fault::I2RotatesRows),
        (Self::I3, Fault::I3TakesOneRowTooMany),
        (Self::I4, Fault::I4RunsWithoutTheGate),
        (Self::I5, Fault::I5ForgetsToReleaseTheCancelled),
        (Self::I6, Fault::I6DispatchesTheCancelled),
        (Self::I7, Fault::I7SkipsTheChecks),
        (Self::I8, Fault::I8FailsTheBatchAfterAFailure),
        (Self::I9, Fault::I9SharesAcrossOptions),
        (Self::I10, Fault::I10KeepsWhatWasRefused),
        (Self::I11, Fault::I11WaitsWhenIdle),
        (Self::I12, Fault::I12ForgetsWhatStillWaits),
        (Self::I13, Fault::I13ArrivalsMoveTheWindow),
        (Self::I14, Fault::I14IgnoresAFullBudget),
        (Self::I15, Fault::I15LeavesATimerBehind),
        (Self::I16, Fault::I16IgnoresAge),
        (Self::I17, Fault::I17ChargesNothing),
        (Self::I18, Fault::I18IgnoresDeadlines),
        (Self::I19, Fault::I19TakesTheLastFirst),
        (Self::I20, Fault::I20AdmitsWhileDraining),
        (Self::I21, Fault::I21OutlivesItsHandles),
        (Self::I22, Fault::I22TrustsTheClock),
        (Self::I23, Fault::I23ArraysGetOneRow),
        (Self::I24, Fault::I24DependsOnOrder),
    ];

    /// The property in words.
    pub fn statement(self) -> &'static str {
        match self {
            Self::I1 => {
                "each admitted text completes exactly once: row, error, cancelled or expired"
            }
            Self::I2 => "row i belongs to text i",
            Self::I3 => {
                "a call has 1 to max_rows rows and at most max_tokens, a lone oversize text aside"
            }
            Self::I4 => {
                "batches at once <= slots, and calls <= slots + inline_slots; the gate is taken once for each \
                 and given back"
            }
            Self::I5 => {
                "what is counted as queued is the sum over live entries and within the caps"
            }
            Self::I6 => "what was cancelled before dispatch never reaches the backend",
            Self::I7 => {
                "wrong count, wrong width, NaN, error and panic reach all waiters of their batch"
            }
            Self::I8 => "a failure of one batch changes no other",
            Self::I9 => "single flight and cache change counters only",
            Self::I10 => "a refused request leaves no trace",
            Self::I11 => "idle, one arrival, no linger: dispatched at the same instant",
            Self::I12 => {
                "nothing waits while a slot that it may take and the gate are free, except within its linger"
            }
            Self::I13 => "arrivals never move a window",
            Self::I14 => "a full budget dispatches at once, and a window that is not full is kept",
            Self::I15 => "no timer is armed when nothing needs one",
            Self::I16 => "an entry past its aging bound is chosen before any younger one",
            Self::I17 => {
                "two backlogged requests of equal class stay within one batch and one entry"
            }
            Self::I18 => "an expired entry is never dispatched and is answered when it expires",
            Self::I19 => {
                "first in, first out within a request, and among lone texts of a class; what runs at once \
                 overtakes bulk work at most"
            }
            Self::I20 => {
                "after drain() nothing is admitted, all ends by the deadline, the worker too"
            }
            Self::I21 => "dropping the last handle wakes all",
            Self::I22 => "a clock that stalls or jumps never panics",
            Self::I23 => "n single requests give the rows of one array of n",
            Self::I24 => "permuting the inputs permutes the outputs",
        }
    }
}
