//! The timelines of the contract, to the millisecond: the fixed window, and the default mode.

use std::time::Duration;

use embed_batcher::{BatchConfig, Class};
use embed_batcher_simulation::{Event, Op, Outcome, Setup, Text, Trace, World};

const ARRIVES: Op = Op::Submit {
    texts: Vec::new(),
    class: Class::Interactive,
    options: 0,
    deadline: None,
    outcome: Outcome::Rows,
};

/// A text arrives, and whatever follows from it happens.
fn arrival() -> [Op; 2] {
    let mut op = ARRIVES;
    if let Op::Submit { texts, .. } = &mut op {
        texts.push(Text { name: 0, tokens: 1 });
    }
    [op, Op::Settle]
}

fn returns() -> [Op; 2] {
    [Op::Finish(0, Outcome::Rows), Op::Settle]
}

fn window() -> Setup {
    let config = BatchConfig::fixed_window(Duration::from_millis(25), 16);
    Setup { config, gated: true, unique: true }
}

/// One slot, everything through the queue, so that batches can be seen.
fn default_mode() -> Setup {
    let config = BatchConfig { inline_bytes: 0, ..BatchConfig::device() };
    Setup { config, gated: true, unique: true }
}

/// Batches as (millisecond, texts); texts are numbered from 1 in order of arrival.
fn batches(trace: &Trace) -> Vec<(u64, Vec<u32>)> {
    let Some((start, _)) = trace.events.first() else { return Vec::new() };
    let handed = trace.events.iter().filter_map(|(at, event)| match event {
        Event::Handed { batch } => Some((at.duration_since(*start).as_millis(), *batch)),
        _ => None,
    });
    let number = |text: &String| text.split('/').next().and_then(|name| name.parse().ok());
    handed
        .map(|(ms, batch)| {
            let call = trace.calls[batch].as_ref();
            let texts = call.map(|call| call.texts.iter().filter_map(number).collect());
            (u64::try_from(ms).unwrap_or(u64::MAX), texts.unwrap_or_default())
        })
        .collect()
}

#[track_caller]
fn check(setup: &Setup, ops: &[&[Op]], expected: &[(u64, Vec<u32>)]) {
    let settle: &[Op] = &[Op::Settle];
    let ops = [&[settle], ops].concat().concat();
    assert_eq!(batches(&World::play(setup, &ops, None)), expected);
}

fn wait(ms: u8) -> [Op; 1] {
    [Op::Advance(ms)]
}

#[test]
fn a_window_opens_with_its_first_and_is_not_moved_by_later_ones() {
    let ops: [&[Op]; 4] = [&arrival(), &wait(10), &arrival(), &wait(40)];
    check(&window(), &ops, &[(25, vec![1, 2])]);
}

#[test]
fn a_lone_caller_waits_one_window() {
    check(&window(), &[&arrival(), &wait(24), &wait(1)], &[(25, vec![1])]);
}

#[test]
fn an_arrival_while_a_batch_runs_has_a_window_of_its_own() {
    let ops: [&[Op]; 7] =
        [&arrival(), &wait(30), &arrival(), &wait(10), &returns(), &wait(14), &wait(1)];
    check(&window(), &ops, &[(25, vec![1]), (55, vec![2])]);
}

#[test]
fn the_sixteenth_arrival_goes_at_once() {
    let arrivals: Vec<Op> = (0..15).flat_map(|_| arrival()).collect();
    let ops: [&[Op]; 4] = [&arrivals, &wait(3), &arrival(), &wait(30)];
    check(&window(), &ops, &[(3, (1..=16).collect())]);
}

#[test]
fn a_caller_that_cancels_takes_its_window_along() {
    let ops: [&[Op]; 6] =
        [&arrival(), &wait(10), &arrival(), &[Op::Cancel(0), Op::Settle], &wait(14), &wait(1)];
    // The second has waited since 10, and waits one window as any other.
    check(&window(), &ops, &[(35, vec![2])]);
}

#[test]
fn a_window_whose_callers_have_all_gone_is_closed() {
    let ops: [&[Op]; 6] =
        [&arrival(), &wait(20), &[Op::Cancel(0), Op::Settle], &wait(1), &arrival(), &wait(30)];
    let ops = ops.concat();
    let trace = World::play(&window(), &ops, None);
    assert_eq!(batches(&trace), [(46, vec![2])]);
    // Between the cancel and the next arrival no timer was armed.
    let moments = trace.events.iter().filter_map(|(_, event)| match event {
        Event::Settled(moment) => Some(moment.timers),
        _ => None,
    });
    let cancel =
        trace.events.iter().position(|(_, event)| matches!(event, Event::Cancelled { .. }));
    let settled_before = trace.events[..cancel.expect("a cancel")]
        .iter()
        .filter(|(_, event)| matches!(event, Event::Settled(_)))
        .count();
    assert_eq!(moments.skip(settled_before).take(3).collect::<Vec<_>>(), [0, 0, 0]);
}

#[test]
fn idle_means_now_and_busy_means_together() {
    let ops: [&[Op]; 8] = [
        &arrival(),
        &returns(),
        &wait(10),
        &arrival(),
        &wait(20),
        &arrival(),
        &arrival(),
        &wait(10),
    ];
    let mut ops: Vec<&[Op]> = ops.to_vec();
    let returns = returns();
    ops.push(&returns);
    check(&default_mode(), &ops, &[(0, vec![1]), (10, vec![2]), (40, vec![3, 4])]);
}

/// The gate is held for ten seconds, and a text arrives every 25 ms.
fn ten_seconds_behind_the_gate() -> Vec<Op> {
    let mut ops = vec![Op::HoldGate];
    for _ in 0..400 {
        ops.extend(arrival());
        ops.extend(wait(25));
    }
    ops.push(Op::ReleaseGate);
    ops
}

#[test]
fn what_gathers_behind_the_gate_goes_in_one_batch() {
    let trace = World::play(&default_mode(), &ten_seconds_behind_the_gate(), None);
    assert_eq!(batches(&trace), [(10_000, (1..=400).collect())]);
}

#[test]
fn what_gathers_behind_the_gate_goes_in_full_batches_and_not_one_a_window() {
    let trace = World::play(&window(), &ten_seconds_behind_the_gate(), None);
    let full: Vec<Vec<u32>> =
        (0..25).map(|batch| (batch * 16 + 1..=batch * 16 + 16).collect()).collect();
    let texts: Vec<Vec<u32>> = batches(&trace).into_iter().map(|(_, texts)| texts).collect();
    assert_eq!(texts, full);
    assert!(batches(&trace).iter().all(|(ms, _)| *ms == 10_000));
}
