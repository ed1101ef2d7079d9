//! The routes: which path leads where, and what is said where none does.

mod embeddings;
mod fields;
mod models;
mod ollama;
mod operation;
mod tei;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, CorsLayer};

use crate::app::App;
use crate::error::ApiError;
use crate::front::front;
use crate::openapi;

/// All routes of a server.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/embeddings", post(embeddings::embeddings))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::one))
        .route("/api/embed", post(ollama::embed))
        .route("/api/embeddings", post(ollama::embeddings))
        .route("/api/tags", get(ollama::tags))
        .route("/api/version", get(ollama::version))
        .route("/embed", post(tei::embed))
        .route("/tokenize", post(tei::tokenize))
        .route("/similarity", post(tei::similarity))
        .route("/info", get(tei::info))
        .route("/healthz", get(operation::live))
        .route("/readyz", get(operation::ready))
        .route("/metrics", get(operation::metrics));
    if app.settings.docs {
        let document = Bytes::from(description(app));
        router = router
            .route("/openapi.json", get(async move || operation::openapi(document)))
            .route("/docs", get(operation::docs));
    }
    let router = router
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(app), front))
        .with_state(Arc::clone(app));
    let origins = &app.settings.cors_origins;
    if origins.is_empty() { router } else { router.layer(cors(origins)) }
}

/// The routes with the bounds that hold for every model.
fn description(app: &App) -> String {
    let models = || app.models.iter().map(|model| &model.model);
    let dim = models().map(|model| model.dim()).min().unwrap_or(1);
    let vocabulary = models().map(|model| model.vocabulary_size()).min().unwrap_or(1);
    let has_keys = !app.keys.is_empty();
    openapi::document(&app.settings, openapi::Served { dim, vocabulary, has_keys })
}

async fn no_route(request: Request) -> ApiError {
    ApiError::no_route(request.method().as_str(), &shown(request.uri().path()))
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::wrong_method(request.method().as_str(), &shown(request.uri().path()))
}

/// A path of any length, in a message of some length.
fn shown(path: &str) -> String {
    path.chars().take(100).collect()
}

/// What is left to say when a handler panicked, which is a fault of this program. The panic itself was
/// printed where panics are.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    ApiError::internal("the server failed to answer").into_response()
}

/// Pages of these origins may ask and read answers.
fn cors(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> =
        origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let exposed =
        ["x-request-id", "x-embed-zero-rows", "retry-after", "retry-after-ms", "server-timing"];
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST])
        // Clients have headers of their own, which mean nothing here and do no harm.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed.map(HeaderName::from_static))
        .max_age(Duration::from_mins(10))
}

/// What all handlers get.
type Shared = State<Arc<App>>;
