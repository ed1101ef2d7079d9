//! The batcher in a world of its own: virtual time, a scripted backend, hand-polled futures.
//!
//! A case is a [`Setup`] and a list of [`Op`]s. [`World`] plays it against the real handle, worker,
//! planner and gate, on one thread, and writes down everything that can be seen from outside: a
//! [`Trace`]. The checks replay the trace beside a simple model and report which [`Invariant`] does not
//! hold, if any. Nothing here knows how the batcher is built; what it must do stands in
//! [`Invariant::statement`].
//!
//! [`explore`] runs random cases, with or without one of the batcher's deliberate faults.

mod checks;
mod endurance;
mod explore;
mod invariant;
mod metamorphic;
mod model;
mod op;
mod script;
mod trace;
mod world;

pub use checks::{Violation, check};
pub use endurance::endure;
pub use explore::{Report, explore};
pub use invariant::Invariant;
pub use op::{Op, Setup, Text};
pub use script::{Call, Outcome, ScriptError, ScriptRow, ScriptedBackend, row_of};
pub use trace::{Counts, Event, Moment, Request, Trace};
pub use world::World;
