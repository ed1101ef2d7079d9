//! What happens to every request before and after its route: who may ask, whether the server still takes
//! work, a name for the request, and counting.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

use crate::app::App;
use crate::error::{ApiError, Reason};
use crate::model::Running;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Which model answered, on an answer.
#[derive(Clone)]
struct AnsweredBy(Arc<Running>);

/// The answer of a model, a refusal too, counted as its own.
pub(crate) fn answered_by(model: &Arc<Running>, answer: Result<Response, ApiError>) -> Response {
    let mut response = answer.into_response();
    response.extensions_mut().insert(AnsweredBy(Arc::clone(model)));
    response
}

/// The middleware around all routes.
pub(crate) async fn front(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let (request, body) = watch(request);
    let mut response = match admit(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let is_unread = body.is_some_and(|is_read| !is_read.load(Ordering::Relaxed));
    let took = started.elapsed();
    count(&app, &response, took);
    let is_draining = app.is_draining();
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(SERVER_TIMING, timing(took));
    // What follows on the connection would be the rest of the body.
    if is_draining || is_unread {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that says when all of it was read.
struct Watched {
    body: Body,
    is_read: Arc<AtomicBool>,
}

/// The request with a watched body, if it has one.
fn watch(request: Request) -> (Request, Option<Arc<AtomicBool>>) {
    if request.body().is_end_stream() {
        return (request, None);
    }
    let is_read = Arc::new(AtomicBool::new(false));
    let watching = Arc::clone(&is_read);
    (request.map(|body| Body::new(Watched { body, is_read })), Some(watching))
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.is_read.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        // Never said ahead, so that the end is read and seen.
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn count(app: &App, response: &Response, took: Duration) {
    let extensions = response.extensions();
    if let Some(Reason(reason)) = extensions.get() {
        app.metrics.refused(reason);
    }
    match extensions.get::<AnsweredBy>() {
        Some(AnsweredBy(model)) => model.metrics.answered(response.status(), took),
        None => app.metrics.answered(response.status()),
    }
}

/// What a route asks of who calls it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Anybody, at any time.
    Open,
    /// Who has a key, at any time.
    Key,
    /// Who has a key, while work is taken.
    Work,
}

fn access(app: &App, path: &str) -> Access {
    match path {
        "/metrics" if app.settings.metrics_key => Access::Key,
        "/healthz" | "/readyz" | "/metrics" | "/docs" | "/openapi.json" => Access::Open,
        _ => Access::Work,
    }
}

fn admit(app: &App, request: &Request) -> Result<(), ApiError> {
    if app.checks_host && !host_is_allowed(request, &app.settings.allowed_hosts) {
        return Err(ApiError::forbidden_host());
    }
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || hosts == 0 && request.version() == Version::HTTP_11 {
        return Err(ApiError::invalid(None, "expected one Host header"));
    }
    let access = access(app, request.uri().path());
    if access == Access::Work
        && request.method() == Method::POST
        && app.keys.is_empty()
        && !origin_is_allowed(request.headers(), &app.settings.cors_origins)
    {
        return Err(ApiError::forbidden_origin());
    }
    if access != Access::Open && !app.keys.is_empty() {
        let key = bearer(request.headers());
        if !key.is_some_and(|key| app.keys.accept(key)) {
            return Err(ApiError::unauthorized(key.is_none()));
        }
    }
    if access == Access::Work && app.is_draining() {
        return Err(ApiError::draining().closing());
    }
    Ok(())
}

/// The key of `Authorization: Bearer KEY`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| key.trim_ascii())
}

/// Whether the request is meant for this machine. A page in a browser whose name was made to lead here
/// sends its own name.
fn host_is_allowed(request: &Request, allowed: &[String]) -> bool {
    let headers = request.headers();
    let named = request.uri().authority().map(Authority::as_str);
    let Some(host) =
        named.or_else(|| headers.get(header::HOST).and_then(|host| host.to_str().ok()))
    else {
        // HTTP/1.0 without one; a browser always sends it.
        return !headers.contains_key(header::HOST);
    };
    let name = without_port(host);
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || name == "[::1]";
    is_loopback
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name) || allowed == host)
}

/// Whether a page in a browser, if it is one that asks, may do so. Without keys any page could make the
/// server work, though it could not read the answers.
fn origin_is_allowed(headers: &HeaderMap, allowed: &[String]) -> bool {
    let text =
        |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(&header::ORIGIN) else {
        let site = text(&HeaderName::from_static("sec-fetch-site"));
        return !matches!(site, Some("cross-site" | "same-site"));
    };
    let is_own = origin.split_once("://").map(|(_, host)| host) == text(&header::HOST);
    is_own || allowed.iter().any(|allowed| allowed == origin)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The client's own name for the request if it is a harmless one, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    const LONGEST: usize = 128;
    static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if let Some(id) = headers.get(REQUEST_ID) {
        let bytes = id.as_bytes();
        if (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic) {
            return id.clone();
        }
    }
    // Only has to be new.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("req-{:016x}-{number:x}", *FIRST);
    HeaderValue::try_from(text).expect("letters, digits and hyphens")
}

fn timing(took: Duration) -> HeaderValue {
    // In milliseconds, as the header has it.
    let text = format!("total;dur={:.3}", took.as_secs_f64() * 1e3);
    HeaderValue::try_from(text).expect("letters, digits and signs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_host(host: Option<&str>, allowed: &[&str], expected: bool) {
        let mut request = Request::builder().uri("/v1/models");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Body::empty()).expect("a request");
        let allowed: Vec<String> = allowed.iter().map(|&name| name.into()).collect();
        assert_eq!(host_is_allowed(&request, &allowed), expected, "{host:?}");
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "LocalHost:8080", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:80"]
        {
            check_host(Some(host), &[], true);
        }
        for host in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "192.168.0.1", ""]
        {
            check_host(Some(host), &[], false);
        }
        check_host(None, &[], true);
        check_host(Some("embed.local:8080"), &["embed.local"], true);
        check_host(Some("embed.local:8080"), &["embed.local:8080"], true);
        check_host(Some("embed.local:8080"), &["other.local"], false);
    }

    #[test]
    fn pages_of_others_do_not_make_the_server_work() {
        let check = |sent: &[(&'static str, &'static str)], expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static("localhost:8080"));
            for &(name, value) in sent {
                headers.insert(name, HeaderValue::from_static(value));
            }
            let allowed = ["https://page.example".to_owned()];
            assert_eq!(origin_is_allowed(&headers, &allowed), expected, "{sent:?}");
        };
        check(&[], true);
        check(&[("origin", "https://page.example"), ("sec-fetch-site", "cross-site")], true);
        check(&[("origin", "http://localhost:8080")], true);
        check(&[("origin", "http://localhost:8081")], false);
        check(&[("origin", "https://evil.example")], false);
        check(&[("origin", "null")], false);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "none")], true);
    }

    #[test]
    fn keys_are_read_from_the_header() {
        let key = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", value.parse().expect("a header"));
            bearer(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(key("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(key("bearer  abc "), Some(b"abc".to_vec()));
        assert_eq!(key("Basic abc"), None);
        assert_eq!(key("Bearer"), None);
    }

    #[test]
    fn harmless_request_ids_are_kept() {
        let id = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, value.parse().expect("a header"));
            request_id(&headers)
        };
        assert_eq!(id("abc-1"), "abc-1");
        assert_ne!(id("a b"), "a b");
        assert_ne!(id(&"a".repeat(129)), *"a".repeat(129));
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
