//! Closed loop: each connection asks, waits for the answer, and asks again.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};

use crate::serve::http::{Client, Failure};
use crate::serve::process::Server;
use crate::serve::statistics::Sorted;
use crate::serve::{now, pause, pause_until};

/// Threads that share the connections. With more connections than that, a thread serves several in turn:
/// it reads the oldest answer, sends the next request on that connection, and goes on to the next one.
const THREADS: usize = 8;

const PATIENCE: Duration = Duration::from_secs(30);

/// Before anything is counted.
const WARM: Duration = Duration::from_millis(200);

/// What was measured.
pub(super) struct Load {
    /// Requests a second.
    pub(super) rate: f64,
    /// Requests a second that were refused with 429.
    pub(super) refused: f64,
    /// Seconds of each request that was served.
    pub(super) latencies: Sorted,
    /// Seconds of processor time a second, of the server and of the generator.
    pub(super) server_busy: f64,
    pub(super) generator_busy: f64,
}

impl Load {
    /// Microseconds of processor time that the server spent on a request.
    pub(super) fn server_micros(&self) -> f64 {
        self.server_busy / self.rate * 1e6
    }
}

/// How often a measurement is made again in which nothing happened.
const ATTEMPTS: usize = 3;

/// Loads a server with requests from so many connections.
///
/// A machine that is shared may stand still for seconds: what was measured then is no measurement.
pub(super) fn load(
    server: &Server,
    requests: &[Vec<u8>],
    connections: usize,
    time: Duration,
) -> Result<Load> {
    for _ in 0..ATTEMPTS {
        if let Some(load) = attempt(server, requests, connections, time)? {
            return Ok(load);
        }
        eprintln!("no request ended in time: measured again");
    }
    bail!("no request ended in time, {ATTEMPTS} times")
}

fn attempt(
    server: &Server,
    requests: &[Vec<u8>],
    connections: usize,
    time: Duration,
) -> Result<Option<Load>> {
    let threads = connections.min(THREADS);
    ensure!(connections.is_multiple_of(threads), "connections are shared out evenly");
    let start = now() + WARM;
    let end = start + time;
    let address = server.address;
    let (results, busy) = thread::scope(|scope| -> Result<_> {
        let threads: Vec<_> = (0..threads)
            .map(|number| {
                let share = connections / threads;
                scope.spawn(move || serve(address, requests, number * share, share, start, end))
            })
            .collect();
        pause_until(start);
        let before = (server.activity()?.processor, own_processor()?);
        // Before the threads end, whose time is no longer told then.
        pause_until(end.checked_sub(WARM / 10).unwrap_or(end));
        let after = (server.activity()?.processor, own_processor()?);
        let seconds = start.elapsed().as_secs_f64();
        let busy = (
            after.0.saturating_sub(before.0).as_secs_f64() / seconds,
            after.1.saturating_sub(before.1).as_secs_f64() / seconds,
        );
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Share, Failure>>| {
            thread.join().map_err(|_| anyhow!("a thread of the generator panicked"))
        };
        Ok((threads.into_iter().map(join).collect::<Result<Vec<_>>>()?, busy))
    })?;
    let (mut latencies, mut refused) = (Vec::new(), 0);
    for result in results {
        let share = result.map_err(|failure| anyhow!("under load: {failure}"))?;
        latencies.extend(share.latencies);
        refused += share.refused;
    }
    if latencies.is_empty() {
        return Ok(None);
    }
    Ok(Some(Load {
        rate: latencies.len() as f64 / time.as_secs_f64(),
        refused: refused as f64 / time.as_secs_f64(),
        latencies: Sorted::new(latencies),
        server_busy: busy.0,
        generator_busy: busy.1,
    }))
}

/// What one thread saw within the time.
#[derive(Default)]
struct Share {
    latencies: Vec<f64>,
    refused: usize,
}

/// One connection of a thread.
struct Connection {
    client: Client,
    sent: Instant,
    /// Refused, and told to come again then.
    waits: Option<Instant>,
}

/// Some of the connections, in turn. Who is refused with 429 comes again when the server says.
fn serve(
    address: SocketAddr,
    requests: &[Vec<u8>],
    first: usize,
    connections: usize,
    start: Instant,
    end: Instant,
) -> Result<Share, Failure> {
    let mut requests = requests.iter().cycle().skip(first);
    let mut next = || requests.next().expect("a cycle has no end");
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(address, PATIENCE)?;
        let sent = now();
        client.send(next())?;
        open.push(Connection { client, sent, waits: None });
    }
    let mut share = Share { latencies: Vec::with_capacity(1 << 16), refused: 0 };
    loop {
        let mut all_wait = true;
        for Connection { client, sent, waits } in &mut open {
            if let Some(time) = *waits {
                let at = now();
                if at < time && at < end {
                    continue;
                }
                (*sent, *waits) = (at, None);
                client.send(next())?;
            }
            all_wait = false;
            let answer = client.receive()?;
            let refused = match answer.status {
                200 => None,
                429 => answer.field("retry-after-ms").and_then(|time| time.parse().ok()),
                _ => return Err(Failure::Malformed("a status that is neither 200 nor 429")),
            };
            let at = now();
            if at >= end {
                return Ok(share);
            }
            if let Some(millis) = refused {
                share.refused += usize::from(at >= start);
                *waits = Some(at + Duration::from_millis(millis));
                continue;
            }
            if at >= start {
                share.latencies.push((at - *sent).as_secs_f64());
            }
            // One reading of the clock serves the answer and the next request.
            *sent = at;
            client.send(next())?;
        }
        if all_wait {
            pause(Duration::from_micros(200));
        }
    }
}

/// Two requests in turn on one connection: seconds of each.
pub(super) fn alternate(
    server: &Server,
    these: &[Vec<u8>],
    those: &[Vec<u8>],
    pairs: usize,
) -> Result<[Sorted; 2]> {
    let mut client =
        Client::connect(server.address, PATIENCE).map_err(|failure| anyhow!("{failure}"))?;
    let mut latencies = [Vec::with_capacity(pairs), Vec::with_capacity(pairs)];
    // A tenth more, of which nothing is kept.
    for pair in 0..pairs + pairs / 10 {
        for (requests, latencies) in [these, those].into_iter().zip(&mut latencies) {
            let sent = now();
            let answer = client.exchange(&requests[pair % requests.len()]);
            let took = sent.elapsed().as_secs_f64();
            let answer = answer.map_err(|failure| anyhow!("in turn: {failure}"))?;
            ensure!(answer.status == 200, "in turn: status {}", answer.status);
            if pair >= pairs / 10 {
                latencies.push(took);
            }
        }
    }
    Ok(latencies.map(Sorted::new))
}

/// Processor time of this process.
fn own_processor() -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir("/proc/self/task")? {
        let spent = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let spent = spent.split(' ').next().and_then(|spent| spent.parse().ok());
        sum += Duration::from_nanos(spent.unwrap_or(0));
    }
    Ok(sum)
}
