//! An embeddings endpoint as one would write it with axum and model2vec-rs: `servers FOLDER_OF_A_MODEL`.
//!
//! It answers what `cargo xtask bench-server` asks, in the format of OpenAI, and decides what such a server
//! has to decide in the way that is fastest: few texts are embedded where the request was read, many on a
//! thread that may block, and tokens are not counted, because the library would have to tokenize a second
//! time. It has no limits, no queue and no shutdown.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model2vec_rs::model::StaticModel;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// Of so many texts at most, the rows are computed on the thread that read the request: that is sooner
/// done than handed over.
const FEW: usize = 32;

#[derive(Deserialize)]
struct Request {
    model: String,
    input: Input,
    encoding_format: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    One(String),
    Many(Vec<String>),
}

#[derive(Serialize)]
struct Answer {
    object: &'static str,
    data: Vec<Row>,
    model: String,
    usage: Usage,
}

#[derive(Serialize)]
struct Row {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Floats(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

async fn embeddings(
    State(model): State<Arc<StaticModel>>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, StatusCode> {
    let base64 = request.encoding_format.as_deref() == Some("base64");
    let rows = match request.input {
        Input::One(text) => vec![model.encode_single(&text)],
        Input::Many(texts) if texts.len() <= FEW => model.encode(&texts),
        Input::Many(texts) => tokio::task::spawn_blocking(move || model.encode(&texts))
            .await
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?,
    };
    let row = |(index, row): (usize, Vec<f32>)| {
        let embedding = if base64 {
            let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
            Vector::Base64(BASE64_STANDARD.encode(bytes))
        } else {
            Vector::Floats(row)
        };
        Row { object: "embedding", index, embedding }
    };
    Ok(Json(Answer {
        object: "list",
        data: rows.into_iter().enumerate().map(row).collect(),
        model: request.model,
        usage: Usage { prompt_tokens: 0, total_tokens: 0 },
    }))
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("the first argument is the folder of a model")?;
    let model = StaticModel::from_pretrained(folder, None, None, None)?;
    let router = Router::new()
        .route("/v1/embeddings", post(embeddings))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(Arc::new(model));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
