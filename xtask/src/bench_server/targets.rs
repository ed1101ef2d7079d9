//! What the server is measured against: its own trivial route, itself without load, and doing nothing.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

use crate::bench::spread::Spread;
use crate::serve::bodies::Format;
use crate::serve::http::{Client, Failure};
use crate::serve::metrics::Metrics;
use crate::serve::process::give_way;
use crate::serve::{now, pause};

use super::Plan;
use super::closed::{Load, alternate, load};
use super::contenders::Contender;
use super::open::arrive;
use super::report::{Report, Target};

/// Pairs of requests in a turn of the latency.
const PAIRS: usize = 10_000;

/// Connections of the throughput.
const CONNECTIONS: usize = 64;

/// The interactive client: requests a second, connections, and seconds in a turn.
const INTERACTIVE_RATE: f64 = 200.0;
const INTERACTIVE_CONNECTIONS: usize = 4;
const INTERACTIVE_TIME: Duration = Duration::from_secs(10);

/// The flood: connections, and texts of a request.
const FLOOD_CONNECTIONS: usize = 4;
const FLOOD_TEXTS: usize = 2048;

/// How long the idle server is watched.
const IDLE: Duration = Duration::from_secs(5);

/// One short text, one after the other, beside the trivial route.
pub(super) fn latency(embed: &Contender, plan: Plan, report: &mut Report) -> Result<()> {
    let requests = embed.requests(1, Format::Float);
    let trivial = embed.trivial();
    let [mut ours, mut theirs, mut ours_99, mut theirs_99] = [const { Vec::new() }; 4];
    for round in 1..=plan.rounds {
        eprintln!("{round}/{}: latency", plan.rounds);
        let [embedding, healthz] = alternate(&embed.server, &requests, &trivial, PAIRS)?;
        ours.push(embedding.median() * 1e6);
        theirs.push(healthz.median() * 1e6);
        ours_99.push(embedding.percentile(0.99) * 1e6);
        theirs_99.push(healthz.percentile(0.99) * 1e6);
    }
    let pairs = ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs);
    let difference = Spread::new(pairs.collect());
    report.target(Target {
        what: "one short text less `/healthz`, p50, one connection".to_owned(),
        figure: format!("{difference:.1} µs"),
        floor: "≤ 60 µs".to_owned(),
        met: difference.median() <= 60.0,
    });
    report.section(format!(
        "## One request at a time\n\nOne connection, {PAIRS} pairs in a turn: one short text, `/healthz`, \
         one short text, and so on.\n\n\
         | request | p50, µs | p99, µs |\n| --- | --- | --- |\n\
         | one short text | {:.1} | {:.1} |\n| `/healthz` | {:.1} | {:.1} |\n",
        Spread::new(ours),
        Spread::new(ours_99),
        Spread::new(theirs),
        Spread::new(theirs_99),
    ));
    Ok(())
}

/// A turn of the throughput is so many short ones: where a machine's speed changes from second to second,
/// what is compared must lie close together.
const SHORT_TURNS: usize = 4;

