//! Tests across crates, in one binary.

mod fixture;
mod forwards;
mod golden;
mod invariance;
mod malformed;
mod pipeline;
mod threads;
