//! Twice what a server can do, while a part of its clients leave at any point.
//!
//! The model takes a millisecond for each text, so that the capacity is known to be far below what the
//! client can send. First the peak is measured, with a few connections that always ask. Then requests arrive
//! at twice that rate, at times that were chosen before, whether or not earlier ones were answered. One in
//! five clients leaves: within the head, within the body, while it waits, or within the answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::random::Random;
use crate::serve::bodies::{self, EMBEDDINGS, Format};
use crate::serve::http::{Client, Failure};
use crate::serve::metrics::Metrics;
use crate::serve::process::{Server, move_to_cores};
use crate::serve::programs::first_model;
use crate::serve::schedule::poisson;
use crate::serve::statistics::{Line, Sorted};
use crate::serve::{now, pause};

use super::slowed;

/// Texts of a request: several, so that the queue fills before the connections run out.
const TEXTS: usize = 16;

/// Connections at the peak: enough for the server to be busy, and few, because answers come a batch at a
/// time, and the last batch may or may not fall within the time.
const PEAK_CLIENTS: usize = 8;
const PEAK_TIME: Duration = Duration::from_secs(20);

/// Clients under overload: more than can wait in the queue of 4,096 texts, fewer than there may be
/// connections.
const CLIENTS: usize = 800;

/// One client in so many leaves.
const LEAVES: usize = 5;

/// No answer takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Growth over the second half that is the allocator's: with thousands of texts in the queue it fades over
/// minutes, while requests that are kept would be a hundred kilobytes a second.
const GROWTH: f64 = 2e6;

/// What one request came to.
#[derive(Clone, Copy)]
enum Outcome {
    Status(u16, Duration),
    /// A 429 that does not say when to come again.
    NoRetryAfter,
    Failed(Failure),
    Left,
}

/// What was seen under overload.
#[derive(Default)]
struct Tally {
    statuses: BTreeMap<u16, usize>,
    failures: BTreeMap<Failure, usize>,
    no_retry_after: usize,
    left: usize,
    /// Answers of 200 before the end of the schedule: what comes later is no goodput.
    in_time: usize,
    /// Seconds from the scheduled time to a 200.
    good: Vec<f64>,
    /// Seconds from the scheduled time to a 429.
    refused: Vec<f64>,
    /// Seconds by which requests were sent later than scheduled.
    late: Vec<f64>,
}

pub(super) fn run(program: &Path, settings: &[String], seconds: u64, seed: u64) -> Result<bool> {
    println!("\n## Overload\n");
    let pinned = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if pinned {
        move_to_cores("1")?;
    }
    let server = slowed(program, pinned.then_some("0"), settings)?;
    let done = overload(&server, pinned, Duration::from_secs(seconds), seed);
    if pinned {
        move_to_cores(&format!("0-{}", cores - 1))?;
    }
    done
}

fn overload(server: &Server, pinned: bool, length: Duration, seed: u64) -> Result<bool> {
    let target = Target { address: server.address, model: first_model(server.address)? };
    let peak = peak(&target)?;
    println!(
        "The peak is {peak:.0} texts a second ({PEAK_CLIENTS} connections, {TEXTS} texts a request, \
         {} s). {}\n",
        PEAK_TIME.as_secs(),
        if pinned {
            "The server runs on core 0, the clients on core 1."
        } else {
            "Server and clients share the only core."
        },
    );
    let memory = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let started = now();
    let (tally, took) = thread::scope(|scope| {
        scope.spawn(|| watch(server, started, &done, &memory));
        let tally = flood(&target, peak * 2.0 / TEXTS as f64, length, seed);
        let took = started.elapsed();
        done.store(true, Ordering::Release);
        (tally, took)
    });
    let tally = tally?;
    let mut memory = memory.into_inner().unwrap_or_else(PoisonError::into_inner);
    memory.retain(|(at, _)| *at <= length.as_secs_f64());
    let mut report = Report::default();
    report.goodput(&tally, peak, length);
    report.answers(&tally, took);
    report.left_behind(server)?;
    report.memory(&memory, length);
    Ok(report.print())
}

/// Whom all clients ask.
struct Target {
    address: SocketAddr,
    model: String,
}

impl Target {
    /// A request whose texts are in no other one: the same text in two requests is computed once.
    fn request(&self, serial: usize) -> Vec<u8> {
        let text = |number| format!("{serial}.{number} how do I change the oil in my car");
        let texts: Vec<String> = (0..TEXTS).map(text).collect();
        let body = bodies::embeddings(&self.model, &texts, Format::Base64);
        bodies::post(self.address, EMBEDDINGS, &body)
    }
}

