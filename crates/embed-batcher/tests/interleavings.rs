//! Interleavings of threads at the gate and between handles and worker, explored by shuttle.
//!
//! Every lock of the crate is a point at which the scheduler may switch, and so are every wait, every
//! message to the worker and every request for a slot. Tokio's channels and semaphore are taken to be right
//! in themselves.
//!
//! `cargo test -p embed-batcher --features shuttle --test interleavings`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use embed_batcher::{
    Backend, BatchConfig, Batcher, Clock, Cost, DeviceGate, Error, Executor, Job, Occupancy, Owner,
    RequestOptions,
};
use embed_core::BoxFuture;
use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

/// Schedules for each test: half at random, half few switches at the worst places.
const SCHEDULES: usize = 20_000;

fn explore(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let half = SCHEDULES / 2;
    let again = Arc::clone(&test);
    Runner::new(RandomScheduler::new(half), Config::new()).run(move || again());
    Runner::new(PctScheduler::new(3, half), Config::new()).run(move || test());
}

/// A clock for which nobody waits.
struct NoTime(Instant);

impl Clock for NoTime {
    fn now(&self) -> Instant {
        self.0
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[expect(clippy::disallowed_methods, reason = "an origin is needed, and any will do")]
fn no_time() -> NoTime {
    NoTime(Instant::now())
}

/// A thread for each job.
struct Threads;

impl Executor for Threads {
    fn execute(&self, job: Job) {
        thread::spawn(job);
    }
}

/// Row = the text's number; counts how many calls run at once, and how many texts it saw.
struct Numbers {
    gate: DeviceGate,
    foreign_inside: Arc<AtomicUsize>,
    running: AtomicUsize,
    /// Of calls at once.
    most: usize,
    seen: Arc<AtomicUsize>,
}

impl Backend for Numbers {
    type Item = str;
    type Options = ();
    type Row = usize;
    type Error = std::convert::Infallible;

    fn cost(&self, _: &str, (): &()) -> Cost {
        Cost { tokens: 1, bytes: 1 }
    }

    fn run(&self, texts: &[&str], (): &()) -> Result<Vec<usize>, Self::Error> {
        assert!(self.running.fetch_add(1, Ordering::SeqCst) < self.most, "a slot for each call");
        assert_eq!(self.foreign_inside.load(Ordering::SeqCst), 0, "the gate excludes the others");
        thread::yield_now();
        self.seen.fetch_add(texts.len(), Ordering::SeqCst);
        let rows = texts.iter().map(|text| text.parse().unwrap_or(0)).collect();
        assert!(self.gate.occupancy().holders > 0);
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(rows)
    }
}

struct Scene {
    batcher: Batcher<Numbers>,
    worker: thread::JoinHandle<()>,
    gate: DeviceGate,
    foreign_inside: Arc<AtomicUsize>,
    seen: Arc<AtomicUsize>,
}

/// With one slot for batches and so many for calls on callers' threads, which none are without either.
fn scene(inline_bytes: usize, inline_slots: usize) -> Scene {
    let (gate, foreign_inside, seen) = (DeviceGate::new(), Arc::default(), Arc::default());
    let backend = Numbers {
        gate: gate.clone(),
        foreign_inside: Arc::clone(&foreign_inside),
        running: AtomicUsize::new(0),
        most: 1 + inline_slots,
        seen: Arc::clone(&seen),
    };
    let config = BatchConfig { inline_bytes, inline_slots, max_rows: 2, ..BatchConfig::device() };
    let builder = Batcher::builder(backend).config(config).clock(no_time()).executor(Threads);
    let builder = builder.gate(gate.clone(), Owner::shared("batcher"));
    let (batcher, worker) = builder.pair().expect("a valid setup");
    let worker = thread::spawn(move || block_on(worker));
    Scene { batcher, worker, gate, foreign_inside, seen }
}

#[test]
fn the_gate_excludes_and_forgets_nobody() {
    explore(|| {
        let gate = DeviceGate::new();
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (gate, inside) = (gate.clone(), Arc::clone(&inside));
                thread::spawn(move || {
                    let owner = Owner::exclusive("alone");
                    let guard = block_on(gate.acquire(&owner));
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                    drop(gate.try_acquire(&owner));
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
    });
}

#[test]
fn waiters_that_give_up_leave_the_gate_to_others() {
    for releases_first in [false, true] {
        explore(move || {
            let gate = DeviceGate::new();
            let shared = Owner::shared("shared");
            let guard = gate.try_acquire(&shared).expect("the gate is free");
            let quitter = {
                let gate = gate.clone();
                thread::spawn(move || {
                    // Polled once, then dropped: in the line, let in, or neither.
                    let mut wait = gate.acquire(&Owner::exclusive("quitter"));
                    block_on(std::future::poll_fn(|context| {
                        let _ = std::pin::Pin::new(&mut wait).poll(context);
                        std::task::Poll::Ready(())
                    }));
                    thread::yield_now();
                    drop(wait);
                })
            };
            let late = {
                let (gate, shared) = (gate.clone(), shared.clone());
                thread::spawn(move || drop(block_on(gate.acquire(&shared))))
            };
            // The late one overlaps with the guard, or follows it; the quitter keeps it from neither.
            let kept = if releases_first {
                drop(guard);
                None
            } else {
                Some(guard)
            };
            late.join().expect("no panic");
            drop(kept);
            quitter.join().expect("no panic");
            assert_eq!(gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
        });
    }
}

#[test]
fn callers_get_their_rows_whichever_way_they_go() {
    explore(|| rows_whichever_way(0));
    explore(|| rows_whichever_way(1));
}

fn rows_whichever_way(inline_slots: usize) {
    let Scene { batcher, worker, gate, foreign_inside, seen } = scene(4096, inline_slots);
    let foreign = thread::spawn(move || {
        let guard = block_on(gate.acquire(&Owner::exclusive("foreign")));
        foreign_inside.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        foreign_inside.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
    });
    let callers: Vec<_> = (0..3_usize)
        .map(|number| {
            let batcher = batcher.clone();
            thread::spawn(move || {
                assert_eq!(block_on(batcher.embed(number.to_string())), Ok(number));
            })
        })
        .collect();
    for caller in callers {
        caller.join().expect("no panic");
    }
    foreign.join().expect("no panic");
    assert_eq!(seen.load(Ordering::SeqCst), 3);
    drop(batcher);
    worker.join().expect("the worker ends with the last handle");
}

#[test]
fn a_caller_that_goes_takes_nobody_along() {
    explore(|| {
        let Scene { batcher, worker, gate, .. } = scene(0, 0);
        let gone = {
            let batcher = batcher.clone();
            thread::spawn(move || {
                drop(batcher.submit(["7"], &(), &RequestOptions::default()));
            })
        };
        assert_eq!(block_on(batcher.embed("1")), Ok(1));
        gone.join().expect("no panic");
        assert_eq!(block_on(batcher.embed("2")), Ok(2));
        drop(batcher);
        worker.join().expect("the worker ends with the last handle");
        // A batch may still run that nobody waits for.
        while gate.occupancy().holders > 0 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_drain_answers_everybody_and_admits_nobody_after() {
    explore(|| a_drain(0));
    explore(|| a_drain(1));
}

fn a_drain(inline_slots: usize) {
    let Scene { batcher, worker, seen, .. } = scene(4096, inline_slots);
    let callers: Vec<_> = (0..2_usize)
        .map(|number| {
            let batcher = batcher.clone();
            thread::spawn(move || block_on(batcher.embed(number.to_string())))
        })
        .collect();
    let deadline = batcher.deadline_in(Duration::from_secs(1));
    let drained = block_on(batcher.drain(deadline));
    let seen_at_the_end = seen.load(Ordering::SeqCst);
    assert_eq!(drained.abandoned, 0);
    worker.join().expect("the worker ends with the drain");
    let mut served = 0;
    for (number, caller) in callers.into_iter().enumerate() {
        match caller.join().expect("no panic") {
            Ok(row) => {
                assert_eq!(row, number);
                served += 1;
            }
            Err(error) => assert!(matches!(error, Error::Draining | Error::Closed), "{error}"),
        }
    }
    assert_eq!((seen_at_the_end, seen.load(Ordering::SeqCst)), (served, served));
    assert_eq!(block_on(batcher.embed("9")), Err(Error::Closed));
}
