//! What operators see.

use crate::server::{settings, start};

/// Every series by its name, as the contract has it.
const SERIES: [&str; 20] = [
    "embed_requests_total{model=\"m\",code=\"200\"} 0",
    "embed_texts_total{model=\"m\"} 0",
    "embed_tokens_total{model=\"m\"} 0",
    "embed_rejected_total{reason=\"queue_full\"} 0",
    "embed_cancelled_total{model=\"m\",stage=\"queued\"} 0",
    "embed_request_duration_seconds_count{model=\"m\"} 0",
    "embed_queue_wait_seconds_count{model=\"m\"} 0",
    "embed_tokenize_seconds_count{model=\"m\"} 0",
    "embed_forward_seconds_count{model=\"m\"} 0",
    "embed_batch_texts_count{model=\"m\"} 0",
    "embed_batch_tokens_count{model=\"m\"} 0",
    "embed_batch_close_total{model=\"m\",cause=\"rows\"} 0",
    "embed_queue_texts{model=\"m\"} 0",
    "embed_inflight_batches{model=\"m\"} 0",
    "embed_dedup_saved_texts_total{model=\"m\"} 0",
    "embed_cache_hits_total{model=\"m\"} 0",
    "embed_cache_misses_total{model=\"m\"} 0",
    "embed_backend_panics_total{model=\"m\"} 0",
    "embed_ready 1",
    "embed_build_info{",
];

#[test]
fn every_series_is_there_before_the_first_request() {
    let server = start(settings());
    let page = server.get("/metrics");
    assert!(page.header("content-type").is_some_and(|kind| kind.contains("openmetrics-text")));
    for series in SERIES {
        assert!(page.text().lines().any(|line| line.starts_with(series)), "{series}");
    }
    assert!(page.text().contains("_bucket{le=\"0.000005\""), "{}", page.text());
    assert!(page.text().ends_with("# EOF\n"));
}

#[test]
fn the_documentation_has_every_metric_and_its_labels() {
    use std::collections::BTreeMap;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
    let document = std::fs::read_to_string(path).expect("the documentation");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `embed_"));
    let documented: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            // A counter is called by its samples, as it is in queries, and so is the one of kind `info`.
            let name = ["_total`", "_info`", "`"].iter().find_map(|end| cells[0].strip_suffix(end));
            (format!("embed_{}", name.expect("a name")), cells[1].to_owned())
        })
        .collect();
    let server = start(settings());
    let page = server.get("/metrics");
    let types = page.text().lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeMap<String, String> = types
        .filter_map(|line| line.split_once(' '))
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect();
    assert_eq!(documented, served);
    let labelled = |name: &str, label: &str| {
        page.text().lines().any(|line| line.starts_with(name) && line.contains(label))
    };
    for row in document.lines().filter(|line| line.starts_with("| `embed_")) {
        let quoted: Vec<&str> = row.split('|').nth(3).expect("labels").split('`').collect();
        let name = row.split('`').nth(1).expect("a name");
        for label in quoted.iter().skip(1).step_by(2) {
            assert!(labelled(name, &format!("{label}=")), "{name} has no label {label}");
        }
    }
}

#[test]
fn requests_texts_and_tokens_are_counted() {
    let server = start(settings());
    let answer = server.post("/v1/embeddings", r#"{"model":"alias","input":["abc","de","de"]}"#);
    assert_eq!(answer.status, 200);
    server.post("/v1/embeddings", r#"{"model":"m","input":""}"#).error(400);
    server.post("/v1/embeddings", r#"{"model":"other","input":"a"}"#).error(404);
    let page = server.get("/metrics");
    for series in [
        "embed_requests_total{model=\"m\",code=\"200\"} 1",
        "embed_requests_total{model=\"m\",code=\"400\"} 1",
        "embed_requests_total{model=\"\",code=\"404\"} 1",
        "embed_rejected_total{reason=\"invalid\"} 1",
        "embed_rejected_total{reason=\"model_not_found\"} 1",
        "embed_texts_total{model=\"m\"} 3",
        "embed_tokens_total{model=\"m\"} 7",
        "embed_dedup_saved_texts_total{model=\"m\"} 1",
        "embed_batch_texts_count{model=\"m\"} 1",
    ] {
        assert!(page.text().contains(&format!("{series}\n")), "{series}\n{}", page.text());
    }
    assert!(!page.text().contains("other"), "a name that a client made up is no label");
}

#[test]
fn requests_have_names_and_times() {
    let server = start(settings());
    let headers = [("content-type", "application/json"), ("x-request-id", "mine-1")];
    let answer =
        server.connect().send("POST", "/v1/embeddings", &headers, r#"{"model":"m","input":"a"}"#);
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let timing = answer.header("server-timing").expect("a time");
    let millis: f64 =
        timing.strip_prefix("total;dur=").expect("the total").parse().expect("a number");
    assert!((0.0..5000.0).contains(&millis), "{timing}");
    assert!(server.get("/nope").header("x-request-id").is_some());
}

#[test]
fn the_api_describes_itself() {
    let server = start(settings());
    let openapi = server.get("/openapi.json").json();
    for path in ["/v1/embeddings", "/v1/models", "/api/embed", "/embed", "/tokenize", "/healthz"] {
        assert!(openapi["paths"][path].is_object(), "{path}");
    }
    assert!(server.get("/docs").text().contains("<!doctype html>"));
    let off = start(embed_server::Settings { docs: false, ..settings() });
    off.get("/docs").error(404);
    off.get("/openapi.json").error(404);
    let models = server.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "m");
    assert_eq!(models["data"][1]["id"], "alias");
    assert_eq!(server.get("/v1/models/alias").json()["id"], "alias");
}
