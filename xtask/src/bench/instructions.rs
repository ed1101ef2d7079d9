//! Instructions for each byte of text, which do not depend on who else uses the machine.
//!
//! Valgrind executes AVX2 and no AVX-512: the count is that of the path which a program takes there.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use super::inputs::{Inputs, Kind};
use super::peers::{Call, Peers};
use super::report::Report;

/// Lines of the corpus that suffice: counts do not vary.
const LINES: &str = "2000";

/// Counts one warm pass: the difference between a process of three passes and one of two.
pub(super) fn count(peers: &Peers, inputs: &Inputs, report: &mut Report) -> Result<()> {
    let Some(corpus) = inputs.english() else {
        return Ok(());
    };
    let mut table = format!(
        "## Instructions\n\nOne warm pass over the first {LINES} lines of {}, by callgrind, which executes AVX2 \
         and no AVX-512.\n\n| model | contender | task | instructions a byte |\n| --- | --- | --- | --- |\n",
        corpus.name
    );
    for kind in [Kind::F32, Kind::Int8Row, Kind::Int8] {
        let Some(model) = inputs.model(kind) else { continue };
        let mut contenders =
            vec![("embed", "bulk"), ("model2vec-rs-flat", "bulk"), ("model2vec-rs-single", "bulk")];
        if kind == Kind::F32 {
            contenders.extend([("embed", "tokenize"), ("tokie", "tokenize")]);
        }
        for (contender, task) in contenders {
            let call =
                Call { contender, task, model: Some(model), corpus: Some(corpus), threads: 1 };
            eprintln!("callgrind: {}", call.name());
            let (fewer, bytes) = collected(peers, &call, 1)?;
            let (more, _) = collected(peers, &call, 2)?;
            let a_byte = (more - fewer) / bytes;
            let _ = writeln!(table, "| {} | {contender} | {task} | {a_byte:.2} |", model.name);
        }
    }
    report.section(table);
    Ok(())
}

/// Instructions of a process with so many passes after its first, and the bytes of a pass.
fn collected(peers: &Peers, call: &Call<'_>, rounds: usize) -> Result<(f64, f64)> {
    let valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let output = peers
        .command(&valgrind, call)
        .args(["--lines", LINES, "--seconds", "1e9", "--rounds", &rounds.to_string()])
        .stderr(Stdio::piped())
        .output()
        .context("starting valgrind")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {messages}", call.name());
    let number = messages.lines().find_map(|line| line.split_once("Collected :"));
    let number = number.context("callgrind tells no count")?.1.trim().parse()?;
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    Ok((number, result["bytes"].as_f64().context("no number of bytes")?))
}
