//! `POST /v1/embeddings`, as OpenAI has it.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::de::MapAccess;

use super::Shared;
use super::fields::AskFields;
use crate::app::{Answer, Urgency};
use crate::error::ApiError;
use crate::front::answered_by;
use crate::json::{Fault, Object, Text};
use crate::reply::{self, Encoding, Frame, RowStart};

/// The fields of the body.
struct Body {
    ask: AskFields,
    model: Option<String>,
    encoding: Option<String>,
}

impl Object for Body {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        match name {
            "model" => self.model = map.next_value_seed(Text { name: "model", fault })?,
            "encoding_format" => {
                self.encoding = map.next_value_seed(Text { name: "encoding_format", fault })?;
            }
            // Accepted and not used: nothing here is kept by user.
            "user" => {
                map.next_value_seed(Text { name: "user", fault })?;
            }
            _ => return self.ask.take(name, map, fault),
        }
        Ok(true)
    }
}

pub(super) async fn embeddings(State(app): Shared, request: Request) -> Result<Response, ApiError> {
    let urgency = Urgency::of(request.headers())?;
    let ask = AskFields::new("input", app.input_limits());
    let body = Body { ask, model: None, encoding: None };
    let (body, _held) = app.read(request, body).await?;
    let model = app.model(&required(body.model, "model")?)?;
    let answer: Result<Response, ApiError> = async {
        let encoding = encoding(body.encoding.as_deref())?;
        let Answer { rows, tokens, share } = app.embed(model, body.ask.ask(urgency)?).await?;
        let frame = Frame {
            start: r#"{"object":"list","data":["#.into(),
            before_row: RowStart::Indexed,
            after_row: "}",
            end: format!(
                r#"],"model":{},"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#,
                model.quoted_name
            )
            .into(),
        };
        Ok(reply::rows(rows, encoding, frame, share))
    }
    .await;
    Ok(answered_by(model, answer))
}

/// A field that must be there.
pub(super) fn required<T>(field: Option<T>, name: &'static str) -> Result<T, ApiError> {
    field.ok_or_else(|| ApiError::invalid(Some(name), format!("`{name}` is missing")))
}

fn encoding(format: Option<&str>) -> Result<Encoding, ApiError> {
    match format {
        None | Some("float") => Ok(Encoding::Float),
        Some("base64") => Ok(Encoding::Base64),
        Some(_) => {
            let message = "`encoding_format`: expected `float` or `base64`";
            Err(ApiError::invalid(Some("encoding_format"), message))
        }
    }
}