/// 64 connections with single short texts beside the trivial route.
pub(super) fn throughput(embed: &Contender, plan: Plan, report: &mut Report) -> Result<()> {
    let kinds = [
        ("`/healthz`", embed.trivial()),
        ("one short text, float", embed.requests(1, Format::Float)),
        ("one short text, base64", embed.requests(1, Format::Base64)),
    ];
    let mut loads: [Vec<Load>; 3] = [const { Vec::new() }; 3];
    let short = plan.time / u32::try_from(SHORT_TURNS).context("a small number")?;
    for turn in 0..plan.rounds * SHORT_TURNS {
        for ((name, requests), loads) in kinds.iter().zip(&mut loads) {
            eprintln!("{}/{}: throughput, {name}", turn / SHORT_TURNS + 1, plan.rounds);
            loads.push(load(&embed.server, requests, CONNECTIONS, short)?);
        }
    }
    let spread = |loads: &[Load], of: fn(&Load) -> f64| Spread::new(loads.iter().map(of).collect());
    let trivial = spread(&loads[0], |load| load.rate);
    let mut text = format!(
        "## Throughput beside the trivial route\n\n{CONNECTIONS} connections, each turn as {SHORT_TURNS} short ones. Busy is processor time over \
         time, so that 1 is a core: where the generator's share is near all of its cores and the server's is \
         not, the server could do more.\n\n\
         | request | requests/s | share of `/healthz` | server µs a request | server busy | generator busy |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    for ((name, _), loads) in kinds.iter().zip(&loads) {
        let rate = spread(loads, |load| load.rate);
        let share = rate.over(&trivial);
        let _ = writeln!(
            text,
            "| {name} | {rate:.0} | {share:.2} | {:.1} | {:.2} | {:.2} |",
            spread(loads, Load::server_micros),
            spread(loads, |load| load.server_busy),
            spread(loads, |load| load.generator_busy),
        );
        if !name.starts_with('`') {
            report.target(Target {
                what: format!(
                    "{name}, requests/s over those of `/healthz`, {CONNECTIONS} connections"
                ),
                figure: format!("{:.1} %", share.map(|share| share * 100.0)),
                floor: "≥ 60 %".to_owned(),
                met: share.median() >= 0.6,
            });
        }
    }
    report.section(text);
    Ok(())
}

/// The interactive client without load, and beside a flood of bulk work.
pub(super) fn flood(embed: &Contender, plan: Plan, report: &mut Report) -> Result<()> {
    let interactive = embed.requests(1, Format::Base64);
    let [mut alone, mut beside, mut batches, mut late, mut flooded] = [const { Vec::new() }; 5];
    let mut medians = [const { Vec::new() }; 2];
    for round in 1..=plan.rounds {
        eprintln!("{round}/{}: beside a flood", plan.rounds);
        let quiet = arrive(
            &embed.server,
            &interactive,
            INTERACTIVE_CONNECTIONS,
            INTERACTIVE_RATE,
            INTERACTIVE_TIME,
        )?;
        let before = forwards(embed)?;
        flooding(embed, || {
            pause(plan.time);
            Ok(())
        })?;
        let after = forwards(embed)?;
        let (loud, texts) = flooding(embed, || {
            arrive(
                &embed.server,
                &interactive,
                INTERACTIVE_CONNECTIONS,
                INTERACTIVE_RATE,
                INTERACTIVE_TIME,
            )
        })?;
        alone.push(quiet.latencies.percentile(0.99) * 1e3);
        beside.push(loud.latencies.percentile(0.99) * 1e3);
        late.push(loud.late.percentile(0.99) * 1e3);
        medians[0].push(quiet.latencies.median() * 1e3);
        medians[1].push(loud.latencies.median() * 1e3);
        // Of the flood alone: among interactive requests, most forwards are of one text.
        batches.push((after.0 - before.0) / (after.1 - before.1).max(1.0) * 1e3);
        flooded.push(texts / INTERACTIVE_TIME.as_secs_f64());
    }
    let [quiet_median, loud_median] = medians.map(Spread::new);
    let (alone, beside, batch) = (Spread::new(alone), Spread::new(beside), Spread::new(batches));
    let bound = 2.0 * alone.median() + batch.median();
    report.target(Target {
        what: "one short text beside a flood of bulk work, p99".to_owned(),
        figure: format!("{beside:.3} ms"),
        floor: format!("< {bound:.3} ms: twice without the flood, and a batch"),
        met: beside.median() < bound,
    });
    report.section(format!(
        "## Beside a flood\n\n{INTERACTIVE_RATE} requests a second of one short text arrive at times that were \
         chosen before (latency counts from those), over at most {INTERACTIVE_CONNECTIONS} connections, first \
         alone and then while {FLOOD_CONNECTIONS} connections post {FLOOD_TEXTS} texts at a time, always again. \
         The threads of the flood run only when those of the interactive client do not (SCHED_IDLE). \
         A batch is the mean time of a forward under the flood alone.\n\n\
         | | p50, ms | p99, ms |\n| --- | --- | --- |\n\
         | alone | {quiet_median:.3} | {alone:.3} |\n| beside the flood | {loud_median:.3} | {beside:.3} |\n\
         | a batch | {batch:.3} | |\n\n\
         The flood got {:.0} texts a second. Its interactive requests were sent up to {:.3} ms late (p99).\n",
        Spread::new(flooded),
        Spread::new(late),
    ));
    Ok(())
}

