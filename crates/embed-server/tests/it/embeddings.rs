//! `POST /v1/embeddings`: what a good request gets.

use base64::Engine as _;
use embed_server::{EmptyInput, Settings, TokenIds};
use serde_json::json;

use crate::client::Answer;
use crate::model::row;
use crate::server::{settings, start};

/// The rows of an answer, which are in order and have their index.
#[track_caller]
pub(crate) fn rows(answer: &Answer) -> Vec<Vec<f32>> {
    let body = answer.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("list"), &json!("m")));
    let data = body["data"].as_array().expect("an array");
    let row = |(index, row): (usize, &serde_json::Value)| {
        assert_eq!((&row["object"], &row["index"]), (&json!("embedding"), &json!(index)));
        let numbers = row["embedding"].as_array().expect("numbers");
        numbers.iter().map(|number| number.to_string().parse().expect("a number")).collect()
    };
    data.iter().enumerate().map(row).collect()
}

#[test]
fn rows_come_in_the_order_of_the_texts() {
    let server = start(settings());
    let texts: Vec<String> = (0..300).map(|number| format!("text {number}")).collect();
    let body = json!({"model": "m", "input": texts}).to_string();
    for path in ["/v1/embeddings", "/embeddings"] {
        let answer = server.post(path, &body);
        let expected: Vec<Vec<f32>> = texts.iter().map(|text| row(text).to_vec()).collect();
        assert_eq!(rows(&answer), expected);
        let tokens: usize = texts.iter().map(String::len).sum();
        let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
        assert_eq!(answer.json()["usage"], usage);
    }
}

#[test]
fn a_text_alone_null_fields_and_fields_of_others_are_taken() {
    let server = start(settings());
    let body = r#"{"input":"a\u00e9","model":"alias","encoding_format":null,"dimensions":null,
        "user":null,"truncate":null,"stream":{"a":[1,{"b":null}]},"extra":-1.5e3}"#;
    assert_eq!(rows(&server.post("/v1/embeddings", body)), [row("aé")]);
}

#[test]
fn base64_holds_the_same_bits() {
    let server = start(settings());
    let body = r#"{"input":["a","b"],"model":"m","encoding_format":"base64","user":"u"}"#;
    let answer = server.post("/v1/embeddings", body).json();
    for (index, text) in ["a", "b"].into_iter().enumerate() {
        let text_of_row = answer["data"][index]["embedding"].as_str().expect("a string");
        let bytes = base64::engine::general_purpose::STANDARD.decode(text_of_row).expect("base64");
        let expected: Vec<u8> = row(text).iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes, expected);
    }
}

#[test]
fn dimensions_cut_rows() {
    let server = start(settings());
    let ask = |dimensions| {
        let body = json!({"input": "a", "model": "m", "dimensions": dimensions}).to_string();
        server.post("/v1/embeddings", &body)
    };
    assert_eq!(rows(&ask(1)), [row("a")[..1].to_vec()]);
    assert_eq!(rows(&ask(4)), [row("a").to_vec()]);
    // A whole number, whatever way it is written.
    let answer = server.post("/v1/embeddings", r#"{"input":"a","model":"m","dimensions":0.2e1}"#);
    assert_eq!(rows(&answer), [row("a")[..2].to_vec()]);
    for wrong in [0, 5] {
        assert_eq!(ask(wrong).error(400)["param"], "dimensions");
    }
}

#[test]
fn token_ids_are_taken_as_the_setting_says() {
    let native = start(Settings { token_ids: TokenIds::Native, ..settings() });
    let answer = native.post("/v1/embeddings", r#"{"model":"m","input":[[1,2],[3]]}"#);
    assert_eq!(rows(&answer), [[3.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]]);
    let answer = native.post("/v1/embeddings", r#"{"model":"m","input":[1,256]}"#);
    assert_eq!(answer.error(400)["param"], "input");

    let cl100k = start(settings());
    // "hello world" in cl100k_base.
    let answer = cl100k.post("/v1/embeddings", r#"{"model":"m","input":[15339,1917]}"#);
    assert_eq!(rows(&answer), [row("hello world")]);

    let reject = start(Settings { token_ids: TokenIds::Reject, ..settings() });
    let error = reject.post("/v1/embeddings", r#"{"model":"m","input":[1]}"#).error(400);
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("check_embedding_ctx_length=False"), "{message}");
}

#[test]
fn empty_and_unknown_texts_are_told_apart() {
    let server = start(settings());
    let error = server.post("/v1/embeddings", r#"{"model":"m","input":["a","",""]}"#).error(400);
    assert!(error["message"].as_str().expect("text").contains("input[1]"), "{error}");
    // A text without a known token has a row of zeros, and a header that says so.
    let answer = server.post("/v1/embeddings", r#"{"model":"m","input":["a"," "," "]}"#);
    assert_eq!((answer.status, answer.header("x-embed-zero-rows")), (200, Some("2")));
    let zero = start(Settings { empty_input: EmptyInput::Zero, ..settings() });
    assert_eq!(zero.post("/v1/embeddings", r#"{"model":"m","input":""}"#).status, 200);
}

#[test]
fn long_texts_are_cut_or_refused_as_the_request_says() {
    let server = start(settings());
    let ask = |truncate: &str| {
        let text = "x".repeat(101);
        let body = format!(r#"{{"model":"m","input":["a","{text}"],"truncate":{truncate}}}"#);
        server.post("/v1/embeddings", &body)
    };
    assert_eq!(ask("true").json()["usage"]["total_tokens"], 101);
    assert_eq!(ask("null").json()["usage"]["total_tokens"], 101);
    let error = ask("false").error(400);
    assert!(error["message"].as_str().expect("text").contains("input 1"), "{error}");
}

#[test]
fn a_connection_answers_many_requests_one_after_the_other() {
    let server = start(settings());
    let mut connection = server.connect();
    for number in 0..50 {
        let text = "x".repeat(number + 1);
        let body = json!({"model": "m", "input": text}).to_string();
        assert_eq!(rows(&connection.post("/v1/embeddings", &body)), [row(&text)]);
    }
}