/// Texts a second with clients that always ask.
fn peak(target: &Target) -> Result<f64> {
    let warm = now() + Duration::from_secs(1);
    let end = warm + PEAK_TIME;
    let counts = thread::scope(|scope| {
        let clients: Vec<_> = (0..PEAK_CLIENTS)
            .map(|number| {
                scope.spawn(move || -> Result<usize, Failure> {
                    let mut client = Client::connect(target.address, PATIENCE)?;
                    let mut count = 0;
                    // Far from the numbers of the flood.
                    for serial in (1_000_000_000 + number..).step_by(PEAK_CLIENTS) {
                        let status = client.exchange(&target.request(serial))?.status;
                        let at = now();
                        if at >= end {
                            break;
                        }
                        count += usize::from(status == 200 && at >= warm);
                    }
                    Ok(count)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap_or(Ok(0))).collect::<Vec<_>>()
    });
    let mut sum = 0;
    for count in counts {
        sum += count.map_err(|failure| anyhow::anyhow!("at the peak: {failure}"))?;
    }
    Ok((sum * TEXTS) as f64 / PEAK_TIME.as_secs_f64())
}

/// Requests at a rate that does not depend on answers.
fn flood(target: &Target, rate: f64, length: Duration, seed: u64) -> Result<Tally> {
    let schedule = poisson(rate, length, seed);
    let next = AtomicUsize::new(0);
    let started = now();
    let tallies = thread::scope(|scope| -> Result<Vec<Tally>> {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let (schedule, next) = (&schedule, &next);
            let client = move || {
                let mut tally = Tally::default();
                let mut kept = None;
                loop {
                    // Only has to be another number each time.
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(time) = schedule.get(index) else { return tally };
                    let scheduled = started + *time;
                    pause(scheduled.saturating_duration_since(now()));
                    tally.late.push(scheduled.elapsed().as_secs_f64());
                    let mut random = Random::new(seed ^ (index as u64) << 20);
                    let request = target.request(index);
                    let outcome = if random.once_in(LEAVES) {
                        // One connection for each client, so that there are no more than clients.
                        drop(kept.take());
                        leave(target.address, &request, scheduled, &mut random)
                    } else {
                        ask(&mut kept, target.address, &request, scheduled)
                    };
                    tally.count(outcome, started.elapsed() <= length);
                }
            };
            clients.push(thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, client)?);
        }
        let join = |client: thread::ScopedJoinHandle<'_, Tally>| {
            client.join().ok().context("a client panicked")
        };
        clients.into_iter().map(join).collect()
    })?;
    let mut sum = Tally::default();
    for tally in tallies {
        sum.add(tally);
    }
    Ok(sum)
}

/// A client that stays.
fn ask(
    kept: &mut Option<Client>,
    address: SocketAddr,
    request: &[u8],
    scheduled: Instant,
) -> Outcome {
    let mut play = || -> Result<Outcome, Failure> {
        // A connection that was closed meanwhile is not used again.
        let mut client = match kept.take() {
            Some(client) if client.has_news() == Ok(false) => client,
            _ => Client::connect(address, PATIENCE)?,
        };
        let answer = client.exchange(request)?;
        let (status, close) = (answer.status, answer.close);
        let number = |name| answer.field(name).is_some_and(|value| value.parse::<u64>().is_ok());
        let tells_when = number("retry-after") && number("retry-after-ms");
        if !close {
            *kept = Some(client);
        }
        if status == 429 && !tells_when {
            return Ok(Outcome::NoRetryAfter);
        }
        Ok(Outcome::Status(status, scheduled.elapsed()))
    };
    play().unwrap_or_else(Outcome::Failed)
}

/// A client that leaves at a random point; one that got its answer before that stayed.
fn leave(address: SocketAddr, request: &[u8], scheduled: Instant, random: &mut Random) -> Outcome {
    let mut play = || -> Result<Outcome, Failure> {
        let mut client = Client::connect(address, PATIENCE)?;
        // A third leaves before the request is sent, the others within some seconds after.
        if random.once_in(3) {
            client.send(&request[..random.below(request.len())])?;
            return Ok(Outcome::Left);
        }
        client.send(request)?;
        client.set_timeout(Duration::from_millis(random.below(4000) as u64))?;
        let status = client.receive()?.status;
        Ok(Outcome::Status(status, scheduled.elapsed()))
    };
    match play() {
        Err(Failure::TimedOut) => Outcome::Left,
        other => other.unwrap_or_else(Outcome::Failed),
    }
}

/// Reads the server's memory until all is done.
fn watch(server: &Server, started: Instant, done: &AtomicBool, memory: &Mutex<Vec<(f64, f64)>>) {
    while !done.load(Ordering::Acquire) {
        if let Ok(bytes) = server.resident() {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.push((started.elapsed().as_secs_f64(), bytes as f64));
        }
        pause(Duration::from_millis(250));
    }
}

impl Tally {
    fn count(&mut self, outcome: Outcome, in_time: bool) {
        match outcome {
            Outcome::Status(status, took) => {
                *self.statuses.entry(status).or_default() += 1;
                match status {
                    200 => {
                        self.good.push(took.as_secs_f64());
                        self.in_time += usize::from(in_time);
                    }
                    429 => self.refused.push(took.as_secs_f64()),
                    _ => {}
                }
            }
            Outcome::NoRetryAfter => self.no_retry_after += 1,
            Outcome::Failed(failure) => *self.failures.entry(failure).or_default() += 1,
            Outcome::Left => self.left += 1,
        }
    }

