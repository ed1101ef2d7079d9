//! Tests of flows that cross crates: see `it/`.
