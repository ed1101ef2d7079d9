//! A model that panics: the request that made it panic gets 500, and nothing else changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::serve::bodies::{self, EMBEDDINGS, Format, short_texts};
use crate::serve::http::{Failure, once};
use crate::serve::metrics::Metrics;
use crate::serve::programs::first_model;

use super::slowed;

/// The text at which the model panics, unless it is told another.
const PANIC: &str = "panic!";

/// Ordinary clients, and the requests of each.
const CLIENTS: usize = 32;
const REQUESTS: usize = 20;

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(program: &Path, settings: &[String]) -> Result<bool> {
    println!("\n## A model that panics\n");
    let mut server = slowed(program, None, settings)?;
    let (address, model) = (server.address, first_model(server.address)?);
    let request = |texts: &[String]| {
        bodies::post(address, EMBEDDINGS, &bodies::embeddings(&model, texts, Format::Float))
    };
    let bad = request(&[PANIC.to_owned()]);
    let among = request(&["before".to_owned(), PANIC.to_owned(), "after".to_owned()]);
    let good: Vec<Vec<u8>> = short_texts(CLIENTS * REQUESTS, 1).chunks(1).map(request).collect();
    let mut faults = Vec::new();
    let (bad_answers, good_answers) = thread::scope(|scope| -> Result<_> {
        let clients: Vec<_> = good
            .chunks(REQUESTS)
            .map(|requests| {
                scope.spawn(|| {
                    requests
                        .iter()
                        .map(|request| once(address, request, PATIENCE))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut bad_answers = Vec::new();
        for request in [&bad, &among, &bad] {
            bad_answers.push(once(address, request, PATIENCE));
        }
        let mut good_answers = Vec::new();
        for client in clients {
            good_answers.extend(client.join().ok().context("a client panicked")?);
        }
        Ok((bad_answers, good_answers))
    })?;
    for answer in &bad_answers {
        faults.extend(fault_of_bad(answer.as_ref()));
    }
    let wrong = good_answers.iter().filter(|answer| !matches!(answer, Ok((200, _)))).count();
    if wrong > 0 {
        faults.push(format!("{wrong} other requests were not answered with 200"));
    }
    if !matches!(once(address, &good[0], PATIENCE), Ok((200, _))) {
        faults.push("no text is served afterwards".to_owned());
    }
    let metrics = Metrics::read(address)?;
    let panics = metrics.sum("embed_backend_panics_total", "").unwrap_or(0.0);
    if panics < 3.0 {
        faults.push(format!("{panics} panics were counted"));
    }
    for gauge in ["embed_queue_texts", "embed_inflight_batches"] {
        if metrics.sum(gauge, "") != Some(0.0) {
            faults.push(format!("{gauge} is {:?}", metrics.sum(gauge, "")));
        }
    }
    if metrics.sum("embed_ready", "") != Some(1.0) {
        faults.push("the server is not ready afterwards".to_owned());
    }
    server.terminate()?;
    let status = server.wait()?;
    if !status.success() {
        faults.push(format!("{status}"));
    }
    println!(
        "| requests with a panic | others at the same time | panics counted | exit | verdict |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let statuses: Vec<String> = bad_answers.iter().map(name).collect();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for answer in &good_answers {
        *others.entry(name(answer)).or_default() += 1;
    }
    let others: Vec<String> =
        others.iter().map(|(name, count)| format!("{name} x {count}")).collect();
    println!(
        "| {} | {} | {panics} | {status} | {} |",
        statuses.join(", "),
        others.join(", "),
        if faults.is_empty() { "passed".to_owned() } else { format!("**{}**", faults.join("; ")) },
    );
    Ok(faults.is_empty())
}

fn name(answer: &Result<(u16, Vec<u8>), Failure>) -> String {
    match answer {
        Ok((status, _)) => status.to_string(),
        Err(failure) => failure.to_string(),
    }
}

/// The answer to a request with a panic must be 500 in the format of the API, without the text.
fn fault_of_bad(answer: Result<&(u16, Vec<u8>), &Failure>) -> Option<String> {
    match answer {
        Err(failure) => Some(format!("a request with a panic: {failure}")),
        Ok((500, body)) => {
            let text = String::from_utf8_lossy(body);
            let error = serde_json::from_str::<Value>(&text).unwrap_or_default();
            let in_format =
                error["error"]["message"].is_string() && error["error"]["type"].is_string();
            if text.contains(PANIC) {
                Some("the error repeats the text".to_owned())
            } else {
                (!in_format).then(|| "the error is not in the format of the API".to_owned())
            }
        }
        Ok((status, _)) => Some(format!("a request with a panic: status {status}")),
    }
}
