//! Every invariant over random cases, and every seeded fault caught by the test of its invariant.
//!
//! `cargo xtask soak` runs the same with many more cases.

use embed_batcher_simulation::{Invariant, endure, explore};

/// Cases for each invariant.
const CASES: u32 = 256;

/// Cases in which a fault has to show.
const PATIENCE: u32 = 4096;

#[track_caller]
fn check(invariant: Invariant) {
    let report = explore(invariant, None, CASES, 1);
    assert_eq!(report.failure, None, "{}", invariant.statement());
    assert_eq!(report.cases, CASES);
    let (_, fault) = Invariant::ALL[invariant as usize];
    let caught = explore(invariant, Some(fault), PATIENCE, 1);
    assert!(caught.failure.is_some(), "{fault:?} is not seen in {PATIENCE} cases");
}

#[test]
fn a_long_life_leaves_nothing_behind() {
    for seed in 0..4 {
        assert_eq!(endure(10_000, seed), Ok(()));
    }
}

macro_rules! invariants {
    ($($name:ident: $invariant:ident,)*) => {
        $(#[test]
        fn $name() {
            check(Invariant::$invariant);
        })*
    };
}

invariants! {
    i01_each_text_completes_exactly_once: I1,
    i02_row_i_belongs_to_text_i: I2,
    i03_calls_keep_to_their_budgets: I3,
    i04_calls_keep_to_slots_and_gate: I4,
    i05_the_queue_is_what_is_live: I5,
    i06_the_cancelled_never_reach_the_backend: I6,
    i07_wrong_rows_are_errors_of_their_batch: I7,
    i08_a_failure_changes_no_other_batch: I8,
    i09_sharing_changes_counters_only: I9,
    i10_a_refusal_leaves_no_trace: I10,
    i11_idle_means_at_once: I11,
    i12_nothing_waits_beside_a_free_slot: I12,
    i13_arrivals_never_move_a_window: I13,
    i14_a_full_budget_goes_at_once: I14,
    i15_no_timer_without_need: I15,
    i16_the_aged_go_first: I16,
    i17_equal_classes_get_equal_shares: I17,
    i18_the_expired_are_never_dispatched: I18,
    i19_first_in_first_out: I19,
    i20_a_drain_ends_everything_in_time: I20,
    i21_the_last_handle_wakes_all: I21,
    i22_a_clock_that_jumps_never_panics: I22,
    i23_singles_equal_the_array: I23,
    i24_order_changes_nothing: I24,
}
