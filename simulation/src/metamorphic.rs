//! Invariants that compare two runs.

use embed_batcher::Fault;

use crate::checks::Violation;
use crate::invariant::Invariant;
use crate::op::{Op, Setup};
use crate::script::{Outcome, ScriptRow};
use crate::trace::Trace;
use crate::world::World;

/// Runs what `invariant` compares, and compares it.
pub(crate) fn compare(
    invariant: Invariant,
    setup: &Setup,
    ops: &[Op],
    fault: Option<Fault>,
) -> Vec<Violation> {
    let holds = match invariant {
        Invariant::I9 => sharing_changes_nothing(setup, ops, fault),
        Invariant::I23 => singles_equal_the_array(setup, ops, fault),
        Invariant::I24 => order_changes_nothing(setup, ops, fault),
        _ => return Vec::new(),
    };
    holds.err().map(|message| (invariant, message)).into_iter().collect()
}

fn sharing_changes_nothing(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Result<(), String> {
    // Every batch succeeds, so that only deadlines and cancels differ between the runs.
    let ops: Vec<Op> = ops.iter().cloned().map(succeeding).collect();
    let mut plain = setup.clone();
    (plain.config.single_flight, plain.config.cache_rows) = (false, 0);
    let (shared, plain) = (World::play(setup, &ops, fault), World::play(&plain, &ops, fault));
    for (index, (left, right)) in shared.requests.iter().zip(&plain.requests).enumerate() {
        if let (Some(Ok(left)), Some(Ok(right))) = (&left.answer, &right.answer)
            && left != right
        {
            return Err(format!("request {index}: {left:?} shared, {right:?} alone"));
        }
    }
    Ok(())
}

fn succeeding(op: Op) -> Op {
    match op {
        Op::Submit { texts, class, options, deadline, .. } => {
            Op::Submit { texts, class, options, deadline, outcome: Outcome::Rows }
        }
        Op::Finish(which, _) => Op::Finish(which, Outcome::Rows),
        other => other,
    }
}

/// All the texts of the case, as many as the queue takes.
fn texts(setup: &Setup, ops: &[Op]) -> Vec<String> {
    let arrays = ops.iter().filter_map(|op| match op {
        Op::Submit { texts, .. } => Some(texts),
        _ => None,
    });
    let names = arrays.flatten().enumerate().map(|(index, text)| {
        let name = if setup.unique { index } else { usize::from(text.name) };
        format!("{name}/{}", text.tokens)
    });
    let mut tokens = 0;
    let mut bytes = 0;
    names
        .take(setup.config.queue_texts)
        .take_while(|text| {
            bytes += text.len();
            tokens += text.split_once('/').map_or(0, |(_, tokens)| tokens.parse().unwrap_or(0));
            bytes <= setup.config.queue_bytes && tokens <= setup.config.queue_tokens
        })
        .collect()
}

fn rows(trace: &Trace) -> Result<Vec<ScriptRow>, String> {
    let answers = trace.requests.iter().map(|request| match &request.answer {
        Some(Ok(rows)) => Ok(rows.clone()),
        other => Err(format!("no rows: {other:?}")),
    });
    Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
}

fn singles_equal_the_array(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Result<(), String> {
    let texts = texts(setup, ops);
    let singles: Vec<Vec<String>> = texts.iter().map(|text| vec![text.clone()]).collect();
    let array = rows(&World::rows(setup, &[texts], fault))?;
    let singles = rows(&World::rows(setup, &singles, fault))?;
    if array == singles { Ok(()) } else { Err(format!("array {array:?}, singles {singles:?}")) }
}

fn order_changes_nothing(setup: &Setup, ops: &[Op], fault: Option<Fault>) -> Result<(), String> {
    let texts = texts(setup, ops);
    let mut permuted = texts.clone();
    // Any permutation will do; this one moves every text of three or more.
    permuted.reverse();
    let by = permuted.len() / 2;
    permuted.rotate_left(by);
    let plain = rows(&World::rows(setup, std::slice::from_ref(&texts), fault))?;
    let moved = rows(&World::rows(setup, std::slice::from_ref(&permuted), fault))?;
    for (text, row) in texts.iter().zip(&plain) {
        let there = permuted.iter().position(|other| other == text).map(|index| &moved[index]);
        if there != Some(row) {
            return Err(format!("{text}: {row:?} in place, {there:?} when permuted"));
        }
    }
    Ok(())
}
