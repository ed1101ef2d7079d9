//! Tests of flows that cross crates: see `it/`. The examples of the README are compiled and run as
//! documentation tests of this crate:
#![doc = include_str!("../README.md")]
