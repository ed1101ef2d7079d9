//! The end of a server under load: every request that was sent before gets its answer.
//!
//! 64 clients ask for one text after the other on connections that are kept. After SIGTERM they go on, on
//! new connections where the old one was closed, until nobody listens. A request fails the part when it got
//! no answer, and was sent on a connection from before the signal, or longer than an instant before the first
//! client was refused.
//!
//! On new connections that instant is left out: the system completes connections that a server has not seen
//! yet, and throws them away when it stops to listen. Nothing that a server can do would help them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::serve::bodies::{self, EMBEDDINGS, Format, short_texts};
use crate::serve::http::{Client, Failure};
use crate::serve::process::Server;
use crate::serve::programs::first_model;
use crate::serve::statistics::Sorted;
use crate::serve::{now, pause};

const CLIENTS: usize = 64;

/// How long the load lasts before the signal.
const BEFORE: Duration = Duration::from_millis(500);

/// The instant before the end of listening that is left out on new connections.
const INSTANT: Duration = Duration::from_millis(20);

const PATIENCE: Duration = Duration::from_secs(40);

/// A request that got no answer.
#[derive(Clone, Copy, Debug)]
struct Lost {
    failure: Failure,
    sent: Instant,
    connected: Instant,
}

/// What one client saw.
#[derive(Default)]
struct Log {
    before: BTreeMap<u16, usize>,
    after: BTreeMap<u16, usize>,
    /// Answers after which the server said that it closes.
    farewells: usize,
    /// Connections that were found closed before a request was sent.
    closed_idle: usize,
    lost: Vec<Lost>,
    /// When this client found nobody listening.
    refused: Option<Instant>,
}

/// What happened in a round.
struct Round {
    log: Log,
    /// From the signal until a client was refused.
    listened: Duration,
    /// From the signal to the exit.
    took: Duration,
    status: String,
    /// Lost on old connections, on new ones, and on new ones in the instant of the exit.
    lost: [usize; 3],
    faults: Vec<String>,
}

pub(super) fn run(program: &Path, settings: &[String], rounds: usize) -> Result<bool> {
    println!("\n## The end under load\n");
    println!(
        "| round | answered before | after the signal | said close | lost on old connections | on new \
         ones | as listening ended | exit | listened, s | ended, s | verdict |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut passed = true;
    let mut times = Vec::new();
    for number in 1..=rounds {
        let round = play(program, settings)?;
        times.push(round.took.as_secs_f64());
        passed &= round.faults.is_empty();
        println!("| {number} {}", round.line());
    }
    let times = Sorted::new(times);
    println!(
        "\nFrom the signal to the exit: median {:.3} s, at most {:.3} s.",
        times.median(),
        times.percentile(1.0),
    );
    Ok(passed)
}

fn play(program: &Path, settings: &[String]) -> Result<Round> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(settings);
    let mut server = Server::start(command)?;
    let model = first_model(server.address)?;
    let texts = short_texts(CLIENTS, 1);
    let requests: Vec<Vec<u8>> = texts
        .chunks(1)
        .map(|text| bodies::embeddings(&model, text, Format::Base64))
        .map(|body| bodies::post(server.address, EMBEDDINGS, &body))
        .collect();
    let signaled = AtomicBool::new(false);
    let gone = AtomicBool::new(false);
    let address = server.address;
    let (logs, signal, exit, status) = thread::scope(|scope| -> Result<_> {
        let clients: Vec<_> = requests
            .iter()
            .map(|request| {
                let (signaled, gone) = (&signaled, &gone);
                scope.spawn(move || {
                    let mut log = Log::default();
                    while !gone.load(Ordering::Acquire)
                        && log.connection(address, request, signaled)
                    {}
                    log
                })
            })
            .collect();
        pause(BEFORE);
        // Before the signal, so that no answer to it counts as one before.
        signaled.store(true, Ordering::Release);
        let signal = now();
        let ended = server.terminate().and_then(|()| server.wait());
        let exit = now();
        gone.store(true, Ordering::Release);
        let mut logs = Vec::new();
        for client in clients {
            logs.push(client.join().ok().context("a client panicked")?);
        }
        Ok((logs, signal, exit, ended?))
    })?;
    let mut log = Log::default();
    for client in logs {
        log.add(client);
    }
    let mut round = Round {
        log,
        took: exit - signal,
        status: status.to_string(),
        lost: [0; 3],
        listened: Duration::ZERO,
        faults: Vec::new(),
    };
    if !status.success() {
        round.faults.push(format!("{status}: {}", server.log_lines().join(" / ")));
    }
    round.judge(signal, exit);
    Ok(round)
}

