//! `POST /v1/embeddings`, as OpenAI has it.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::de::MapAccess;

use super::Shared;
use crate::app::{Answer, Ask, Urgency};
use crate::error::ApiError;
use crate::front::answered_by;
use crate::json::{Fault, Flag, Input, InputLimits, InputSeed, Number, Object, Text};
use crate::reply::{self, Encoding, Frame, RowStart};

/// The fields of the body.
struct Body {
    limits: InputLimits,
    input: Option<Input>,
    model: Option<String>,
    encoding: Option<String>,
    dimensions: Option<u64>,
    truncate: Option<bool>,
}

impl Object for Body {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        match name {
            "input" => {
                let seed = InputSeed { name: "input", limits: self.limits, fault };
                self.input = map.next_value_seed(seed)?;
            }
            "model" => self.model = map.next_value_seed(Text { name: "model", fault })?,
            "encoding_format" => {
                self.encoding = map.next_value_seed(Text { name: "encoding_format", fault })?;
            }
            "dimensions" => {
                self.dimensions = map.next_value_seed(Number { name: "dimensions", fault })?;
            }
            "truncate" => self.truncate = map.next_value_seed(Flag { name: "truncate", fault })?,
            // Accepted and not used: nothing here is kept by user.
            "user" => {
                map.next_value_seed(Text { name: "user", fault })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub(super) async fn embeddings(State(app): Shared, request: Request) -> Result<Response, ApiError> {
    let urgency = Urgency::of(request.headers())?;
    let body = Body {
        limits: app.input_limits(),
        input: None,
        model: None,
        encoding: None,
        dimensions: None,
        truncate: None,
    };
    let (body, _held) = app.read(request, body).await?;
    let model = app.model(&required(body.model, "model")?)?;
    let answer = async {
        let encoding = encoding(body.encoding.as_deref())?;
        let ask = Ask {
            dimensions: body.dimensions,
            truncate: body.truncate,
            urgency,
            ..Ask::new("input", required(body.input, "input")?)
        };
        let Answer { rows, tokens, share } = app.embed(model, ask).await?;
        let name = serde_json::Value::from(&*model.name);
        let usage = format!(r#"{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}"#);
        let frame = Frame {
            start: r#"{"object":"list","data":["#.to_owned(),
            before_row: RowStart::Indexed,
            after_row: "}",
            end: format!(r#"],"model":{name},"usage":{usage}}}"#),
        };
        Ok(reply::rows(rows, encoding, frame, share))
    };
    Ok(answered_by(model, answer).await)
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
