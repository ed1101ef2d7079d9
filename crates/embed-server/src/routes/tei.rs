//! The routes of Hugging Face's Text Embeddings Inference. They name no model: the first one answers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use embed_core::{MaxLength, Normalize, UnknownTokens, cosine};
use serde::de::MapAccess;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Shared;
use super::embeddings::required;
use super::fields::AskFields;
use super::models::answer;
use crate::app::{Answer, Ask, Urgency};
use crate::budget::Size;
use crate::error::ApiError;
use crate::front::answered_by;
use crate::json::{Fault, Flag, Input, InputLimits, InputSeed, Object, Text, check_chars, nested};
use crate::model::Running;
use crate::reply::{self, Encoding, Frame, RowStart};
use crate::settings::EmptyInput;

/// The body of `/embed` and of `/tokenize`.
struct Body {
    ask: AskFields,
    normalize: Option<bool>,
}

impl Body {
    fn new(limits: InputLimits) -> Self {
        Self { ask: AskFields::new("inputs", limits), normalize: None }
    }
}

impl Object for Body {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        if name != "normalize" {
            return self.ask.take(name, map, fault);
        }
        self.normalize = map.next_value_seed(Flag { name: "normalize", fault })?;
        Ok(true)
    }
}

/// `POST /embed`: texts, an array of rows.
pub(super) async fn embed(State(app): Shared, request: Request) -> Result<Response, ApiError> {
    let urgency = Urgency::of(request.headers())?;
    let (body, _held) = app.read(request, Body::new(app.input_limits())).await?;
    let model = app.first_model();
    let answer: Result<Response, ApiError> = async {
        // As TEI has it, rows are normalized unless the request says otherwise.
        let normalize = if body.normalize == Some(false) { Normalize::No } else { Normalize::Yes };
        let ask = Ask { normalize: Some(normalize), ..body.ask.ask(urgency)? };
        let Answer { rows, share, .. } = app.embed(model, ask).await?;
        let frame = Frame {
            start: "[".into(),
            before_row: RowStart::Plain,
            after_row: "",
            end: "]".into(),
        };
        Ok(reply::rows(rows, Encoding::Float, frame, share))
    }
    .await;
    Ok(answered_by(model, answer))
}

/// `POST /tokenize`: the tokens of texts, all of them, special ones excluded.
pub(super) async fn tokenize(State(app): Shared, request: Request) -> Result<Response, ApiError> {
    let (body, _held) = app.read(request, Body::new(app.input_limits())).await?;
    let model = app.first_model();
    let answer: Result<Response, ApiError> = async {
        let Input::Texts(texts) = required(body.ask.input, "inputs")? else {
            let message = "`inputs`: expected a string or an array of strings";
            return Err(ApiError::invalid(Some("inputs"), message));
        };
        let limit = app.settings.max_request_tokens;
        let tokenizing = Arc::clone(model);
        let started = Instant::now();
        let page = app.heavy(move || tokens_page(&tokenizing, &texts, limit)).await;
        model.metrics.tokenize.observe(started.elapsed().as_secs_f64());
        let page = page?;
        let share = app.take_rows(page.len(), Size::Large)?;
        Ok(reply::page(page, share))
    }
    .await;
    Ok(answered_by(model, answer))
}