impl Log {
    /// One connection, for as long as it lasts; whether there may be another.
    fn connection(
        &mut self,
        address: std::net::SocketAddr,
        request: &[u8],
        signaled: &AtomicBool,
    ) -> bool {
        let connected = now();
        // Nobody listens any more, or the connection was thrown away while it was made: nothing was sent on
        // it.
        let mut client = match Client::connect(address, PATIENCE) {
            Ok(client) => client,
            Err(failure) => {
                if failure == Failure::Refused {
                    self.refused = Some(now());
                }
                return false;
            }
        };
        loop {
            // What a client of the usual kind does before it uses a kept connection again.
            if client.has_news() != Ok(false) {
                self.closed_idle += 1;
                return true;
            }
            let sent = now();
            match client.exchange(request) {
                Ok(answer) => {
                    let after = signaled.load(Ordering::Acquire);
                    let counts = if after { &mut self.after } else { &mut self.before };
                    *counts.entry(answer.status).or_default() += 1;
                    if answer.close {
                        self.farewells += 1;
                    }
                    if answer.status == 503 {
                        pause(Duration::from_millis(1));
                    }
                    if answer.close {
                        return true;
                    }
                }
                Err(failure) => {
                    self.lost.push(Lost { failure, sent, connected });
                    return true;
                }
            }
        }
    }

    fn add(&mut self, other: Self) {
        for (sum, counts) in [(&mut self.before, other.before), (&mut self.after, other.after)] {
            for (status, count) in counts {
                *sum.entry(status).or_default() += count;
            }
        }
        self.farewells += other.farewells;
        self.closed_idle += other.closed_idle;
        self.lost.extend(other.lost);
        self.refused = self.refused.into_iter().chain(other.refused).min();
    }
}

impl Round {
    fn judge(&mut self, signal: Instant, exit: Instant) {
        for status in self.log.before.keys().filter(|status| **status != 200) {
            self.faults.push(format!("status {status} before the signal"));
        }
        for status in self.log.after.keys().filter(|status| ![200, 503].contains(*status)) {
            self.faults.push(format!("status {status} after the signal"));
        }
        // What was sent after the exit is no fault of anybody.
        self.log.lost.retain(|lost| lost.sent < exit);
        // Where nobody was refused, nobody came after the end of listening.
        let deaf = self.log.refused.map_or(exit, |refused| refused.min(exit));
        self.listened = deaf.saturating_duration_since(signal);
        for lost in &self.log.lost {
            let old = lost.connected < signal;
            let late = lost.sent + INSTANT >= deaf;
            self.lost[if old { 0 } else { 1 + usize::from(late) }] += 1;
            if old || !late {
                self.faults.push(format!(
                    "{} on {} connection, sent {:.1} ms before the end",
                    lost.failure,
                    if old { "an old" } else { "a new" },
                    deaf.saturating_duration_since(lost.sent).as_secs_f64() * 1e3,
                ));
            }
        }
        // A few say enough.
        self.faults.truncate(3);
    }

    fn line(&self) -> String {
        let [old, new, late] = self.lost;
        format!(
            "| {} | {} | {} | {old} | {new} | {late} | {} | {:.3} | {:.3} | {} |",
            counts(&self.log.before),
            counts(&self.log.after),
            self.log.farewells,
            self.status,
            self.listened.as_secs_f64(),
            self.took.as_secs_f64(),
            if self.faults.is_empty() {
                "passed".to_owned()
            } else {
                format!("**{}**", self.faults.join("; "))
            },
        )
    }
}

fn counts(of: &BTreeMap<u16, usize>) -> String {
    let counts = of.iter().map(|(status, count)| format!("{status} x {count}"));
    counts.collect::<Vec<_>>().join(", ")
}
