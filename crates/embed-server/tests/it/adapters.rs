//! The routes of Ollama and of TEI.

use serde_json::json;

use crate::model::{DIM, row};
use crate::server::{settings, start};

/// The numbers of a row.
fn numbers(row: &serde_json::Value) -> Vec<f32> {
    let numbers = row.as_array().expect("a row").iter();
    numbers.map(|number| number.to_string().parse().expect("a number")).collect()
}

#[test]
fn ollama_gets_rows_under_its_own_names() {
    let server = start(settings());
    let answer = server.post("/api/embed", r#"{"model":"m:latest","input":["a","b"]}"#).json();
    assert_eq!(answer["embeddings"].as_array().expect("rows").len(), 2);
    assert_eq!(numbers(&answer["embeddings"][0]), row("a"));
    assert_eq!((&answer["model"], &answer["prompt_eval_count"]), (&json!("m"), &json!(2)));
    assert!(answer["total_duration"].as_u64() > Some(0));
    let body = r#"{"model":"m","input":"a","truncate":true,"keep_alive":"5m","options":{},"dimensions":2}"#;
    let answer = server.post("/api/embed", body).json();
    assert_eq!(numbers(&answer["embeddings"][0]), row("a")[..2]);
    let answer = server.post("/api/embeddings", r#"{"model":"m","prompt":"a"}"#).json();
    assert_eq!(numbers(&answer["embedding"]), row("a"));
    server.post("/api/embeddings", r#"{"model":"m","prompt":["a","b"]}"#).error(400);
    // A tag is added or left out as the client likes.
    for name in ["m", "m:latest", "alias:latest"] {
        let body = json!({"model": name, "input": "a"}).to_string();
        assert_eq!(server.post("/api/embed", &body).status, 200, "{name}");
    }
    server.post("/api/embed", r#"{"model":"m:other","input":"a"}"#).error(404);
    let tags = server.get("/api/tags").json();
    assert_eq!(tags["models"][0]["name"], "m");
    assert_eq!(tags["models"][1]["name"], "alias");
    assert!(server.get("/api/version").json()["version"].is_string());
}

#[test]
fn tei_gets_plain_arrays() {
    let server = start(settings());
    let answer = server.post("/embed", r#"{"inputs":["a","b"],"normalize":false}"#).json();
    assert_eq!(answer.as_array().expect("rows").len(), 2);
    assert_eq!(numbers(&answer[1]), row("b"));
    let long = "x".repeat(101);
    let error =
        server.post("/embed", &format!(r#"{{"inputs":"{long}","truncate":false}}"#)).error(400);
    assert_eq!(error["param"], "inputs");
    let tokens = server.post("/tokenize", r#"{"inputs":["ab",""]}"#).json();
    let token = json!({"id": 97, "text": "a", "special": false, "start": null, "stop": null});
    assert_eq!(tokens[0][0], token);
    assert_eq!((&tokens[0][1]["id"], &tokens[1]), (&json!(98), &json!([])));
    server.post("/tokenize", r#"{"inputs":[1]}"#).error(400);
    let info = server.get("/info").json();
    assert_eq!((&info["model_id"], &info["max_client_batch_size"]), (&json!("m"), &json!(2048)));
    assert_eq!(info["max_input_length"], crate::model::MAX_LENGTH);
}

#[test]
fn similarity_is_the_cosine_of_rows() {
    let server = start(settings());
    let body = r#"{"inputs":{"source_sentence":"ab","sentences":["ab","ba","abc"]}}"#;
    let cosines = server.post("/similarity", body).json();
    let cosine = |a: &str, b: &str| {
        let dot = |a: [f32; DIM], b: [f32; DIM]| -> f64 {
            a.iter().zip(b).map(|(&a, b)| f64::from(a) * f64::from(b)).sum()
        };
        let (a, b) = (row(a), row(b));
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    for (index, other) in ["ab", "ba", "abc"].into_iter().enumerate() {
        let found = cosines[index].as_f64().expect("a number");
        assert!((found - cosine("ab", other)).abs() < 1e-12, "{found}");
    }
    let body = r#"{"inputs":{"source_sentence":"a","sentences":["b",""]}}"#;
    let error = server.post("/similarity", body).error(400);
    assert!(error["message"].as_str().expect("text").contains("inputs.sentences[1]"), "{error}");
    for (body, param) in [
        (r#"{"inputs":{"source_sentence":"","sentences":["a"]}}"#, "inputs.source_sentence"),
        (r#"{"inputs":{"sentences":["a"]}}"#, "inputs.source_sentence"),
        (r#"{"inputs":{"source_sentence":"a"}}"#, "inputs.sentences"),
        (r#"{"inputs":{"source_sentence":7,"sentences":["a"]}}"#, "inputs.source_sentence"),
        (r#"{"inputs":{"source_sentence":[1],"sentences":["a"]}}"#, "inputs.source_sentence"),
        (r#"{"inputs":[]}"#, "inputs"),
        (r#"{"inputs":{"source_sentence":"a","sentences":[]}}"#, "inputs.sentences"),
    ] {
        assert_eq!(server.post("/similarity", body).error(400)["param"], param, "{body}");
    }
}
