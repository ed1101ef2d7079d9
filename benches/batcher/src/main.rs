//! `embed-batcher` beside direct calls, a fixed window, and `batch-aint-one`, on the same work.
//!
//! `cargo run --release --manifest-path benches/batcher/Cargo.toml` prints the tables of
//! `docs/bench-batcher.md`. Contenders take turns, round by round; figures are medians of the rounds,
//! with the least and the greatest in brackets.

mod contenders;
mod measure;
mod work;

use std::sync::Arc;
use std::time::Duration;

use contenders::Contender;
use measure::{Sample, context_switches, nanoseconds, spread};
use work::Work;

const ROUNDS: usize = 5;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("threads");
    println!("workers: {}\n", runtime.metrics().num_workers());
    overhead(&runtime);
    arrivals(&runtime);
    for work in [Work::model(), Work::device()] {
        concurrent(&runtime, &work);
    }
    idle();
}

/// A lone caller in a hot loop.
fn overhead(runtime: &tokio::runtime::Runtime) {
    println!("## A lone caller in a hot loop\n");
    println!("| work | way | a call | over the direct call |\n| --- | --- | --- | --- |");
    for (work, calls) in [(Work::nothing(), 200_000), (Work::model(), 20_000)] {
        let ways = runtime.block_on(async {
            [Contender::direct(&work), Contender::batcher(&work), Contender::queued(&work)]
        });
        let mut samples = vec![Vec::new(); ways.len()];
        for _ in 0..ROUNDS {
            for (way, samples) in ways.iter().zip(&mut samples) {
                // The calls of the queued path cost a thread switch each.
                let calls = if way.name.contains("queue") { calls / 20 } else { calls };
                let blocks = runtime.block_on(measure::hot_loop(way, calls));
                samples.push(Sample::of(blocks).p50);
            }
        }
        let direct = samples[0].clone();
        for (way, samples) in ways.iter().zip(&samples) {
            let over: Vec<f64> =
                samples.iter().zip(&direct).map(|(way, direct)| way - direct).collect();
            println!(
                "| {} | {} | {} | {} |",
                work.name,
                way.name,
                spread(samples, nanoseconds),
                spread(&over, nanoseconds)
            );
        }
    }
    println!();
}

/// A lone caller a thousand times a second.
fn arrivals(runtime: &tokio::runtime::Runtime) {
    println!("## A caller every millisecond, for two seconds a round\n");
    println!("| work | way | p50 | p99 |\n| --- | --- | --- | --- |");
    for work in [Work::nothing(), Work::model()] {
        let ways = runtime.block_on(async {
            vec![
                Contender::direct(&work),
                Contender::batcher(&work),
                Contender::queued(&work),
                Contender::batch_aint_one(&work, 1024, None),
                Contender::window(&work),
            ]
        });
        let mut samples = vec![(Vec::new(), Vec::new()); ways.len()];
        for _ in 0..ROUNDS {
            for (way, samples) in ways.iter().zip(&mut samples) {
                let sample = Sample::of(runtime.block_on(measure::arrivals(way, 2000)));
                samples.0.push(sample.p50);
                samples.1.push(sample.p99);
            }
        }
        for (way, (p50, p99)) in ways.iter().zip(&samples) {
            println!(
                "| {} | {} | {} | {} |",
                work.name,
                way.name,
                spread(p50, nanoseconds),
                spread(p99, nanoseconds)
            );
        }
    }
    println!();
}

/// A thousand callers at once, each with one text after the other.
fn concurrent(runtime: &tokio::runtime::Runtime, work: &Work) {
    const CALLERS: usize = 1000;
    println!("## {CALLERS} concurrent callers, {}\n", work.name);
    println!(
        "| way | texts a second | p50 | p99 | texts a call |\n| --- | --- | --- | --- | --- |"
    );
    let ways: Vec<Contender> = runtime.block_on(async {
        vec![
            Contender::direct(work),
            Contender::batcher(work),
            Contender::queued(work),
            Contender::batch_aint_one(work, 1024, None),
            Contender::batch_aint_one(work, 16, Some(Duration::from_millis(25))),
            Contender::window(work),
        ]
    });
    let mut samples = vec![(Vec::new(), Vec::new(), Vec::new(), Vec::new()); ways.len() + 1];
    for _ in 0..ROUNDS {
        let texts = work.texts_a_caller * CALLERS;
        let (took, latencies) = measure::one_thread(work, texts);
        record(&mut samples[0], texts, took, latencies, 1.0);
        for (way, samples) in ways.iter().zip(&mut samples[1..]) {
            let calls = work.calls();
            let way = Arc::new(way.clone());
            let (took, latencies) =
                runtime.block_on(measure::concurrent(&way, CALLERS, work.texts_a_caller));
            let calls = work.calls() - calls;
            record(samples, texts, took, latencies, texts as f64 / calls as f64);
        }
    }
    let names = ["a loop of direct calls"].into_iter().chain(ways.iter().map(|way| way.name));
    for (name, (rate, p50, p99, texts)) in names.zip(&samples) {
        println!(
            "| {name} | {} | {} | {} | {} |",
            spread(rate, |rate| format!("{rate:.0}")),
            spread(p50, nanoseconds),
            spread(p99, nanoseconds),
            spread(texts, |texts| format!("{texts:.1}")),
        );
    }
    println!();
}

type Columns = (Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>);

fn record(columns: &mut Columns, texts: usize, took: Duration, latencies: Vec<f64>, a_call: f64) {
    let sample = Sample::of(latencies);
    columns.0.push(texts as f64 / took.as_secs_f64());
    columns.1.push(sample.p50);
    columns.2.push(sample.p99);
    columns.3.push(a_call);
}

/// A batcher that nobody uses.
fn idle() {
    println!("## An idle process\n");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("threads");
    let work = Work::nothing();
    let batcher = runtime.block_on(async { Contender::batcher(&work) });
    runtime.block_on(batcher.embed("once".to_owned()));
    std::thread::sleep(Duration::from_millis(500));
    let before = context_switches();
    std::thread::sleep(Duration::from_secs(5));
    // The sleep of this thread is one of them.
    let after = context_switches();
    println!(
        "voluntary context switches of all threads in 5 s: {} (one is the measuring thread's own sleep)",
        after - before
    );
}
