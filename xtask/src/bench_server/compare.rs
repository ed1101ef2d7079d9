//! The contenders beside each other, with the same requests.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::bench::spread::Spread;
use crate::serve::bodies::Format;
use crate::serve::statistics::Sorted;

use super::Plan;
use super::closed::{Load, load};
use super::contenders::Contender;
use super::open::{Arrivals, arrive};
use super::report::Report;

/// Texts of a request, connections, and how rows are written.
type Cell = (usize, usize, Format);

/// What is asked in the closed loop.
const CELLS: &[Cell] = &[
    (1, 1, Format::Float),
    (1, 8, Format::Float),
    (1, 64, Format::Float),
    (1, 64, Format::Base64),
    (32, 1, Format::Float),
    (32, 8, Format::Float),
    (32, 64, Format::Float),
    (256, 1, Format::Float),
    (256, 8, Format::Float),
    (256, 64, Format::Float),
    (256, 8, Format::Base64),
];

/// Shares of what a server can do, at which requests arrive in the open loop.
const SHARES: &[f64] = &[0.5, 0.8];

/// Connections of the open loop.
const CONNECTIONS: usize = 64;

/// Cosines of rows that are the same but for rounding.
const SAME: f64 = 0.999;

/// Ensures that all give the same rows, so that they do the same work.
pub(super) fn answers(contenders: &[Contender]) -> Result<()> {
    let mut expected: Option<Vec<Vec<f64>>> = None;
    for contender in contenders {
        let body = contender.ask(&contender.requests(32, Format::Float)[0])?;
        let body: Value = serde_json::from_slice(&body)?;
        let rows = rows(&body).with_context(|| format!("{}: no rows", contender.name))?;
        let expected = expected.get_or_insert_with(|| rows.clone());
        ensure!(rows.len() == expected.len(), "{}: {} rows", contender.name, rows.len());
        for (index, (row, expected)) in rows.iter().zip(expected.iter()).enumerate() {
            let cosine = cosine(row, expected);
            ensure!(cosine > SAME, "{}: row {index} has a cosine of {cosine}", contender.name);
        }
    }
    Ok(())
}

fn rows(body: &Value) -> Option<Vec<Vec<f64>>> {
    let row = |row: &Value| row["embedding"].as_array()?.iter().map(Value::as_f64).collect();
    body["data"].as_array()?.iter().map(row).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Every cell for every contender.
pub(super) fn closed_loop(contenders: &[Contender], plan: Plan, report: &mut Report) -> Result<()> {
    let mut loads: Vec<Vec<Vec<Load>>> = Vec::new();
    for (texts, connections, format) in CELLS {
        let requests: Vec<_> =
            contenders.iter().map(|contender| contender.requests(*texts, *format)).collect();
        let mut of_cell: Vec<Vec<Load>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 1..=plan.rounds {
            eprintln!(
                "{round}/{}: {texts} texts, {connections} connections, {}",
                plan.rounds,
                format.name()
            );
            for ((contender, requests), loads) in contenders.iter().zip(&requests).zip(&mut of_cell)
            {
                let load = load(&contender.server, requests, *connections, plan.time);
                loads.push(load.with_context(|| contender.name)?);
            }
        }
        loads.push(of_cell);
    }
    let mut text = "## Closed loop\n\nEach connection asks, waits, and asks again. The ratio is that of embed's \
                    requests/s to this server's, within each turn.\n\n\
                    | texts a request | connections | rows as | server | requests/s | texts/s | p50, ms | p99, ms | refused/s | \
                    embed is |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for ((texts, connections, format), of_cell) in CELLS.iter().zip(&loads) {
        let ours = spread(&of_cell[0], |load| load.rate);
        for (index, (contender, loads)) in contenders.iter().zip(of_cell).enumerate() {
            let rate = spread(loads, |load| load.rate);
            let millis = |share: f64| spread(loads, |load| load.latencies.percentile(share) * 1e3);
            let ratio = match index {
                0 => String::new(),
                _ => format!("{:.1}x", ours.over(&rate)),
            };
            let _ = writeln!(
                text,
                "| {texts} | {connections} | {} | {} | {rate:.0} | {:.0} | {:.3} | {:.3} | {:.0} | {ratio} |",
                format.name(),
                contender.name,
                rate.map(|rate| rate * *texts as f64).median(),
                millis(0.5).median(),
                millis(0.99).median(),
                spread(loads, |load| load.refused).median(),
            );
        }
    }
    report.section(text);
    Ok(())
}

fn spread(loads: &[Load], of: impl Fn(&Load) -> f64) -> Spread {
    Spread::new(loads.iter().map(of).collect())
}

/// Single texts at shares of what each server can do.
pub(super) fn open_loop(contenders: &[Contender], plan: Plan, report: &mut Report) -> Result<()> {
    let mut text = format!(
        "## Open loop\n\nSingle texts, rows as float. Requests arrive at times that were chosen before, as those \
         of many independent clients do, and a latency counts from the chosen time. The rate is a share of what \
         the same server did just before in the closed loop of {CONNECTIONS} connections.\n\n\
         | server | share | requests/s | p50, ms | p99, ms | p99.9, ms | sent late, p99, ms |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for contender in contenders {
        let requests = contender.requests(1, Format::Float);
        let mut arrivals: Vec<Vec<(f64, Arrivals)>> = SHARES.iter().map(|_| Vec::new()).collect();
        for round in 1..=plan.rounds {
            eprintln!("{round}/{}: open loop, {}", plan.rounds, contender.name);
            let most = load(&contender.server, &requests, CONNECTIONS, plan.time)?.rate;
            for (share, arrivals) in SHARES.iter().zip(&mut arrivals) {
                let rate = most * share;
                let arrived = arrive(&contender.server, &requests, CONNECTIONS, rate, plan.time)?;
                arrivals.push((rate, arrived));
            }
        }
        for (share, arrivals) in SHARES.iter().zip(&arrivals) {
            let millis = |of: fn(&Arrivals) -> &Sorted, share: f64| {
                let values =
                    arrivals.iter().map(|(_, arrived)| of(arrived).percentile(share) * 1e3);
                Spread::new(values.collect())
            };
            let rates = Spread::new(arrivals.iter().map(|(rate, _)| *rate).collect());
            let _ = writeln!(
                text,
                "| {} | {:.0} % | {rates:.0} | {:.3} | {:.3} | {:.3} | {:.3} |",
                contender.name,
                share * 100.0,
                millis(|arrived| &arrived.latencies, 0.5).median(),
                millis(|arrived| &arrived.latencies, 0.99),
                millis(|arrived| &arrived.latencies, 0.999).median(),
                millis(|arrived| &arrived.late, 0.99).median(),
            );
        }
    }
    report.section(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_those_of_directions() {
        assert!((cosine(&[1.0, 0.0], &[2.0, 0.0]) - 1.0).abs() < 1e-12);
        assert!(cosine(&[1.0, 0.0], &[0.0, 3.0]).abs() < 1e-12);
    }

    #[test]
    fn rows_are_found_in_answers() {
        let body =
            serde_json::json!({ "data": [{ "embedding": [1, 0.5] }, { "embedding": [0, 2] }] });
        assert_eq!(rows(&body), Some(vec![vec![1.0, 0.5], vec![0.0, 2.0]]));
        assert_eq!(rows(&serde_json::json!({ "error": "none" })), None);
    }
}
