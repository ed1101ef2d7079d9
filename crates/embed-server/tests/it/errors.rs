//! Every row of the table of errors, on every route.

use std::time::Duration;

use embed_server::{Keys, Settings};

use crate::server::{Running, settings, start, start_with};

/// Routes that take a body, with one that is good.
const POSTS: [(&str, &str); 7] = [
    ("/v1/embeddings", r#"{"model":"m","input":"a"}"#),
    ("/embeddings", r#"{"model":"m","input":"a"}"#),
    ("/api/embed", r#"{"model":"m","input":"a"}"#),
    ("/api/embeddings", r#"{"model":"m","prompt":"a"}"#),
    ("/embed", r#"{"inputs":"a"}"#),
    ("/tokenize", r#"{"inputs":"a"}"#),
    ("/similarity", r#"{"inputs":{"source_sentence":"a","sentences":["b"]}}"#),
];

const GETS: [&str; 10] = [
    "/v1/models",
    "/v1/models/m",
    "/api/tags",
    "/api/version",
    "/info",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
];

/// Routes that need no key.
const OPEN: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"];

#[test]
fn good_requests_are_answered_on_every_route() {
    let server = start(settings());
    for (path, body) in POSTS {
        assert_eq!(server.post(path, body).status, 200, "{path}");
    }
    for path in GETS {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
}

#[test]
fn malformed_bodies_and_wrong_types_are_400() {
    let server = start(settings());
    for (path, good) in POSTS {
        let truncated = &good[..good.len() - 1];
        for body in ["", "{", "[]", "1", "null", "\"a\"", "{\"input\":\"\\ud800\"}", truncated] {
            assert_eq!(
                server.post(path, body).error(400)["type"],
                "invalid_request_error",
                "{path}"
            );
        }
    }
    for (body, param) in [
        (r#"{"model":"m"}"#, "input"),
        (r#"{"model":"m","input":null}"#, "input"),
        (r#"{"input":"a"}"#, "model"),
        (r#"{"model":7,"input":"a"}"#, "model"),
        (r#"{"model":"m","input":[]}"#, "input"),
        (r#"{"model":"m","input":{}}"#, "input"),
        (r#"{"model":"m","input":1}"#, "input"),
        (r#"{"model":"m","input":[1.5]}"#, "input"),
        (r#"{"model":"m","input":[-1]}"#, "input"),
        (r#"{"model":"m","input":[4294967296]}"#, "input"),
        (r#"{"model":"m","input":["a",1]}"#, "input"),
        (r#"{"model":"m","input":["a",null]}"#, "input"),
        (r#"{"model":"m","input":[[1],["a"]]}"#, "input"),
        (r#"{"model":"m","input":[[[1]]]}"#, "input"),
        (r#"{"model":"m","input":"a","encoding_format":"hex"}"#, "encoding_format"),
        (r#"{"model":"m","input":"a","encoding_format":1}"#, "encoding_format"),
        (r#"{"model":"m","input":"a","dimensions":"8"}"#, "dimensions"),
        (r#"{"model":"m","input":"a","dimensions":-1}"#, "dimensions"),
        (r#"{"model":"m","input":"a","dimensions":1.5}"#, "dimensions"),
        (r#"{"model":"m","input":"a","dimensions":-1.0}"#, "dimensions"),
        (r#"{"model":"m","input":"a","dimensions":1e300}"#, "dimensions"),
        (r#"{"model":"m","input":[[1,1e10]]}"#, "input"),
        (r#"{"model":"m","input":"a","dimensions":9007199254740993}"#, "dimensions"),
        (r#"{"model":"m","input":"a","truncate":"yes"}"#, "truncate"),
        (r#"{"model":"m","input":"a","user":[]}"#, "user"),
    ] {
        assert_eq!(server.post("/v1/embeddings", body).error(400)["param"], param, "{body}");
    }
}

#[test]
fn no_error_repeats_what_was_sent() {
    let server = start(settings());
    let (secret, number) = ("the secret text", "1234567");
    for (path, good) in POSTS {
        for body in [
            format!("\"{secret}\""),
            number.to_owned(),
            format!("[\"{secret}\"]"),
            format!("{{\"{secret}\":}}"),
            format!("{{\"model\":[\"{secret}\"]}}"),
            format!("{{\"encoding_format\":\"{secret}\",\"model\":\"m\",\"input\":\"a\"}}"),
            good.replace("\"a\"", &format!("{{\"{secret}\":{number}}}")),
            good.replace("\"a\"", &format!("\"{secret}")),
        ] {
            let answer = server.post(path, &body);
            let shown = answer.text();
            if answer.status != 200 {
                assert!(
                    !shown.contains(secret) && !shown.contains(number),
                    "{path} {body}: {shown}"
                );
            }
        }
    }
}

#[test]
fn a_request_names_one_host() {
    let server = start(settings());
    for hosts in ["", "host: localhost\r\nhost: evil.example\r\n"] {
        let mut connection = server.connect();
        connection.write(format!("GET /v1/models HTTP/1.1\r\n{hosts}\r\n").as_bytes());
        connection.answer().error(400);
    }
}

#[test]
fn a_page_of_another_origin_does_not_make_the_server_work() {
    let post = |server: &Running, headers: &[(&str, &str)]| {
        server.connect().send("POST", POSTS[0].0, headers, POSTS[0].1)
    };
    let server = start(settings());
    for headers in [[("origin", "https://page.example")], [("sec-fetch-site", "cross-site")]] {
        assert_eq!(post(&server, &headers).error(403)["code"], "origin_not_allowed");
    }
    // Who has a key is no page that was tricked into asking.
    let headers = [("origin", "https://page.example"), ("authorization", "Bearer first")];
    assert_eq!(post(&with_key(), &headers).status, 200);
}

#[test]
fn an_answer_in_front_of_an_unread_body_ends_the_connection() {
    let server = with_key();
    let mut connection = server.connect();
    connection.write(b"POST /embed HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{");
    let answer = connection.answer();
    answer.error(401);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(connection.is_ended());
    let mut connection = server.connect();
    assert_eq!(connection.send("GET", "/v1/models", &[], "").header("connection"), None);
    connection.send("GET", "/v1/models", &[], "").error(401);
}

#[test]
fn the_index_of_what_is_wrong_is_named() {
    let server = start(settings());
    let message = |body: &str| {
        let error = server.post("/v1/embeddings", body).error(400);
        error["message"].as_str().expect("text").to_owned()
    };
    assert!(message(r#"{"model":"m","input":["a",true]}"#).contains("`input[1]`"));
    assert!(message(r#"{"model":"m","input":[[1],[2,-3]]}"#).contains("`input[1]`"));
}

#[test]
fn a_model_that_is_not_served_is_404() {
    let server = start(settings());
    let error = server.post("/v1/embeddings", r#"{"model":"gpt","input":"a"}"#).error(404);
    assert_eq!((&error["code"], &error["param"]), (&"model_not_found".into(), &"model".into()));
    assert!(error["message"].as_str().expect("text").contains("served: m"));
    assert_eq!(server.get("/v1/models/gpt").error(404)["code"], "model_not_found");
    server.get("/v1/models/%ff").error(400);
    server.get("/v1/models/a/b%2fc").error(404);
    server.post("/api/embed", r#"{"model":"gpt","input":"a"}"#).error(404);
    server.post("/api/embeddings", r#"{"model":"gpt","prompt":"a"}"#).error(404);
}

#[test]
fn what_is_no_route_is_404_and_a_wrong_method_405() {
    let server = start(settings());
    server.get("/").error(404);
    server.get("/v1/completions").error(404);
    server.post("/v1/completions", "{}").error(404);
    for (method, path) in [("OPTIONS", "*"), ("CONNECT", "localhost:80"), ("BREW", "/nope")] {
        let answer = server.connect().send(method, path, &[], "");
        assert!(matches!(answer.status, 400 | 404 | 405), "{method}: {}", answer.status);
        if !answer.body.is_empty() {
            answer.error(answer.status);
        }
    }
    for (path, _) in POSTS {
        let answer = server.get(path);
        answer.error(405);
        assert_eq!(answer.header("allow"), Some("POST"), "{path}");
    }
    for path in GETS {
        let answer = server.post(path, "{}");
        answer.error(405);
        assert_eq!(answer.header("allow"), Some("GET,HEAD"), "{path}");
    }
}

#[test]
fn only_uncompressed_json_is_read() {
    let server = start(settings());
    for (path, body) in POSTS {
        let send = |headers: &[(&str, &str)]| server.connect().send("POST", path, headers, body);
        // Ollama's own examples for curl say that their JSON is a form.
        let is_ollama = path.starts_with("/api/");
        for other in ["text/plain", "application/x-www-form-urlencoded"] {
            let answer = send(&[("content-type", other)]);
            assert_eq!(answer.status, if is_ollama { 200 } else { 415 }, "{path} {other}");
        }
        send(&[("content-type", "application/json"), ("content-encoding", "gzip")]).error(415);
        assert_eq!(send(&[("content-type", "application/json; charset=utf-8")]).status, 200);
        assert_eq!(send(&[]).status, 200, "no media type at all is taken for JSON");
    }
}

fn with_key() -> Running {
    let keys = Keys::load(None, Some("first,second")).expect("keys").keys;
    start_with(settings(), keys)
}

#[test]
fn a_key_is_asked_for_where_there_is_one() {
    let server = with_key();
    let send = |method: &str, path: &str, body: &str, key: Option<&str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("authorization", key)));
        server.connect().send(method, path, &headers, body)
    };
    let all = POSTS.iter().map(|&(path, body)| ("POST", path, body));
    let all = all.chain(GETS.iter().map(|&path| ("GET", path, "")));
    for (method, path, body) in all {
        if OPEN.contains(&path) {
            assert_eq!(send(method, path, body, None).status, 200, "{path}");
            continue;
        }
        for wrong in
            [None, Some("Bearer third"), Some("Bearer "), Some("Basic first"), Some("first")]
        {
            let answer = send(method, path, body, wrong);
            assert_eq!(answer.error(401)["code"], "invalid_api_key", "{path} {wrong:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
        for key in ["Bearer first", "bearer second"] {
            assert_eq!(send(method, path, body, Some(key)).status, 200, "{path}");
        }
    }
    // Who has no key learns nothing of routes.
    send("GET", "/nope", "", None).error(401);
}

#[test]
fn metrics_may_ask_for_a_key_too() {
    let keys = Keys::load(None, Some("key")).expect("keys").keys;
    let server = start_with(Settings { metrics_key: true, ..settings() }, keys);
    server.get("/metrics").error(401);
    let headers = [("authorization", "Bearer key")];
    assert_eq!(server.connect().send("GET", "/metrics", &headers, "").status, 200);
}

#[test]
fn a_name_of_another_machine_is_refused() {
    let server = start(Settings { allowed_hosts: vec!["embed.test".into()], ..settings() });
    let get = |host: &str| server.connect().send("GET", "/v1/models", &[("host", host)], "");
    assert_eq!(get("evil.example").error(403)["code"], "host_not_allowed");
    for host in ["localhost", "127.0.0.1:80", "embed.test:8080"] {
        assert_eq!(get(host).status, 200, "{host}");
    }
}

#[test]
fn pages_of_other_origins_read_nothing_unless_listed() {
    let origin = [("origin", "https://page.example")];
    let allows = |server: &Running| {
        let answer = server.connect().send("GET", "/v1/models", &origin, "");
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allows(&start(settings())), None);
    let listed = |listed: &str| Settings { cors_origins: vec![listed.into()], ..settings() };
    assert_eq!(allows(&start(listed("https://other.example"))), None);
    let server = start(listed("https://page.example"));
    assert_eq!(allows(&server), Some("https://page.example".into()));
    let headers = [origin[0], ("access-control-request-method", "POST")];
    let answer = server.connect().send("OPTIONS", "/v1/embeddings", &headers, "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET,POST"));
}

#[test]
fn a_model_that_fails_is_500_and_serves_on() {
    let server = start(settings());
    for text in ["panic!", "nan!", "fail!"] {
        for (path, body) in POSTS.iter().filter(|(path, _)| *path != "/tokenize") {
            let body = body.replace("\"a\"", &format!("\"{text}\""));
            let error = server.post(path, &body).error(500);
            let shown = error.to_string();
            assert!(!shown.contains("secret") && !shown.contains(text), "{path}: {shown}");
            assert_eq!(server.post(path, &body.replace(text, "a")).status, 200, "{path}");
        }
    }
}

#[test]
fn a_deadline_that_passes_is_504() {
    let server = start(settings());
    let mut waiting = server.connect();
    let headers = [("content-type", "application/json"), ("x-embed-deadline-ms", "50")];
    // Too large for the thread that read it, so that it waits elsewhere and its deadline is seen.
    let text = "wait".repeat(2000);
    let body = format!(r#"{{"model":"m","input":"{text}"}}"#);
    let answer = waiting.send("POST", "/v1/embeddings", &headers, &body);
    assert_eq!(answer.error(504)["code"], "deadline_exceeded");
    // The time that the body takes counts, too.
    let mut slow = server.connect();
    slow.write(
        b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\nx-embed-deadline-ms: 1\r\n\
          content-length: 25\r\n\r\n",
    );
    for _ in 0..50 {
        assert_eq!(server.get("/healthz").status, 200);
    }
    slow.write(POSTS[0].1.as_bytes());
    slow.answer().error(504);
    for wrong in ["soon", "+5", "-1", "1.5", ""] {
        let headers = [("content-type", "application/json"), ("x-embed-deadline-ms", wrong)];
        let answer = server.connect().send("POST", "/v1/embeddings", &headers, POSTS[0].1);
        assert_eq!(answer.error(400)["param"], "x-embed-deadline-ms", "{wrong:?}");
    }
    let headers = [("content-type", "application/json"), ("x-embed-priority", "urgent")];
    let answer = server.connect().send("POST", "/v1/embeddings", &headers, POSTS[0].1);
    assert_eq!(answer.error(400)["param"], "x-embed-priority");
}

#[test]
fn a_slow_body_is_408() {
    let server = start(Settings { body_timeout: Duration::from_millis(100), ..settings() });
    for (path, _) in POSTS {
        let mut connection = server.connect();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{{");
        connection.write(head.as_bytes());
        let answer = connection.answer();
        answer.error(408);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(connection.is_ended());
    }
}