/// Does something while the flood is on; gives the texts of the flood that were answered too.
fn flooding<T>(embed: &Contender, during: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let requests = embed.requests(FLOOD_TEXTS, Format::Base64);
    let done = AtomicBool::new(false);
    let address = embed.server.address;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..FLOOD_CONNECTIONS)
            .map(|number| {
                let (requests, done) = (&requests, &done);
                scope.spawn(move || -> Result<usize> {
                    give_way()?;
                    let failed = |failure: Failure| anyhow!("in the flood: {failure}");
                    let mut client =
                        Client::connect(address, Duration::from_mins(1)).map_err(failed)?;
                    let mut count = 0;
                    for request in requests.iter().cycle().skip(number) {
                        if done.load(Ordering::Acquire) {
                            break;
                        }
                        match client.exchange(request).map_err(failed)?.status {
                            200 => count += FLOOD_TEXTS,
                            // A refused flood is not the server's fault, and comes again.
                            _ => pause(Duration::from_millis(10)),
                        }
                    }
                    Ok(count)
                })
            })
            .collect();
        let result = during();
        done.store(true, Ordering::Release);
        let mut texts = 0;
        for client in clients {
            texts += client.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok((result?, texts as f64))
    })
}

/// Seconds and number of all forwards so far.
fn forwards(embed: &Contender) -> Result<(f64, f64)> {
    let metrics = Metrics::read(embed.server.address)?;
    let sum = metrics.sum("embed_forward_seconds_sum", "");
    let count = metrics.sum("embed_forward_seconds_count", "");
    sum.zip(count).context("the server tells no time of forwards")
}

/// A server that nobody asks, without connections and with 64 that are kept.
pub(super) fn idle(embed: &Contender, report: &mut Report) -> Result<()> {
    let mut text = format!(
        "## Idle\n\nOver {} s, two seconds after the last request; all threads of the server.\n\n\
         | connections | voluntary context switches | share of a core |\n| --- | --- | --- |\n",
        IDLE.as_secs()
    );
    let request = embed.trivial();
    for number in [0, CONNECTIONS] {
        let mut clients = Vec::new();
        for _ in 0..number {
            let mut client = Client::connect(embed.server.address, Duration::from_secs(10))
                .map_err(|failure| anyhow!("{failure}"))?;
            client.exchange(&request[0]).map_err(|failure| anyhow!("{failure}"))?;
            clients.push(client);
        }
        pause(Duration::from_secs(2));
        let (before, started) = (embed.server.activity()?, now());
        pause(IDLE);
        let (after, took) = (embed.server.activity()?, started.elapsed());
        let switches = after.voluntary_switches - before.voluntary_switches;
        let share = after.processor.saturating_sub(before.processor).as_secs_f64()
            / took.as_secs_f64()
            * 100.0;
        let _ = writeln!(text, "| {number} | {switches} | {share:.4} % |");
        report.target(Target {
            what: format!("an idle server with {number} connections, share of a core"),
            figure: format!("{share:.4} %, {switches} switches in {} s", IDLE.as_secs()),
            floor: "< 0.1 %".to_owned(),
            met: share < 0.1,
        });
    }
    report.section(text);
    Ok(())
}