    fn add(&mut self, other: Self) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
        self.no_retry_after += other.no_retry_after;
        self.left += other.left;
        self.in_time += other.in_time;
        self.good.extend(other.good);
        self.refused.extend(other.refused);
        self.late.extend(other.late);
    }
}

/// What is printed, and whether all of it passed.
#[derive(Default)]
struct Report(Vec<(&'static str, String, bool)>);

impl Report {
    fn goodput(&mut self, tally: &Tally, peak: f64, length: Duration) {
        let texts = (tally.in_time * TEXTS) as f64;
        let goodput = texts / length.as_secs_f64();
        let share = goodput / peak;
        let said = format!("{goodput:.0} texts a second, {:.1} % of the peak", share * 100.0);
        self.0.push(("goodput, at least 90 % of the peak", said, share >= 0.9));
        let late = Sorted::new(tally.late.clone());
        let said = format!(
            "{} requests; p99 {:.1} ms after their time, at most {:.1} ms",
            late.len(),
            late.percentile(0.99) * 1e3,
            late.percentile(1.0) * 1e3,
        );
        // A generator that is late does not offer what it should.
        self.0.push(("sent in time, within 100 ms", said, late.percentile(0.99) <= 0.1));
    }

    fn answers(&mut self, tally: &Tally, took: Duration) {
        let statuses = tally.statuses.iter().map(|(status, count)| format!("{status} x {count}"));
        let said =
            format!("{}; {} clients left", statuses.collect::<Vec<_>>().join(", "), tally.left);
        let only = tally.statuses.keys().all(|status| [200, 429].contains(status));
        let both = tally.statuses.contains_key(&200) && tally.statuses.contains_key(&429);
        self.0.push(("200 and 429 alone", said, only && both));
        let said = format!("{} without", tally.no_retry_after);
        self.0.push(("429 with Retry-After and retry-after-ms", said, tally.no_retry_after == 0));
        let failures = tally.failures.iter().map(|(failure, count)| format!("{failure} x {count}"));
        let said = failures.collect::<Vec<_>>().join(", ");
        let said = if said.is_empty() { "none".to_owned() } else { said };
        self.0.push(("requests without an answer", said, tally.failures.is_empty()));
        for (what, times) in [("200", &tally.good), ("429", &tally.refused)] {
            let times = Sorted::new(times.clone());
            let said = format!(
                "{what}: p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms",
                times.median() * 1e3,
                times.percentile(0.99) * 1e3,
                times.percentile(1.0) * 1e3,
            );
            self.0.push(("latency from the scheduled time", said, true));
        }
        let said = format!("the last answer {:.1} s after the first request", took.as_secs_f64());
        self.0.push(("end", said, true));
    }

    /// What the server must not keep when all clients are gone.
    fn left_behind(&mut self, server: &Server) -> Result<()> {
        let started = now();
        let (said, passed) = loop {
            let metrics = Metrics::read(server.address)?;
            let gauges =
                ["embed_queue_texts", "embed_inflight_batches"].map(|name| metrics.sum(name, ""));
            if gauges == [Some(0.0), Some(0.0)] {
                break (format!("both 0 after {:.1} s", started.elapsed().as_secs_f64()), true);
            }
            if started.elapsed() > Duration::from_secs(5) {
                break (format!("{gauges:?} after 5 s"), false);
            }
            pause(Duration::from_millis(100));
        };
        self.0.push(("texts in the queue, batches in flight", said, passed));
        let cancelled = Metrics::read(server.address)?.sum("embed_cancelled_total", "");
        let said = cancelled.map_or("not told".to_owned(), |count| format!("{count}"));
        self.0.push(("requests dropped because their client had gone", said, true));
        Ok(())
    }

    fn memory(&mut self, memory: &[(f64, f64)], length: Duration) {
        let half = length.as_secs_f64() / 2.0;
        let second: Vec<(f64, f64)> =
            memory.iter().copied().filter(|(at, _)| *at >= half).collect();
        let Some(line) = Line::through(&second) else {
            self.0.push(("memory does not grow", "too few samples".to_owned(), false));
            return;
        };
        let quarters: Vec<String> = (0..=4)
            .filter_map(|quarter| memory.get(((memory.len() - 1) * quarter) / 4))
            .map(|(_, bytes)| format!("{:.1}", bytes / 1e6))
            .collect();
        let said = format!(
            "{:.1} ± {:.1} kB a second over the second half ({} samples); {} MB after each quarter",
            line.slope / 1e3,
            line.error / 1e3,
            second.len(),
            quarters.join(", "),
        );
        // Three errors are more than chance.
        let grows = line.slope > 3.0 * line.error && line.slope * half > GROWTH;
        self.0.push(("memory does not grow", said, !grows));
    }

    fn print(&self) -> bool {
        println!("| what | seen | verdict |");
        println!("| --- | --- | --- |");
        for (what, said, passed) in &self.0 {
            println!("| {what} | {said} | {} |", if *passed { "passed" } else { "**failed**" });
        }
        self.0.iter().all(|(_, _, passed)| *passed)
    }
}
