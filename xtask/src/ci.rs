//! `cargo xtask ci`: every check, in the order in which failures are cheapest.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};

/// How to run the checks.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on after a failed check
    #[arg(long)]
    keep_going: bool,
}

/// One check.
struct Check {
    name: &'static str,
    /// Arguments of cargo, with blanks between them.
    cargo: &'static str,
    /// Value of RUSTDOCFLAGS.
    rustdoc_flags: &'static str,
}

const fn check(name: &'static str, cargo: &'static str) -> Check {
    Check { name, cargo, rustdoc_flags: "" }
}

const CHECKS: &[Check] = &[
    check("formatting", "fmt --all --check"),
    check("lints", "clippy --workspace --all-targets --locked --quiet -- -D warnings"),
    check("core alone", "clippy --locked --quiet -p embed-core -- -D warnings"),
    check(
        "model2vec without features",
        "clippy --locked --quiet -p embed-model2vec --no-default-features -- -D warnings",
    ),
    check(
        "model2vec with default features",
        "clippy --locked --quiet -p embed-model2vec -- -D warnings",
    ),
    check(
        "model2vec with the hub alone",
        "clippy --locked --quiet -p embed-model2vec --no-default-features --features hub -- -D warnings",
    ),
    check(
        "model2vec with the default model alone",
        "clippy --locked --quiet -p embed-model2vec --no-default-features --features default-model -- -D warnings",
    ),
    check("metal", "xtask check-metal"),
    check(
        "model2vec with CUDA alone",
        "clippy --locked --quiet -p embed-model2vec --no-default-features --features cuda -- -D warnings",
    ),
    check(
        "the program with CUDA",
        "clippy --locked --quiet -p embed-cli -p embed-model2vec --features embed-cli/cuda --all-targets -- -D warnings",
    ),
    check(
        "tasks with CUDA",
        "clippy --locked --quiet -p xtask --features cuda --all-targets -- -D warnings",
    ),
    check(
        "batcher with every feature",
        "clippy --locked --quiet -p embed-batcher --all-features --all-targets -- -D warnings",
    ),
    check("batcher alone", "clippy --locked --quiet -p embed-batcher -- -D warnings"),
    Check {
        name: "documentation",
        cargo: "doc --workspace --no-deps --locked --quiet",
        rustdoc_flags: "-D warnings",
    },
    check("formatting of benchmarks", "fmt --manifest-path benches/batcher/Cargo.toml --check"),
    check(
        "benchmarks",
        "check --locked --quiet --manifest-path benches/batcher/Cargo.toml --target-dir target/benches",
    ),
    check("formatting of the comparison", "fmt --manifest-path benches/peers/Cargo.toml --check"),
    check(
        "comparison",
        "check --locked --quiet --manifest-path benches/peers/Cargo.toml --target-dir target/benches",
    ),
    check(
        "formatting of the other servers",
        "fmt --manifest-path benches/servers/Cargo.toml --check",
    ),
    check(
        "other servers",
        "check --locked --quiet --manifest-path benches/servers/Cargo.toml --target-dir target/benches",
    ),
    check("tests", "test --workspace --locked"),
    check(
        "interleavings",
        "test --locked -p embed-batcher --features shuttle --test interleavings",
    ),
];

pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut failed = Vec::new();
    for check in CHECKS {
        println!("== {}: cargo {}", check.name, check.cargo);
        let started = now();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(check.cargo.split_whitespace()).current_dir(workspace_folder());
        if !check.rustdoc_flags.is_empty() {
            cargo.env("RUSTDOCFLAGS", check.rustdoc_flags);
        }
        let status = cargo.status().context("starting cargo")?;
        println!("== {}: {status}, {:.0?}", check.name, started.elapsed());
        if !status.success() {
            failed.push(check.name);
            if !args.keep_going {
                break;
            }
        }
    }
    if !has_cpp20() {
        println!(
            "== not run: the Metal kernels, compiled as C++ and compared with the definition: \
             neither $CXX nor g++, clang++, c++ is a C++20 compiler here"
        );
    }
    if failed.is_empty() {
        println!("== all {} checks passed", CHECKS.len());
    } else {
        println!("== failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

/// Whether the tests of the Metal kernels, which look for a compiler in the same places, have one.
fn has_cpp20() -> bool {
    let usual = ["g++", "clang++", "c++"].map(str::to_owned);
    std::env::var("CXX").into_iter().chain(usual).any(|name| is_cpp20(&name))
}

/// Whether a program compiles an empty file as C++20.
fn is_cpp20(program: &str) -> bool {
    let mut compiler = Command::new(program);
    compiler.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-"]).stdin(Stdio::null());
    compiler.output().is_ok_and(|output| output.status.success())
}

#[expect(clippy::disallowed_methods, reason = "the time is told to the user and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

/// The root of the workspace.
pub(crate) fn workspace_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Where build products go.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_folder().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_compiler_is_none() {
        assert!(!is_cpp20("/nowhere/g++"));
        assert!(!is_cpp20("false"));
    }
}
