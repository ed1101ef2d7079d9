//! One batcher, a very long life: nothing may be left behind.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::op::{Op, endless};
use crate::trace::{Event, Moment};
use crate::world::World;

/// Operations after which the past is forgotten, to keep the trace short.
const CHAPTER: u64 = 1000;

/// Plays so many random operations against one batcher and lets everything end.
///
/// # Errors
///
/// What is left in the queue, in the gate, or of timers, or which texts were not accounted for.
pub fn endure(operations: u64, seed: u64) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (setup, op) = endless();
    let setup = setup.new_tree(&mut runner).map_err(|why| why.to_string())?.current();
    let mut world = World::new(&setup, None);
    for number in 0..operations {
        let op: Op = op.new_tree(&mut runner).map_err(|why| why.to_string())?.current();
        world.apply(&op);
        if number % CHAPTER == 0 {
            world.settle();
            world.forget();
        }
    }
    let trace = world.finish();
    let last = trace.events.iter().rev().find_map(|(_, event)| match event {
        Event::Settled(moment) => Some(*moment),
        _ => None,
    });
    let Some(Moment { queued, running, holders, timers, .. }) = last else {
        return Err("nothing was seen".to_owned());
    };
    if (queued.texts, queued.tokens, queued.bytes, running, holders, timers) != (0, 0, 0, 0, 0, 0) {
        return Err(format!("left behind: {last:?}"));
    }
    let [admitted, ends @ ..] = trace.account;
    if admitted != ends.iter().sum::<u64>() || admitted == 0 {
        return Err(format!("{admitted} texts admitted, {ends:?} ended"));
    }
    Ok(())
}
