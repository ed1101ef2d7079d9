//! The end of a server: nobody who was let in is thrown out.

use std::time::Duration;

use embed_server::{Ended, Settings};

use crate::server::{settings, start};

const WAITS: &str = r#"{"model":"m","input":"wait"}"#;

/// Nothing on the thread of the request, so that a request that waits leaves the others alone.
fn queued() -> Settings {
    Settings { inline_bytes: 0, ..settings() }
}

fn send_waiting(connection: &mut crate::client::Connection) {
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{WAITS}",
        WAITS.len()
    );
    connection.write(head.as_bytes());
}

#[test]
fn admitted_work_is_finished_and_new_work_refused() {
    let mut server = start(queued());
    let mut waiting = server.connect();
    send_waiting(&mut waiting);
    let mut idle = server.connect();
    assert_eq!(idle.send("GET", "/readyz", &[], "").status, 200);
    while !server.get("/metrics").text().contains("embed_inflight_batches{model=\"m\"} 1\n") {}
    server.stop();
    // Readiness falls, and the server still says so.
    while server.get("/readyz").status != 503 {}
    assert_eq!(server.get("/healthz").status, 200);
    assert!(server.get("/metrics").text().contains("embed_ready 0\n"));
    for mut connection in [server.connect(), idle] {
        let answer = connection.post("/v1/embeddings", r#"{"model":"m","input":"a"}"#);
        answer.error(503);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(answer.header("retry-after").is_some());
        assert!(connection.is_ended());
    }
    server.door.open();
    let answer = waiting.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(waiting.is_ended());
    assert_eq!(server.end(), Ended { abandoned: 0 });
}

#[test]
fn a_long_answer_is_sent_whole_while_the_server_ends() {
    let mut server = start(queued());
    let texts = vec!["a"; 2048];
    // Nearly half a megabyte: more than the connection holds ahead.
    let body = serde_json::json!({"model": "m", "input": texts}).to_string();
    let mut reader = server.connect();
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    reader.write(head.as_bytes());
    while !server.get("/metrics").text().contains("embed_texts_total{model=\"m\"} 2048\n") {}
    let mut silent = server.connect();
    assert_eq!(silent.send("GET", "/healthz", &[], "").status, 200);
    server.stop();
    // Longer than an idle connection is kept.
    assert!(silent.is_ended(), "a connection that asks for nothing");
    let rows = crate::embeddings::rows(&reader.answer());
    assert_eq!(rows.len(), 2048);
    assert_eq!(server.end(), Ended { abandoned: 0 });
}

#[test]
fn a_connection_that_says_nothing_does_not_hold_the_server() {
    let server = start(Settings { header_timeout: Duration::from_hours(1), ..queued() });
    let _silent = server.connect();
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.end(), Ended { abandoned: 0 });
}

#[test]
fn an_idle_connection_is_closed_in_order_and_does_not_hold_the_server() {
    let server = start(queued());
    let mut idle = server.connect();
    assert_eq!(idle.send("GET", "/healthz", &[], "").status, 200);
    let waiter = std::thread::spawn(move || assert!(idle.try_answer().is_none()));
    assert_eq!(server.end(), Ended { abandoned: 0 });
    waiter.join().expect("closed without a reset");
}

#[test]
fn work_that_takes_longer_than_the_drain_is_cut_off() {
    let mut server = start(Settings { drain: Duration::from_millis(200), ..queued() });
    let mut waiting = server.connect();
    send_waiting(&mut waiting);
    while !server.get("/metrics").text().contains("embed_inflight_batches{model=\"m\"} 1\n") {}
    server.stop();
    // The caller is told; the model is still at it.
    waiting.answer().error(503);
    server.door.open();
    server.end();
}

#[test]
fn a_server_without_clients_ends_at_once() {
    let server = start(Settings { drain: Duration::from_hours(1), ..queued() });
    assert_eq!(server.end(), Ended { abandoned: 0 });
}
