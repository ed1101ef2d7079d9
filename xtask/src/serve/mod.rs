//! What the tasks about the server share: a client that tells failures apart, server processes that are
//! watched from outside, and the arithmetic of measuring them.
//!
//! Nothing here knows the server's code: a server is a program that listens at an address.

pub(crate) mod answer;
pub(crate) mod bodies;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod schedule;
pub(crate) mod statistics;

use std::time::{Duration, Instant};

/// The time: these tasks are about when things happen.
#[expect(clippy::disallowed_methods, reason = "load is a matter of time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets time pass: load is what is sent when.
#[expect(clippy::disallowed_methods, reason = "load is a matter of time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Lets time pass until a point in time.
pub(crate) fn pause_until(time: Instant) {
    pause(time.saturating_duration_since(now()));
}
