//! What all requests share, and the way from inputs to rows.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request};
use embed_batcher::{Class, EmbeddedRow, OwnedInput, RequestOptions};
use embed_core::{EncodeOptions, Normalize, Overflow};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::body;
use crate::budget::{Budget, Share, Size};
use crate::error::ApiError;
use crate::inputs;
use crate::json::{self, Input, InputLimits, Object};
use crate::metrics::Metrics;
use crate::model::Running;
use crate::settings::Keys;
use crate::settings::Settings;

/// Everything that handlers need; there is one of it.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) models: Vec<Arc<Running>>,
    pub(crate) metrics: Metrics,
    /// Bytes of bodies that were read and are not answered.
    bodies: Budget,
    /// Bytes of rows that are asked for and not sent.
    rows: Budget,
    /// Who may work on a thread that may block, so that a flood of large bodies is worked off a few at a
    /// time.
    heavy: Arc<Semaphore>,
    /// Whether the `Host` header is looked at.
    pub(crate) checks_host: bool,
    /// When the drain began.
    drained_at: OnceLock<Instant>,
}

/// Bodies from this size on are read as JSON on a thread that may block: parsing a kibibyte takes about a
/// microsecond.
const HEAVY_BODY: usize = 1 << 16;

impl App {
    pub(crate) fn new(
        settings: Settings,
        keys: Keys,
        models: Vec<Arc<Running>>,
        metrics: Metrics,
        checks_host: bool,
    ) -> Self {
        Self {
            bodies: Budget::new(settings.body_bytes_in_flight),
            rows: Budget::new(settings.row_bytes_in_flight),
            heavy: Arc::new(Semaphore::new(settings.threads().get())),
            checks_host,
            drained_at: OnceLock::new(),
            settings,
            keys,
            models,
            metrics,
        }
    }

    /// The model called `name`.
    pub(crate) fn model(&self, name: &str) -> Result<&Arc<Running>, ApiError> {
        self.models.iter().find(|model| model.is_called(name)).ok_or_else(|| {
            let served: Vec<&str> = self.models.iter().map(|model| &*model.name).collect();
            let asked: String = name.chars().take(100).collect();
            ApiError::no_model(&asked, &served.join(", "))
        })
    }

    /// The model of routes that name none.
    pub(crate) fn first_model(&self) -> &Arc<Running> {
        &self.models[0]
    }

    pub(crate) fn begin_drain(&self) {
        let _ = self.drained_at.set(Instant::now());
        self.metrics.set_ready(false);
    }

    /// When the drain began, if it has.
    pub(crate) fn drained_at(&self) -> Option<Instant> {
        self.drained_at.get().copied()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drained_at.get().is_some()
    }

