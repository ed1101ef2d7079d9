//! Clocks, percentiles, and the shapes of load.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contenders::Contender;
use crate::work::{Work, text};

/// Percentiles of durations in nanoseconds.
pub struct Sample {
    pub p50: f64,
    pub p99: f64,
}

impl Sample {
    pub fn of(mut durations: Vec<f64>) -> Self {
        durations.sort_by(f64::total_cmp);
        let at = |share: f64| durations[((durations.len() - 1) as f64 * share).round() as usize];
        Self { p50: at(0.5), p99: at(0.99) }
    }
}

/// The median, with the least and the greatest.
pub fn spread(values: &[f64], show: impl Fn(f64) -> String) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, greatest) = (sorted[0], sorted[sorted.len() - 1]);
    format!("{} ({} to {})", show(sorted[sorted.len() / 2]), show(least), show(greatest))
}

/// A duration in the unit that suits it.
pub fn nanoseconds(value: f64) -> String {
    match value.abs() {
        size if size < 1e3 => format!("{value:.0} ns"),
        size if size < 1e6 => format!("{:.1} µs", value / 1e3),
        _ => format!("{:.1} ms", value / 1e6),
    }
}

/// Mean nanoseconds of a call, for each block of 100 calls.
pub async fn hot_loop(way: &Contender, calls: usize) -> Vec<f64> {
    let texts: Vec<String> = (0..calls).map(text).collect();
    let mut blocks = Vec::with_capacity(calls / 100);
    for block in texts.chunks_exact(100) {
        let block = block.to_vec();
        let started = Instant::now();
        for text in block {
            way.embed(text).await;
        }
        blocks.push(started.elapsed().as_nanos() as f64 / 100.0);
    }
    blocks
}

/// Nanoseconds of each call, one call a millisecond.
pub async fn arrivals(way: &Contender, calls: usize) -> Vec<f64> {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut durations = Vec::with_capacity(calls);
    for number in 0..calls {
        ticks.tick().await;
        let text = text(number);
        let started = Instant::now();
        way.embed(text).await;
        durations.push(started.elapsed().as_nanos() as f64);
        // A way that takes longer than a tick is measured fewer times.
        if durations.iter().sum::<f64>() > 2e9 {
            break;
        }
    }
    durations
}

/// All texts one after the other, on this thread.
pub fn one_thread(work: &Work, texts: usize) -> (Duration, Vec<f64>) {
    // A device would take seconds: a part of the texts tells the rate.
    let measured = if work.slots == 1 { texts / 10 } else { texts };
    let mut durations = Vec::with_capacity(measured);
    let started = Instant::now();
    for number in 0..measured {
        let text = text(number);
        let call = Instant::now();
        work.run(&[&text]);
        durations.push(call.elapsed().as_nanos() as f64);
    }
    (started.elapsed() * (texts / measured) as u32, durations)
}

/// Every caller one text after the other, all callers at once.
pub async fn concurrent(
    way: &Arc<Contender>,
    callers: usize,
    texts: usize,
) -> (Duration, Vec<f64>) {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let way = Arc::clone(way);
            tokio::spawn(async move {
                let mut durations = Vec::with_capacity(texts);
                for number in 0..texts {
                    let text = text(caller * texts + number);
                    let call = Instant::now();
                    way.embed(text).await;
                    durations.push(call.elapsed().as_nanos() as f64);
                }
                durations
            })
        })
        .collect();
    let mut durations = Vec::with_capacity(callers * texts);
    for task in tasks {
        durations.extend(task.await.expect("no panic"));
    }
    (started.elapsed(), durations)
}

/// Voluntary context switches of all threads of this process so far.
pub fn context_switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let statuses = tasks.flatten().map(|task| task.path().join("status"));
    let texts = statuses.filter_map(|status| std::fs::read_to_string(status).ok());
    texts
        .filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}
