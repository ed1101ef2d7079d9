//! The body of a request: read as far as limits allow, and no further.
//!
//! Memory is taken from the budget of all bodies as bytes come in, not as a client announces them: who
//! announces sixteen megabytes and sends nothing holds nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt as _;

use crate::budget::{Budget, Share, Size};
use crate::error::ApiError;
use crate::settings::Settings;

/// A body in memory, and its part of the budget, to be kept while anything made of the body is.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) share: Share,
}

/// Reads the body of a request that must be JSON.
pub(crate) async fn read(
    request: Request<Body>,
    settings: &Settings,
    budget: &Budget,
) -> Result<Received, ApiError> {
    // Ollama's own documentation has curl send JSON under the media type of a form.
    if !request.uri().path().starts_with("/api/") {
        check_media_type(request.headers())?;
    }
    check_encoding(request.headers())?;
    let announced = announced_length(request.headers());
    if announced.is_some_and(|length| length > settings.body_bytes as u64) {
        return Err(ApiError::large_body(settings.body_bytes));
    }
    // Memory that nothing was written to yet is none.
    let expected = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let body = request.into_body();
    let mut reading = pin!(read_to_end(body, expected, settings.body_bytes, budget));
    // Most bodies are there with their heads and need no timer.
    let first = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
    if let Poll::Ready(received) = first {
        return received;
    }
    match tokio::time::timeout(settings.body_timeout, reading).await {
        Ok(received) => received,
        Err(_) => Err(ApiError::slow_body(settings.body_timeout)),
    }
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_to_end(
    mut body: Body,
    expected: usize,
    limit: usize,
    budget: &Budget,
) -> Result<Received, ApiError> {
    let mut share = budget.nothing();
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::cut_off())?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(ApiError::large_body(limit));
        }
        let read = first.len() + rest.len() + data.len();
        let size = if read > SMALL_BODY { Size::Large } else { Size::Small };
        if !share.grow(data.len(), size, budget) {
            return Err(full(budget, size).closing());
        }
        // Most bodies come in one piece, which is then not copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve_exact(expected);
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    let bytes = if rest.is_empty() { first } else { rest.into() };
    Ok(Received { bytes, share })
}

/// A body of at most so many bytes may have what larger ones leave.
const SMALL_BODY: usize = 1 << 16;

fn full(budget: &Budget, size: Size) -> ApiError {
    let message = format!(
        "the bodies of other requests leave no room: {} of {} bytes are in use (setting \
         `body_bytes_in_flight`)",
        budget.used(),
        budget.limit(size)
    );
    ApiError::busy("bodies_full", message, Duration::from_millis(100))
}

/// Not compressed.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        let message = format!("content-encoding {encoding:?}: bodies are taken uncompressed only");
        return Err(ApiError::media_type(message).closing());
    }
    Ok(())
}

/// JSON, said so or not said at all.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    if essence == "application/json" || essence.ends_with("+json") {
        return Ok(());
    }
    let message = format!("content-type {content_type:?}: expected application/json");
    Err(ApiError::media_type(message).closing())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[track_caller]
    fn check(name: &'static str, value: &'static str, expected: Result<(), StatusCode>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a header"));
        let found = check_media_type(&headers).and_then(|()| check_encoding(&headers));
        let found = found.map_err(|error| error.status);
        assert_eq!(found, expected, "{name}: {value}");
    }

    #[test]
    fn only_plain_json_is_read() {
        let unsupported = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        check("content-type", "application/json", Ok(()));
        check("content-type", "Application/JSON ; charset=utf-8", Ok(()));
        check("content-type", "application/vnd.api+json", Ok(()));
        check("content-type", "application/x-www-form-urlencoded", unsupported);
        check("content-type", "text/plain", unsupported);
        check("content-type", "", unsupported);
        check("content-encoding", "identity", Ok(()));
        check("content-encoding", "gzip", unsupported);
        check("accept", "text/html", Ok(()));
    }

    async fn read_back(body: Body, limit: usize, budget: &Budget) -> Result<usize, StatusCode> {
        let received = read_to_end(body, 0, limit, budget).await;
        received.map(|received| received.bytes.len()).map_err(|error| error.status)
    }

    #[tokio::test]
    async fn bodies_stay_within_their_limits() {
        let budget = Budget::new(20);
        assert_eq!(read_back(Body::from("0123456789"), 10, &budget).await, Ok(10));
        let large = Err(StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(read_back(Body::from("0123456789x"), 10, &budget).await, large);
        assert_eq!(budget.used(), 0, "given back");
        let kept = read_to_end(Body::from("0123456789"), 10, 10, &budget).await.expect("fits");
        let other = budget.take(5, Size::Small).expect("fits");
        let full = Err(StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(read_back(Body::from("0123456789"), 10, &budget).await, full);
        drop((kept, other));
        assert_eq!(read_back(Body::from("0123456789"), 10, &budget).await, Ok(10));
    }
}
