//! What those who run the server ask: whether it lives, whether it is ready, what it has counted.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Shared;
use super::models::answer;
use crate::error::ApiError;
use crate::openapi;

pub(super) async fn live() -> Response {
    answer(&json!({"status": "ok"}))
}

pub(super) async fn ready(State(app): Shared) -> Result<Response, ApiError> {
    if app.is_ready() {
        return Ok(answer(&json!({"status": "ready"})));
    }
    let why = if app.is_draining() { "the server is shutting down" } else { "a model has ended" };
    Err(ApiError::unavailable(why))
}

pub(super) async fn metrics(State(app): Shared) -> Response {
    for model in &app.models {
        let stats = model.batcher.stats();
        model.metrics.set_load(stats.queued.texts, stats.running_batches);
    }
    app.metrics.set_ready(app.is_ready());
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, format)], app.metrics.page()).into_response()
}

/// The description of the API, as it was made when the server started.
pub(super) fn openapi(document: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], document).into_response()
}

pub(super) async fn docs() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], openapi::PAGE).into_response()
}
