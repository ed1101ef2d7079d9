//! What is too much, and that the server is none the worse for it.

use std::time::Duration;

use embed_server::Settings;
use serde_json::json;

use crate::server::{Running, settings, start};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A body of exactly `bytes`.
fn body_of(bytes: usize) -> String {
    let empty = r#"{"model":"m","input":"a","x":""}"#;
    empty.replace(r#""x":"""#, &format!(r#""x":"{}""#, "x".repeat(bytes - empty.len())))
}

#[test]
fn a_body_may_have_so_many_bytes_and_no_more() {
    let server = start(Settings { body_bytes: 1000, ..settings() });
    assert_eq!(server.post("/v1/embeddings", &body_of(1000)).status, 200);
    let answer = server.post("/v1/embeddings", &body_of(1001));
    let error = answer.error(413);
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("1000") && message.contains("body_bytes"), "{message}");
    // What is announced is not waited for.
    let mut connection = server.connect();
    connection
        .write(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n");
    connection.answer().error(413);
    // What is not announced is read as far as the limit.
    let mut connection = server.connect();
    connection
        .write(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    for _ in 0..3 {
        connection.write(format!("190\r\n{}\r\n", " ".repeat(400)).as_bytes());
    }
    connection.answer().error(413);
}

#[test]
fn an_answer_is_read_even_by_who_still_sends() {
    let server = start(Settings { body_bytes: 1000, ..settings() });
    for _ in 0..20 {
        let mut connection = server.connect();
        connection
            .write(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000000\r\n\r\n");
        connection.write(&vec![b' '; 5_000_000]);
        connection.answer().error(413);
    }
}

#[test]
fn who_expects_to_be_told_to_continue_is_told_or_refused() {
    let server = start(Settings { body_bytes: 1000, ..settings() });
    let head = |length: usize| {
        format!(
            "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let mut connection = server.connect();
    connection.write(head(5000).as_bytes());
    connection.answer().error(413);
    let mut connection = server.connect();
    let body = body_of(500);
    connection.write(head(body.len()).as_bytes());
    connection.write(body.as_bytes());
    assert_eq!(connection.answer().status, 200);
}

#[test]
fn inputs_texts_tokens_and_depth_are_limited() {
    let limits = Settings {
        max_inputs: 3,
        max_text_chars: 10,
        max_request_tokens: 25,
        json_depth: 4,
        ..settings()
    };
    let server = start(limits);
    let ask = |input: serde_json::Value| {
        server.post("/v1/embeddings", &json!({"model": "m", "input": input}).to_string())
    };
    assert_eq!(ask(json!(["a", "b", "c"])).status, 200);
    let error = ask(json!(["a", "b", "c", "d"])).error(400);
    assert!(error["message"].as_str().expect("text").contains("max_inputs"), "{error}");
    assert_eq!(ask(json!("é".repeat(10))).status, 200);
    let error = ask(json!(["a", "é".repeat(11)])).error(400);
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("`input[1]`") && message.contains("max_text_chars"), "{message}");
    let long = json!({"inputs": {"source_sentence": "é".repeat(11), "sentences": ["a"]}});
    let error = server.post("/similarity", &long.to_string()).error(400);
    assert_eq!(error["param"], "inputs.source_sentence");
    assert_eq!(ask(json!(["é".repeat(10), "a".repeat(5)])).status, 200);
    let error = ask(json!(["é".repeat(10), "a".repeat(6)])).error(400);
    assert!(error["message"].as_str().expect("text").contains("max_request_tokens"), "{error}");
    let nested = |depth: usize| {
        // The body itself is the first level.
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        let body = format!(r#"{{"model":"m","input":"a","x":{open}{close}}}"#);
        server.post("/v1/embeddings", &body)
    };
    assert_eq!(nested(4).status, 200);
    let error = nested(5).error(400);
    assert!(error["message"].as_str().expect("text").contains("json_depth"), "{error}");
    nested(100_000).error(400);
}

/// Keeps the one slot of the model busy.
fn occupy(server: &Running) -> crate::client::Connection {
    let mut connection = server.connect();
    post_and_leave(&mut connection, r#"{"model":"m","input":"wait"}"#);
    until(server, "embed_inflight_batches", 1);
    connection
}

fn post_and_leave(connection: &mut crate::client::Connection, body: &str) {
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\n{}: {}\r\ncontent-length: {}\r\n\r\n{body}",
        JSON.0,
        JSON.1,
        body.len()
    );
    connection.write(head.as_bytes());
}

/// Waits until a gauge of the model has a value.
fn until(server: &Running, gauge: &str, value: u64) {
    let line = format!("{gauge}{{model=\"m\"}} {value}\n");
    let mut connection = server.connect();
    // Each round is a request, so that this gives up after a minute or so.
    for _ in 0..100_000 {
        if connection.send("GET", "/metrics", &[], "").text().contains(&line) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{gauge} is not {value}:\n{}", server.get("/metrics").text());
}

/// One call at a time, none on the thread of the request, and room for eight texts.
fn narrow() -> Settings {
    Settings {
        threads: std::num::NonZeroUsize::new(1),
        inline_bytes: 0,
        queue_texts: 8,
        queue_reserve: 4,
        bulk_texts: 2,
        ..settings()
    }
}

#[test]
fn a_full_queue_is_429_with_a_time_to_come_back() {
    let server = start(narrow());
    let mut busy = occupy(&server);
    let mut waiting = Vec::new();
    for count in 1..=8 {
        let mut connection = server.connect();
        post_and_leave(&mut connection, &format!(r#"{{"model":"m","input":"{count}"}}"#));
        until(&server, "embed_queue_texts", count);
        waiting.push(connection);
    }
    let answer = server.post("/v1/embeddings", r#"{"model":"m","input":"a"}"#);
    assert_eq!(answer.error(429)["type"], "rate_limit_error");
    for header in ["retry-after", "retry-after-ms"] {
        let wait: u64 = answer.header(header).expect(header).parse().expect("a number");
        assert!(wait >= 1, "{header}: {wait}");
    }
    server.door.open();
    assert_eq!(busy.answer().status, 200);
    assert!(waiting.iter_mut().all(|connection| connection.answer().status == 200));
    until(&server, "embed_queue_texts", 0);
}

#[test]
fn a_failure_reaches_nobody_else_in_the_batch() {
    for text in ["panic!", "nan!"] {
        let server = start(narrow());
        let mut busy = occupy(&server);
        let mut waiting = Vec::new();
        for (count, text) in (1..).zip(["1", "2", text, "4", "5"]) {
            let mut connection = server.connect();
            post_and_leave(&mut connection, &format!(r#"{{"model":"m","input":"{text}"}}"#));
            until(&server, "embed_queue_texts", count);
            waiting.push(connection);
        }
        server.door.open();
        assert_eq!(busy.answer().status, 200);
        let found: Vec<u16> = waiting.iter_mut().map(|waiting| waiting.answer().status).collect();
        assert_eq!(found, [200, 200, 500, 200, 200], "{text}");
    }
}

#[test]
fn large_requests_leave_room_for_small_ones() {
    let server = start(narrow());
    let mut busy = occupy(&server);
    let large = r#"{"model":"m","input":["1","2","3","4"]}"#;
    let mut first = server.connect();
    post_and_leave(&mut first, large);
    until(&server, "embed_queue_texts", 4);
    server.post("/v1/embeddings", r#"{"model":"m","input":["5","6","7"]}"#).error(429);
    let mut small = server.connect();
    post_and_leave(&mut small, r#"{"model":"m","input":["8","9"]}"#);
    until(&server, "embed_queue_texts", 6);
    server.door.open();
    assert_eq!(busy.answer().status, 200);
    assert_eq!(small.answer().status, 200);
    assert_eq!(first.answer().status, 200);
    assert_eq!(server.post("/v1/embeddings", large).status, 200, "its share came back");
}

#[test]
fn a_deadline_counts_the_work_that_goes_before_and_no_other() {
    let few = Settings { inline_bytes: 4096, batch_texts: 1, queue_texts: 16, ..narrow() };
    let server = start(few);
    // The first is with the model, the others wait: eight seconds of work, by the first guess of a rate.
    let mut texts = vec!["y".repeat(1_000_000); 9];
    texts[0] = "wait".repeat(2000);
    let mut flood = server.connect();
    post_and_leave(&mut flood, &json!({"model": "m", "input": texts}).to_string());
    until(&server, "embed_queue_texts", 8);
    let ask = |headers: &[(&str, &str)]| {
        let headers = [&[JSON, ("x-embed-deadline-ms", "5000")], headers].concat();
        server.connect().send("POST", "/v1/embeddings", &headers, r#"{"model":"m","input":"a"}"#)
    };
    let late = ask(&[("x-embed-priority", "bulk")]);
    let message = late.error(429)["message"].to_string();
    assert!(message.contains("8s of work waits"), "{message}");
    let wait: u64 = late.header("retry-after").expect("it").parse().expect("a number");
    assert!((5..=60).contains(&wait), "{wait}");
    // It passes all of that.
    assert_eq!(ask(&[]).status, 200);
    server.door.open();
    assert_eq!(flood.answer().status, 200);
}

#[test]
fn who_goes_away_takes_the_texts_along() {
    let server = start(narrow());
    let mut busy = occupy(&server);
    for _ in 0..5 {
        let mut leaving = server.connect();
        post_and_leave(&mut leaving, r#"{"model":"m","input":["panic!","2","3"]}"#);
        until(&server, "embed_queue_texts", 3);
        drop(leaving);
        until(&server, "embed_queue_texts", 0);
    }
    server.door.open();
    assert_eq!(busy.answer().status, 200);
    let metrics = server.get("/metrics");
    let cancelled = "embed_cancelled_total{model=\"m\",stage=\"queued\"} 15\n";
    assert!(metrics.text().contains(cancelled), "{}", metrics.text());
    assert!(metrics.text().contains("embed_backend_panics_total{model=\"m\"} 0\n"));
}

#[test]
fn bodies_and_rows_have_budgets_of_their_own() {
    // Of rows of four numbers, three fit.
    let server = start(Settings { row_bytes_in_flight: 48, ..narrow() });
    let ask = |texts: usize| {
        server.post("/v1/embeddings", &json!({"model": "m", "input": vec!["a"; texts]}).to_string())
    };
    for (texts, setting) in [(4, "row_bytes_in_flight"), (5, "queue_reserve")] {
        let error = ask(texts).error(400);
        assert!(error["message"].as_str().expect("text").contains(setting), "{error}");
    }
    let mut busy = occupy(&server);
    let mut waiting = server.connect();
    post_and_leave(&mut waiting, r#"{"model":"m","input":["1","2"]}"#);
    until(&server, "embed_queue_texts", 2);
    assert_eq!(ask(1).error(429)["type"], "rate_limit_error");
    server.door.open();
    assert_eq!((busy.answer().status, waiting.answer().status), (200, 200));
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let server = start(Settings { max_connections: 2, ..settings() });
    let mut kept: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for connection in &mut kept {
        assert_eq!(connection.send("GET", "/healthz", &[], "").status, 200);
    }
    let mut third = server.connect();
    let answer = third.answer();
    answer.error(503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(third.is_ended());
    drop(kept);
    // Room again, once the server has seen that they are gone.
    let served = (0..200).any(|_| {
        let mut connection = server.connect();
        std::thread::yield_now();
        connection.send("GET", "/healthz", &[], "").status == 200
    });
    assert!(served);
}

#[test]
fn slow_heads_and_idle_connections_are_ended() {
    let times = Settings {
        header_timeout: Duration::from_millis(100),
        keep_alive: Duration::from_millis(300),
        ..settings()
    };
    let server = start(times);
    assert!(server.connect().is_ended(), "nothing sent");
    let mut slow = server.connect();
    slow.write(b"GET /healthz HTTP/1.1\r\nhost: loc");
    assert!(slow.is_ended(), "half a head");
    let mut idle = server.connect();
    assert_eq!(idle.send("GET", "/healthz", &[], "").status, 200);
    assert!(idle.is_ended(), "an idle connection");
    let mut second = server.connect();
    assert_eq!(second.send("GET", "/healthz", &[], "").status, 200);
    second.write(b"GET /healthz HTTP/1.1\r\n");
    assert!(second.is_ended(), "half a second head");
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let server = start(settings());
    for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\u{16}\u{3}\u{1}"]
    {
        let mut connection = server.connect();
        connection.write(garbage.as_bytes());
        connection.end_sending();
        if let Some(answer) = connection.try_answer() {
            assert_eq!(answer.status, 400);
        }
    }
    let mut connection = server.connect();
    let long = "x".repeat(100_000);
    connection.write(format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes());
    assert!(matches!(connection.answer().status, 414 | 431));
    assert_eq!(server.get("/healthz").status, 200);
}