/// The answer of `/tokenize`.
fn tokens_page(model: &Running, texts: &[String], limit: usize) -> Result<String, ApiError> {
    let options = model
        .options
        .clone()
        .with_max_length(MaxLength::Unlimited)
        .with_unknown(UnknownTokens::Keep);
    let mut ids = Vec::new();
    let mut left = limit;
    let mut page = String::from("[");
    for (position, text) in texts.iter().enumerate() {
        ids.clear();
        model.model.token_ids(text, &options, &mut ids).map_err(|error| {
            ApiError::invalid(Some("inputs"), format!("`inputs[{position}]`: {error}"))
        })?;
        left = left.checked_sub(ids.len()).ok_or_else(|| {
            let message =
                format!("`inputs`: more than {limit} tokens (setting `max_request_tokens`)");
            ApiError::over_limit("inputs", message)
        })?;
        page.push_str(if position > 0 { ",[" } else { "[" });
        for (place, &id) in ids.iter().enumerate() {
            page.push_str(if place > 0 { "," } else { "" });
            let text = model.model.token(id).map_or(Value::Null, Value::from);
            let token =
                json!({"id": id, "text": text, "special": false, "start": null, "stop": null});
            page.push_str(&token.to_string());
        }
        page.push(']');
    }
    page.push(']');
    Ok(page)
}

/// The body of `/similarity`.
struct Comparison {
    limits: InputLimits,
    inputs: Option<Sentences>,
}

const SOURCE: &str = "inputs.source_sentence";

/// Its `inputs`: one text and those that it is compared with.
#[derive(Default)]
struct Sentences {
    limits: Option<InputLimits>,
    source: Option<String>,
    others: Option<Input>,
}

impl Object for Comparison {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        if name != "inputs" {
            return Ok(false);
        }
        let sentences = Sentences { limits: Some(self.limits), ..Sentences::default() };
        self.inputs = nested("inputs", map, sentences, self.limits.depth, fault)?;
        Ok(true)
    }
}

impl Object for Sentences {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        match (name, self.limits) {
            ("source_sentence", _) => {
                self.source = map.next_value_seed(Text { name: SOURCE, fault })?;
            }
            ("sentences", Some(limits)) => {
                let seed = InputSeed { name: "inputs.sentences", limits, fault };
                self.others = map.next_value_seed(seed)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `POST /similarity`: the cosine of one text with each of others.
pub(super) async fn similarity(State(app): Shared, request: Request) -> Result<Response, ApiError> {
    let urgency = Urgency::of(request.headers())?;
    let limits = app.input_limits();
    let (body, _held) = app.read(request, Comparison { limits, inputs: None }).await?;
    let model = app.first_model();
    let answer: Result<Response, ApiError> = async {
        let inputs = required(body.inputs, "inputs")?;
        let source = required(inputs.source, SOURCE)?;
        check_chars(&source, limits.text_chars, SOURCE, &format!("`{SOURCE}`"))?;
        let Input::Texts(mut texts) = required(inputs.others, "inputs.sentences")? else {
            let message = "`inputs.sentences`: expected an array of strings";
            return Err(ApiError::invalid(Some("inputs.sentences"), message));
        };
        let may_be_empty = app.settings.empty_input == EmptyInput::Zero;
        if source.is_empty() && !may_be_empty {
            return Err(ApiError::invalid(Some(SOURCE), format!("`{SOURCE}`: empty")));
        }
        // Behind the others, so that their positions are those of the request.
        texts.push(source);
        let ask = Ask { urgency, ..Ask::new("inputs.sentences", Input::Texts(texts)) };
        let Answer { rows, .. } = app.embed(model, ask).await?;
        let Some((source, others)) = rows.split_last() else { return Ok(answer(&json!([]))) };
        let cosines: Vec<f64> =
            others.iter().map(|row| cosine(&source.values, &row.values)).collect();
        Ok(answer(&json!(cosines)))
    }
    .await;
    Ok(answered_by(model, answer))
}

/// `GET /info`: what TEI's clients ask before they begin.
pub(super) async fn info(State(app): Shared) -> Response {
    let model = app.first_model();
    answer(&json!({
        "model_id": model.name,
        "model_sha": null,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": app.settings.max_connections,
        "max_input_length": model.max_tokens.map_or(app.settings.max_request_tokens, NonZeroUsize::get),
        "max_batch_tokens": app.settings.batch_tokens,
        "max_client_batch_size": app.settings.max_inputs,
        "auto_truncate": true,
        "tokenization_workers": app.settings.threads().get(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
