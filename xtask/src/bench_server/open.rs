//! Open loop: requests are sent at times that were chosen before, and a latency counts from that time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::serve::http::{Client, Failure};
use crate::serve::process::Server;
use crate::serve::schedule::poisson;
use crate::serve::statistics::Sorted;
use crate::serve::{now, pause_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A sleeping thread wakes late; the last part of the wait is spent awake.
const AWAKE: Duration = Duration::from_micros(150);

/// Latencies from the scheduled time in seconds, and how late requests were sent.
pub(super) struct Arrivals {
    pub(super) latencies: Sorted,
    pub(super) late: Sorted,
}

/// Sends `rate` requests a second over at most so many connections.
pub(super) fn arrive(
    server: &Server,
    requests: &[Vec<u8>],
    connections: usize,
    rate: f64,
    time: Duration,
) -> Result<Arrivals> {
    let schedule = poisson(rate, time, 1);
    let next = AtomicUsize::new(0);
    // Connections are made before.
    let start = now() + Duration::from_millis(200);
    let results = thread::scope(|scope| {
        let clients: Vec<_> = (0..connections)
            .map(|_| scope.spawn(|| client(server, requests, &schedule, &next, start)))
            .collect();
        let join = |client: thread::ScopedJoinHandle<'_, Result<_, Failure>>| {
            client.join().map_err(|_| anyhow!("a client panicked"))
        };
        clients.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let (mut latencies, mut late) = (Vec::new(), Vec::new());
    for result in results {
        let client: Measured = result.map_err(|failure| anyhow!("in the open loop: {failure}"))?;
        latencies.extend(client.latencies);
        late.extend(client.late);
    }
    Ok(Arrivals { latencies: Sorted::new(latencies), late: Sorted::new(late) })
}

/// What one connection measured.
#[derive(Default)]
struct Measured {
    latencies: Vec<f64>,
    late: Vec<f64>,
}

/// Takes the next request of the schedule, as often as there is one.
fn client(
    server: &Server,
    requests: &[Vec<u8>],
    schedule: &[Duration],
    next: &AtomicUsize,
    start: Instant,
) -> Result<Measured, Failure> {
    let mut client = Client::connect(server.address, PATIENCE)?;
    let mut measured = Measured::default();
    loop {
        // Only has to be another number each time.
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(time) = schedule.get(index) else { return Ok(measured) };
        let scheduled = start + *time;
        pause_until(scheduled.checked_sub(AWAKE).unwrap_or(scheduled));
        while now() < scheduled {
            thread::yield_now();
        }
        measured.late.push(scheduled.elapsed().as_secs_f64());
        let answer = client.exchange(&requests[index % requests.len()])?;
        if answer.status != 200 {
            return Err(Failure::Malformed("a status that is not 200"));
        }
        measured.latencies.push(scheduled.elapsed().as_secs_f64());
    }
}