    /// Whether requests are taken and would be answered.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.models.iter().all(|model| model.batcher.is_open())
    }

    /// What of an input is taken.
    pub(crate) fn input_limits(&self) -> InputLimits {
        let settings = &self.settings;
        InputLimits {
            inputs: settings.max_inputs,
            text_chars: settings.max_text_chars,
            ids: settings.max_request_tokens,
            depth: settings.json_depth,
        }
    }

    /// Reads a body as the fields of `object`, and gives its part of the budget along.
    pub(crate) async fn read<T: Object + Send + 'static>(
        &self,
        request: Request<Body>,
        object: T,
    ) -> Result<(T, Share), ApiError> {
        let mut leaving = LeftWhileReading { metrics: Some(&self.metrics) };
        let received = body::read(request, &self.settings, &self.bodies).await;
        if received.as_ref().is_err_and(ApiError::is_cut_off) {
            // Nobody is there to read the answer.
            return Err(ApiError::cut_off());
        }
        let object = match received {
            Ok(body::Received { bytes, share }) => {
                let depth = self.settings.json_depth;
                let object = if bytes.len() < HEAVY_BODY {
                    json::read(&bytes, object, depth)
                } else {
                    self.heavy(move || json::read(&bytes, object, depth)).await
                };
                object.map(|object| (object, share))
            }
            Err(error) => Err(error),
        };
        leaving.metrics = None;
        object
    }

    /// Runs something that takes long on a thread that may block.
    pub(crate) async fn heavy<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = Arc::clone(&self.heavy).acquire_owned().await;
        let work = move || {
            let done = work();
            // Kept until here, also where nobody waits for the answer any more.
            drop(permit);
            done
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(ApiError::internal("the request could not be read")))
    }

    /// Computes the rows of an ask.
    pub(crate) async fn embed(&self, model: &Running, ask: Ask) -> Result<Answer, ApiError> {
        let Ask { input, field, dimensions, truncate, normalize, urgency } = ask;
        let mut options = options(model, dimensions, truncate)?;
        options.normalize = normalize.unwrap_or(options.normalize);
        let dim = model.model.output_dim(&options).map_err(|error| {
            ApiError::invalid(Some("dimensions"), format!("`dimensions`: {error}"))
        })?;
        let texts = input.len();
        let request = self.request_options(model, texts, urgency)?;
        let size = if texts > self.settings.bulk_texts { Size::Large } else { Size::Small };
        // Who sends many texts gets a part of the queue only.
        let _bulk = match size {
            Size::Large => Some(
                model
                    .bulk
                    .take(texts, Size::Small)
                    .ok_or_else(|| bulk_full(model, texts, field))?,
            ),
            Size::Small => None,
        };
        let bytes = texts.saturating_mul(dim).saturating_mul(size_of::<f32>());
        let share = self.take_rows(bytes, size)?;
        let inputs = self.resolve(model, input, field).await?;
        let rows = model.batcher.embed_many(inputs, &options, &request).await;
        let rows = rows.map_err(|error| ApiError::of_batch(error, field))?;
        // A call on this very thread is not interrupted.
        urgency.in_time()?;
        let tokens: usize = rows.iter().map(|row| row.info.tokens).sum();
        let limit = self.settings.max_request_tokens;
        if tokens > limit {
            let message = format!(
                "`{field}`: {tokens} tokens, at most {limit} in one request (setting `max_request_tokens`)"
            );
            return Err(ApiError::over_limit(field, message));
        }
        model.metrics.texts.inc_by(texts as u64);
        model.metrics.tokens.inc_by(tokens as u64);
        Ok(Answer { rows, tokens, share })
    }

    /// A part of the memory for answers.
    pub(crate) fn take_rows(&self, bytes: usize, size: Size) -> Result<Share, ApiError> {
        self.rows.take(bytes, size).ok_or_else(|| rows_full(&self.rows, bytes, size))
    }

    async fn resolve(
        &self,
        model: &Running,
        input: Input,
        field: &'static str,
    ) -> Result<Vec<OwnedInput>, ApiError> {
        let vocabulary = model.model.vocabulary_size();
        if !inputs::is_slow(&input, &self.settings) {
            return inputs::resolve(input, field, vocabulary, &self.settings);
        }
        let settings = self.settings.clone();
        let started = Instant::now();
        let resolved =
            self.heavy(move || inputs::resolve(input, field, vocabulary, &settings)).await;
        model.metrics.tokenize.observe(started.elapsed().as_secs_f64());
        resolved
    }

    fn request_options(
        &self,
        model: &Running,
        texts: usize,
        urgency: Urgency,
    ) -> Result<RequestOptions, ApiError> {
        let is_bulk = urgency.class == Class::Bulk || texts > self.settings.bulk_texts;
        let class = if is_bulk { Class::Bulk } else { Class::Interactive };
        let options = RequestOptions { class, ..RequestOptions::default() };
        let Some(within) = urgency.in_time()? else { return Ok(options) };
        let expected = model.batcher.expected_wait(class);
        if expected > within {
            let message = format!("{expected:?} of work waits, the deadline is in {within:?}");
            return Err(ApiError::busy("too_late", message, expected));
        }
        Ok(options.with_deadline(model.batcher.deadline_in(within)))
    }
}

