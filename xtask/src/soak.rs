//! `cargo xtask soak`: the invariants of the batcher over many random cases.
//!
//! The tests of `embed-batcher-simulation` play the same cases, fewer of them. A failure is printed with
//! the smallest case in which it shows, and is found again with the same `--seed` and `--only`. Each
//! deliberate fault must be seen by the check of its invariant.

use std::collections::BTreeMap;
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use embed_batcher_simulation::{Counts, Invariant, Report, endure, explore};

/// How long to soak.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Random cases for each invariant
    #[arg(long, default_value_t = 20_000)]
    cases: u32,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the invariant of this number
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=24))]
    only: Option<u8>,
}

/// Operations in the life of the one batcher that is not made anew for each case.
const LONG_LIFE: u64 = 1_000_000;

/// What was found for one invariant.
struct Finding {
    number: usize,
    sound: Report,
    faulty: Report,
}

pub(crate) fn run(args: &Args) -> bool {
    // The scripted backend panics on purpose, thousands of times.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let next = AtomicUsize::new(0);
    let findings = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    // Relaxed: the number is all that is shared.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((invariant, fault)) = Invariant::ALL.get(number) else { break };
                    if args.only.is_some_and(|only| usize::from(only) != number + 1) {
                        continue;
                    }
                    let seed = args.seed + number as u64;
                    let sound = explore(*invariant, None, args.cases, seed);
                    let faulty = explore(*invariant, Some(*fault), args.cases, seed);
                    let mut findings =
                        findings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    findings.push(Finding { number, sound, faulty });
                }
            });
        }
    });
    let mut findings = findings.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    findings.sort_by_key(|finding| finding.number);
    let passed = print(args, &findings);
    let endured = if args.only.is_some() { Ok(()) } else { endure(LONG_LIFE, args.seed) };
    panic::set_hook(hook);
    match &endured {
        Ok(()) if args.only.is_some() => {}
        Ok(()) => println!("\none batcher, {LONG_LIFE} operations: nothing left behind"),
        Err(left) => println!("\none batcher, {LONG_LIFE} operations: FAILS: {left}"),
    }
    passed && endured.is_ok()
}

fn print(args: &Args, findings: &[Finding]) -> bool {
    println!("seed {}\n", args.seed);
    let mut passed = true;
    let mut counts: Counts = BTreeMap::new();
    for Finding { number, sound, faulty } in findings {
        let (invariant, fault) = Invariant::ALL[*number];
        let again = format!("again with --seed {} --only {}", args.seed, number + 1);
        for (what, count) in &sound.counts {
            *counts.entry(what).or_default() += count;
        }
        println!("{invariant:?}: {}", invariant.statement());
        match &sound.failure {
            None => println!("  holds in {} cases", sound.cases),
            Some(failure) => println!("  FAILS ({again}): {failure}"),
        }
        match &faulty.failure {
            Some(_) => println!("  {fault:?}: caught in case {}", faulty.cases),
            None => println!("  {fault:?}: NOT CAUGHT in {} cases", faulty.cases),
        }
        passed &= sound.failure.is_none() && faulty.failure.is_some();
    }
    println!("\nwhat happened, over all invariants:");
    for (what, count) in counts {
        println!("  {count:>10}  {what}");
    }
    passed
}
