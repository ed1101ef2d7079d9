//! `GET /v1/models`: what is served, as OpenAI lists it.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::Shared;
use crate::app::App;
use crate::error::ApiError;

/// A model as OpenAI describes one. It was never created at a time that means anything here.
fn described(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "embed"})
}

pub(super) async fn list(State(app): Shared) -> Response {
    let data: Vec<Value> = names(&app).map(described).collect();
    answer(&json!({"object": "list", "data": data}))
}

pub(super) async fn one(
    State(app): Shared,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(name) = name
        .map_err(|_| ApiError::invalid(None, "the name of the model in the path is not UTF-8"))?;
    app.model(&name)?;
    Ok(answer(&described(&name)))
}

/// Every name that a request may use.
pub(super) fn names(app: &App) -> impl Iterator<Item = &str> {
    app.models
        .iter()
        .flat_map(|model| std::iter::once(&model.name).chain(&model.aliases))
        .map(|name| &**name)
}

/// A small answer.
pub(super) fn answer(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