/// The options of a request.
fn options(
    model: &Running,
    dimensions: Option<u64>,
    truncate: Option<bool>,
) -> Result<EncodeOptions, ApiError> {
    let mut options = model.options.clone();
    if let Some(dimensions) = dimensions {
        let dim = model.model.dim();
        let wanted = usize::try_from(dimensions).ok().filter(|wanted| (1..=dim).contains(wanted));
        let wanted = wanted.and_then(std::num::NonZeroUsize::new).ok_or_else(|| {
            let message = format!("`dimensions`: expected 1 to {dim}, found {dimensions}");
            ApiError::invalid(Some("dimensions"), message)
        })?;
        // All of them is what the model does anyway: such requests share batches with all others.
        options = options.with_dims(Some(wanted).filter(|wanted| wanted.get() < dim));
    }
    Ok(match truncate {
        Some(true) => options.with_overflow(Overflow::Cut),
        Some(false) => options.with_overflow(Overflow::Error),
        None => options,
    })
}

fn bulk_full(model: &Running, texts: usize, field: &'static str) -> ApiError {
    let limit = model.bulk.limit(Size::Small);
    if texts > limit {
        let message = format!(
            "`{field}`: {texts} inputs, and the queue has room for {limit} of one request (settings \
             `queue_texts`, `queue_reserve`)"
        );
        return ApiError::over_limit(field, message);
    }
    let message = format!(
        "large requests have {} texts waiting, at most {limit} may (settings `queue_texts`, \
         `queue_reserve`)",
        model.bulk.used()
    );
    let wait = model.batcher.expected_wait(Class::Bulk).max(Duration::from_millis(10));
    ApiError::busy("bulk_full", message, wait)
}

fn rows_full(rows: &Budget, bytes: usize, size: Size) -> ApiError {
    let limit = rows.limit(size);
    if bytes > limit {
        let message = format!(
            "the answer would have {bytes} bytes, at most {limit} may be in use (setting \
             `row_bytes_in_flight`)"
        );
        return ApiError::invalid(None, message);
    }
    let message = format!(
        "the answers of other requests leave no room: {} of {limit} bytes are in use (setting \
         `row_bytes_in_flight`)",
        rows.used()
    );
    ApiError::busy("rows_full", message, Duration::from_millis(100))
}

/// What a request asks of a model.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) input: Input,
    /// The name of its field, for errors.
    pub(crate) field: &'static str,
    pub(crate) dimensions: Option<u64>,
    /// Whether long texts are cut; `None` is as the server has it.
    pub(crate) truncate: Option<bool>,
    /// Whether rows get length 1; `None` is as the server has it.
    pub(crate) normalize: Option<Normalize>,
    pub(crate) urgency: Urgency,
}

impl Ask {
    /// The rows of `input`, which came as `field`, as the server makes them.
    pub(crate) fn new(field: &'static str, input: Input) -> Self {
        Self {
            input,
            field,
            dimensions: None,
            truncate: None,
            normalize: None,
            urgency: Urgency::default(),
        }
    }
}

/// What it gets.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<EmbeddedRow>,
    pub(crate) tokens: usize,
    /// Of the budget of rows; to be kept until they are sent.
    pub(crate) share: Share,
}

/// How urgent a request is, by its headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Urgency {
    class: Class,
    deadline: Option<Instant>,
}

impl Urgency {
    /// Of a request that has just come.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let class = match headers.get("x-embed-priority").map(HeaderValue::as_bytes) {
            None | Some(b"interactive") => Class::Interactive,
            Some(b"bulk") => Class::Bulk,
            Some(_) => {
                let message = "the header x-embed-priority: expected `interactive` or `bulk`";
                return Err(ApiError::invalid(Some("x-embed-priority"), message));
            }
        };
        let Some(value) = headers.get("x-embed-deadline-ms") else {
            return Ok(Self { class, deadline: None });
        };
        let digits =
            value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let millis = digits.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let message = "the header x-embed-deadline-ms: expected a whole number of milliseconds";
            ApiError::invalid(Some("x-embed-deadline-ms"), message)
        })?;
        // What is too far away for an instant is never.
        Ok(Self { class, deadline: Instant::now().checked_add(Duration::from_millis(millis)) })
    }

    /// How much time is left; `None` is without end.
    fn in_time(self) -> Result<Option<Duration>, ApiError> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ApiError::expired()) } else { Ok(Some(left)) }
    }
}

/// Counts a client that goes away before its body was read: the handler is dropped then.
struct LeftWhileReading<'a> {
    metrics: Option<&'a Metrics>,
}

impl Drop for LeftWhileReading<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics {
            metrics.left_while_reading();
        }
    }
}
