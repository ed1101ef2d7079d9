//! The tasks, and the clock. Results are JSON objects; seconds are those of the wall.

use std::fs;
use std::io::{self, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::contenders::Contender;
use crate::corpus;

/// What the first row is asked for after a load: work that was put off until then counts as loading.
const FIRST_TEXT: &str = "a first query, to see that the model is ready";

/// How often to measure.
pub struct Plan {
    pub rounds: usize,
    pub seconds: f64,
    pub wait: bool,
}

impl Plan {
    /// Seconds of the first pass, and of each pass after it.
    fn passes(&self, mut pass: impl FnMut() -> Result<()>) -> Result<(f64, Vec<f64>)> {
        let mut timed = || {
            let started = Instant::now();
            pass()?;
            Ok::<_, anyhow::Error>(started.elapsed().as_secs_f64())
        };
        let first = timed()?;
        if self.wait {
            println!("ready");
            io::stdout().flush()?;
            io::stdin().read_line(&mut String::new())?;
        }
        let mut warm = vec![timed()?];
        while warm.len() < self.rounds && warm.iter().sum::<f64>() < self.seconds {
            warm.push(timed()?);
        }
        Ok((first, warm))
    }
}

fn bytes(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// All texts to rows.
pub fn bulk(contender: &mut dyn Contender, texts: &[String], plan: &Plan) -> Result<Value> {
    let (first, warm) = plan.passes(|| contender.embed_all(texts))?;
    Ok(
        json!({ "bytes": bytes(texts), "texts": texts.len(), "first_seconds": first, "seconds": warm }),
    )
}

/// All texts to ids. The number of ids is told, so that a contender that does less is noticed.
pub fn tokenize(contender: &mut dyn Contender, texts: &[String], plan: &Plan) -> Result<Value> {
    let mut ids = 0;
    let (first, warm) = plan.passes(|| {
        ids = contender.tokenize_all(texts)?;
        Ok(())
    })?;
    Ok(json!({
        "bytes": bytes(texts),
        "texts": texts.len(),
        "ids": ids,
        "first_seconds": first,
        "seconds": warm,
    }))
}

/// Each query alone, with the clock read around it: `clock_ns` is what that costs.
pub fn query(contender: &mut dyn Contender, texts: &[String], plan: &Plan) -> Result<Value> {
    let queries = corpus::queries(texts);
    let mut nanoseconds = Vec::new();
    let (first, _) = plan.passes(|| {
        for query in &queries {
            let started = Instant::now();
            contender.embed_one(query)?;
            nanoseconds.push(started.elapsed().as_nanos());
        }
        Ok(())
    })?;
    let mut clock: Vec<u128> = (0..corpus::QUERIES)
        .map(|_| {
            let started = Instant::now();
            started.elapsed().as_nanos()
        })
        .collect();
    let mut warm = nanoseconds.split_off(corpus::QUERIES);
    Ok(json!({
        "bytes": bytes(&queries),
        "texts": queries.len(),
        "first_seconds": first,
        "p50_ns": rank(&mut warm, 50) as u64,
        "p99_ns": rank(&mut warm, 99) as u64,
        "clock_ns": rank(&mut clock, 50) as u64,
    }))
}

/// The value below which so many in a hundred lie.
fn rank(values: &mut [u128], percent: usize) -> u128 {
    values.sort_unstable();
    values[(values.len() - 1) * percent / 100]
}

/// From nothing to a model that has given a row, once: the process is fresh, the files are in the
/// system's cache or not, as the caller left them.
pub fn load(load: impl FnOnce() -> Result<Box<dyn Contender>>) -> Result<Value> {
    let before = resident_bytes()?;
    let started = Instant::now();
    let mut contender = load()?;
    let loaded = started.elapsed().as_secs_f64();
    contender.embed_one(FIRST_TEXT)?;
    let ready = started.elapsed().as_secs_f64();
    Ok(json!({
        "load_seconds": loaded,
        "ready_seconds": ready,
        "resident_bytes_before": before,
        "resident_bytes": resident_bytes()?,
    }))
}

/// Memory of this process that is in RAM, pages of mapped files included.
fn resident_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("only Linux tells this")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024)
}

/// Each text to a row, nothing cut.
pub fn unlimited(contender: &mut dyn Contender, texts: &[String], plan: &Plan) -> Result<Value> {
    let (first, warm) =
        plan.passes(|| texts.iter().try_for_each(|text| contender.embed_unlimited(text)))?;
    Ok(
        json!({ "bytes": bytes(texts), "texts": texts.len(), "first_seconds": first, "seconds": warm }),
    )
}

/// Each unkind text, whole, in one piece: the best pass counts, since what disturbs a pass is not its
/// text.
pub fn adversarial(contender: &mut dyn Contender, texts: &[String], plan: &Plan) -> Result<Value> {
    let mut cases = Vec::new();
    for (name, text) in corpus::unkind(texts) {
        let (first, warm) = plan.passes(|| contender.embed_unlimited(&text))?;
        let best = warm.into_iter().fold(f64::INFINITY, f64::min);
        cases.push(json!({
            "name": name,
            "bytes": text.len(),
            "first_seconds": first,
            "best_seconds": best,
        }));
    }
    Ok(json!({ "cases": cases }))
}
