//! A micro-batcher: many concurrent callers with one item each become few calls of a backend.
//!
//! The crate knows no model. A [`Backend`] is a function from a batch of items to a batch of rows;
//! [`EmbedderBackend`] makes one of any [`embed_core::Embedder`].
//!
//! ```
//! use std::convert::Infallible;
//! use embed_batcher::{Backend, Batcher, Cost, Error};
//!
//! /// The backend: the length of a text, very efficient in batches.
//! struct Lengths;
//!
//! impl Backend for Lengths {
//!     type Item = str;
//!     type Options = ();
//!     type Row = usize;
//!     type Error = Infallible;
//!
//!     fn cost(&self, text: &str, (): &()) -> Cost {
//!         Cost { tokens: text.len(), bytes: text.len() }
//!     }
//!
//!     fn run(&self, texts: &[&str], (): &()) -> Result<Vec<usize>, Infallible> {
//!         Ok(texts.iter().map(|text| text.len()).collect())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let batcher = Batcher::builder(Lengths).spawn()?;
//! assert_eq!(batcher.embed("seven").await?, 5);
//! assert_eq!(batcher.embed_many(["one", "three"], &(), &Default::default()).await?, [3, 5]);
//! # Ok(())
//! # }
//! ```
//!
//! # Life of a request
//!
//! ```text
//!   caller: embed(text)
//!      |  cost, cache
//!      |
//!      +-- nothing waits, a slot and the gate are free, the text is small
//!      |       -> backend on this very thread -> row            (inline)
//!      +-- no interactive request waits, the text is small and interactive
//!      |       -> the same, in one of the `inline_slots`         (inline)
//!      |
//!      +-- ledger: room?  no -> Overloaded, at once
//!      |                 yes
//!      v
//!   message queue --> worker: planner's queue of waiting items
//!                        |   a slot is free *and* the gate is granted
//!                        v
//!                     batch, formed now, of everything that waits within the budgets
//!                        |   blocking thread: backend, under catch_unwind, rows checked
//!                        v
//!                     worker --> each caller its row, or the error of its batch
//! ```
//!
//! - A lone caller pays nothing: the call runs where it is made.
//! - A batch is formed at the last moment. While a device is busy for ten seconds, what arrives gathers
//!   and goes together, in the order of [fair queueing](BatchConfig::aging).
//! - Every answer comes once: a row, an error, or, for a dropped future, nothing.
//! - Dropping a future withdraws the request. Before dispatch its items never reach the backend; after,
//!   the others of the batch are untouched.
//! - [`Batcher::drain`] ends in order; dropping the last handle wakes whoever still waits.
//!
//! # Choosing budgets
//!
//! See [`BatchConfig`]. A budget is a promise about time: nobody waits for a batch longer than
//! [`max_tokens`](BatchConfig::max_tokens) take. The queue's limits are a promise about memory.
//!
//! # The fixed window, and why it is not the default
//!
//! The classic micro-batcher waits, say, 25 ms from the first request on and sends what came. That pays
//! when a call costs much more than the window. A static embedding costs microseconds: the window is
//! then nearly all of the latency, and it gains nothing, because while one batch runs the next gathers
//! anyway. [`BatchConfig::fixed_window`] has it for backends that need it.
//!
//! # Deadlines, and a slow backend
//!
//! A call of the backend cannot be interrupted. When the deadline of a request passes, the caller is
//! answered; the backend finishes its batch, and the rows of that caller go nowhere. Only a call that runs
//! inline, on the caller's own thread, ends when it ends.
//!
//! # What is not shared
//!
//! Equal items in one call, or while one of them is with the backend through the queue, compute once.
//! Calls that run inline or around the queue are not looked for by others: an inline call is over in the
//! time that it would take to ask.
//!
//! # Classes, and what they do not promise
//!
//! A query in the queue is dispatched before the [bulk](Class::Bulk) work there, so that it waits for the
//! batch that runs and no longer. Three things can still delay or refuse it: bulk work older than
//! [`aging`](BatchConfig::aging), which goes first; an array [around the queue](Batcher::embed_direct),
//! which has its slot to the end; and a queue that bulk work has filled. Index in requests smaller than
//! the queue, one after the other.
//!
//! With [`inline_slots`](BatchConfig::inline_slots) a small query does not come to the queue at all, whatever
//! bulk work waits or runs: it is computed on its caller's thread. It queues like the others while all those
//! slots are taken, while another interactive request waits, behind a gate that is held, and where the
//! backend has turned out to be slow ([`inline_time`](BatchConfig::inline_time)).
//!
//! # Testing code that uses it
//!
//! [`ManualClock`] and [`ManualExecutor`] put time and backend into the hands of a test: see
//! [`ManualExecutor`] for an example. The example `memory_search` of this workspace shows a whole program.
#![forbid(unsafe_code)]

// What a user brings and chooses.
mod backend;
mod clock;
mod config;
mod error;
mod executor;
mod observer;
// From the caller to the answer.
mod builder;
mod direct;
mod execution;
mod fair_queue;
mod handle;
mod ledger;
mod message;
mod planner;
mod worker;
// What these share.
mod assembly;
mod content;
mod fault;
mod shared;
mod stats;
mod sync;
// Devices and embedders.
mod coalescing;
mod embedder;
mod gate;

pub use embed_core;

pub use backend::{Backend, Cost, RowFault};
pub use builder::Builder;
pub use clock::{Clock, ManualClock, TimerCounts, TokioClock};
pub use coalescing::{Arrays, CoalescingEmbedder, GatedEmbedder};
pub use config::{BatchConfig, Class, ConfigError, RequestOptions};
pub use embedder::{AsInput, EmbeddedRow, EmbedderBackend, OwnedInput};
pub use error::{Error, Resource};
pub use executor::{BlockingPool, Executor, Job, ManualExecutor};
#[cfg(feature = "faults")]
pub use fault::Fault;
pub use gate::{Acquire, DeviceGate, GateGuard, Occupancy, Owner};
pub use handle::{Batcher, IntoItem, Pending};
pub use ledger::Amount;
pub use message::Drained;
pub use observer::{CloseCause, Observation, Observer, Refusal, Route};
pub use stats::Stats;
pub use worker::Worker;
