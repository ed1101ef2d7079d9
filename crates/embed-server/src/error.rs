//! What a request can get instead of rows, and how it is said: always the body of OpenAI's API, all four
//! keys of it, whichever route answers.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use embed_batcher::Error as BatchError;

/// An answer that is not 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<&'static str>,
    message: String,
    retry_after: Option<Duration>,
    /// Whether what follows on the connection can no longer be told apart: the rest of a body was not read.
    closes: bool,
    /// Label of the counter of refused requests.
    pub(crate) reason: &'static str,
}

const INVALID: &str = "invalid_request_error";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, reason: &'static str, message: String) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message,
            retry_after: None,
            closes: false,
            reason,
        }
    }

    /// 400: something in the request, at `param` if that is known.
    pub(crate) fn invalid(param: Option<&'static str>, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid", message.into());
        Self { param, ..error }
    }

    /// 400: the request is sound and larger than a limit.
    pub(crate) fn over_limit(param: &'static str, message: String) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, INVALID, "too_large", message);
        Self { param: Some(param), ..error }
    }

    /// 400: the connection ended within the body. Who sent it hears nothing of this.
    pub(crate) fn cut_off() -> Self {
        Self::invalid(None, "the body ended before it was complete").closing()
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        *self == Self::cut_off()
    }

    /// 401: no key, or one that is not known.
    pub(crate) fn unauthorized(is_missing: bool) -> Self {
        let message = if is_missing {
            "no API key: send one as `Authorization: Bearer KEY`"
        } else {
            "the API key is not known here"
        };
        let error = Self::new(StatusCode::UNAUTHORIZED, INVALID, "unauthorized", message.into());
        Self { code: Some("invalid_api_key"), ..error }
    }

    /// 403: the `Host` header names another machine, as a page of a browser makes it after DNS rebinding.
    pub(crate) fn forbidden_host() -> Self {
        let message = "the Host header is not one of this server: see the setting `allowed_hosts`";
        let error = Self::new(StatusCode::FORBIDDEN, INVALID, "forbidden_host", message.into());
        Self { code: Some("host_not_allowed"), ..error }
    }

    /// 403: a page of a browser asks, which was not allowed to.
    pub(crate) fn forbidden_origin() -> Self {
        let message =
            "pages of this origin may not use this server: see the setting `cors_origins`";
        let error = Self::new(StatusCode::FORBIDDEN, INVALID, "forbidden_origin", message.into());
        Self { code: Some("origin_not_allowed"), ..error }
    }

    /// 404: no such route.
    pub(crate) fn no_route(method: &str, path: &str) -> Self {
        let message = format!("there is no route {method} {path}");
        Self::new(StatusCode::NOT_FOUND, INVALID, "no_route", message)
    }

    /// 404: a model that is not served.
    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let message = format!("the model `{asked}` is not served here; served: {served}");
        let error = Self::new(StatusCode::NOT_FOUND, INVALID, "model_not_found", message);
        Self { code: Some("model_not_found"), param: Some("model"), ..error }
    }

    /// 405. The router adds `Allow`.
    pub(crate) fn wrong_method(method: &str, path: &str) -> Self {
        let message = format!("{path} does not take {method}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, "wrong_method", message)
    }

    /// 408: the body came too slowly.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        let message = format!("the body took longer than {limit:?} (setting `body_timeout`)");
        let error = Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, "slow_body", message);
        Self { closes: true, ..error }
    }

    /// 413: the body is larger than a setting allows.
    pub(crate) fn large_body(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes (setting `body_bytes`)");
        let error = Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, "large_body", message);
        Self { closes: true, ..error }
    }

    /// 415.
    pub(crate) fn media_type(message: String) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, "media_type", message)
    }

    /// 429: no room at the moment.
    pub(crate) fn busy(reason: &'static str, message: String, retry_after: Duration) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let error = Self::new(status, "rate_limit_error", reason, message);
        Self { code: Some("overloaded"), retry_after: Some(retry_after), ..error }
    }

    /// 503: the server starts or ends.
    pub(crate) fn unavailable(message: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let error = Self::new(status, "server_error", "unavailable", message.to_owned());
        Self { code: Some("unavailable"), retry_after: Some(Duration::from_secs(1)), ..error }
    }

    /// 503: the server ends.
    pub(crate) fn draining() -> Self {
        Self::unavailable("the server is shutting down")
    }

    /// 500: nothing that the caller did.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let error = Self::new(status, "server_error", "backend", message.into());
        Self { code: Some("internal_error"), ..error }
    }

    /// 504: the deadline that the caller gave.
    pub(crate) fn expired() -> Self {
        let message = "the deadline of the request passed (header `x-embed-deadline-ms`)";
        let status = StatusCode::GATEWAY_TIMEOUT;
        let error = Self::new(status, "server_error", "expired", message.into());
        Self { code: Some("deadline_exceeded"), ..error }
    }

    /// The same error, after which the connection ends: a part of the body was not read.
    #[must_use]
    pub(crate) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// The body: the same four keys for every error.
    pub(crate) fn body(&self) -> Vec<u8> {
        let error = serde_json::json!({
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        });
        error.to_string().into_bytes()
    }
}

impl ApiError {
    /// What a batcher says of the inputs in `field`. A text never stands in an error of the batcher or of a
    /// model, so that their words may be passed on.
    pub(crate) fn of_batch(error: BatchError<embed_core::Error>, field: &'static str) -> Self {
        match error {
            BatchError::Overloaded { retry_after, .. } => {
                Self::busy("queue_full", error.to_string(), retry_after)
            }
            BatchError::TooLarge { .. } => Self::over_limit(field, format!("`{field}`: {error}")),
            BatchError::Expired => Self::expired(),
            BatchError::Draining | BatchError::Closed => Self::draining(),
            BatchError::Backend(error) if error.input().is_some() => {
                Self::over_limit(field, format!("`{field}`: {error}"))
            }
            BatchError::Backend(error @ embed_core::Error::Dimensions { .. }) => {
                Self::invalid(Some("dimensions"), error.to_string())
            }
            BatchError::NotFinite { .. } => {
                Self::internal("the model gave a value that is not a finite number")
            }
            // What a backend says of itself may tell of files, of devices, or of the text.
            _ => Self::internal("the model failed"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let mut response =
            (self.status, [(header::CONTENT_TYPE, json)], self.body()).into_response();
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            // Whole seconds, rounded up: too early would be refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, seconds.into());
            let millis = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            headers.insert(HeaderName::from_static("retry-after-ms"), millis.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(Reason(self.reason));
        response
    }
}

/// Why a request was refused; travels with the answer to where refusals are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason(pub(crate) &'static str);
