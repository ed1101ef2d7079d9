//! The routes of Ollama that embed, for clients that speak nothing else.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::de::MapAccess;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Shared;
use super::embeddings::required;
use super::fields::AskFields;
use super::models::{answer, names};
use crate::app::{Answer, Urgency};
use crate::error::ApiError;
use crate::front::answered_by;
use crate::json::{Fault, Object, Text};
use crate::reply::{self, Encoding, Frame, RowStart};

/// The body of both routes; they call the text by different names.
struct Body {
    ask: AskFields,
    model: Option<String>,
}

impl Object for Body {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        // `options` and `keep_alive` are about running other kinds of models.
        if name != "model" {
            return self.ask.take(name, map, fault);
        }
        self.model = map.next_value_seed(Text { name: "model", fault })?;
        Ok(true)
    }
}

/// `POST /api/embed`: texts, a row for each.
pub(super) async fn embed(state: Shared, request: Request) -> Result<Response, ApiError> {
    run(state, request, "input").await
}

/// `POST /api/embeddings`: the older route, one text and its row.
pub(super) async fn embeddings(state: Shared, request: Request) -> Result<Response, ApiError> {
    run(state, request, "prompt").await
}

async fn run(
    State(app): Shared,
    request: Request,
    field: &'static str,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let urgency = Urgency::of(request.headers())?;
    let body = Body { ask: AskFields::new(field, app.input_limits()), model: None };
    let (body, _held) = app.read(request, body).await?;
    let name = required(body.model, "model")?;
    // Ollama's clients may add a tag to a name that has none, or leave it out.
    let untagged = name.strip_suffix(":latest").unwrap_or(&name);
    let model = app
        .model(&name)
        .or_else(|error| app.model(untagged).map_err(|_| error))
        .or_else(|error| app.model(&format!("{name}:latest")).map_err(|_| error))?;
    let answer: Result<Response, ApiError> = async {
        let ask = body.ask.ask(urgency)?;
        let is_single = field == "prompt";
        if is_single && ask.input.len() != 1 {
            return Err(ApiError::invalid(Some(field), format!("`{field}`: expected one text")));
        }
        let Answer { rows, tokens, share } = app.embed(model, ask).await?;
        let (start, end) = if is_single {
            (r#"{"embedding":"#.into(), "}".into())
        } else {
            let nanos = started.elapsed().as_nanos();
            let times = format!(
                r#"],"total_duration":{nanos},"load_duration":0,"prompt_eval_count":{tokens}}}"#
            );
            (format!(r#"{{"model":{},"embeddings":["#, model.quoted_name).into(), times.into())
        };
        let frame = Frame { start, before_row: RowStart::Plain, after_row: "", end };
        Ok(reply::rows(rows, Encoding::Float, frame, share))
    }
    .await;
    Ok(answered_by(model, answer))
}

/// `GET /api/tags`: what is served.
pub(super) async fn tags(State(app): Shared) -> Response {
    let models: Vec<Value> = names(&app)
        .map(|name| {
            json!({
                "name": name,
                "model": name,
                "modified_at": "1970-01-01T00:00:00Z",
                "size": 0,
                "digest": "",
                "details": {"format": "safetensors", "family": "model2vec"},
            })
        })
        .collect();
    answer(&json!({"models": models}))
}

/// `GET /api/version`.
pub(super) async fn version() -> Response {
    answer(&json!({"version": env!("CARGO_PKG_VERSION")}))
}
