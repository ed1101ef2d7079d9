//! The batcher on a real runtime, with a backend that waits until the test lets it go on.
//!
//! What can be said in virtual time is said by the package `embed-batcher-simulation`.

mod callers;
mod coalescing;
mod direct;
mod ending;
mod failures;
mod held;
mod sharing;
