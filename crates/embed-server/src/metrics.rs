//! What the server counts, in the words of Prometheus.
//!
//! Every series exists from the start, at zero, so that a rate can be taken of the first event. Labels take
//! values from lists that are fixed when the server starts; nothing that a client sends becomes one.

use std::fmt::Write as _;
use std::time::Duration;

use axum::http::StatusCode;
use embed_batcher::{CloseCause, Observation, Observer, Route};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Status codes that the server answers with.
const CODES: [u16; 13] = [200, 400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 503, 504];

/// Why requests are refused: the reasons of `error.rs`, and connections beyond the limit.
const REASONS: [&str; 20] = [
    "invalid",
    "too_large",
    "unauthorized",
    "forbidden_host",
    "forbidden_origin",
    "no_route",
    "model_not_found",
    "wrong_method",
    "slow_body",
    "large_body",
    "media_type",
    "queue_full",
    "bulk_full",
    "bodies_full",
    "rows_full",
    "too_late",
    "unavailable",
    "backend",
    "expired",
    "connections",
];

/// Where a request was when its client went away.
const STAGES: [&str; 3] = ["reading", "queued", "running"];
/// Of these, those that a model knows.
const OF_MODEL: [&str; 2] = [STAGES[1], STAGES[2]];

const CAUSES: [&str; 4] = ["exhausted", "rows", "tokens", "fairness"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Code {
    model: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    model: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Stage {
    model: String,
    stage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Cause {
    model: String,
    cause: &'static str,
}

/// Makes histograms of durations, from 5 microseconds to 10 seconds, or of sizes, from 1 to a million.
#[derive(Clone, Copy, Debug)]
enum Buckets {
    Seconds,
    Sizes,
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        match self {
            Self::Seconds => Histogram::new(exponential_buckets(5e-6, 2.0, 22)),
            Self::Sizes => Histogram::new(exponential_buckets(1.0, 2.0, 21)),
        }
    }
}

type Histograms = Family<Named, Histogram, Buckets>;

/// All metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Code, Counter>,
    rejected: Family<ReasonLabel, Counter>,
    cancelled: Family<Stage, Counter>,
    closed: Family<Cause, Counter>,
    counters: [(&'static str, Family<Named, Counter>); 6],
    gauges: [(&'static str, Family<Named, Gauge>); 2],
    histograms: [(&'static str, Histograms); 6],
    ready: Gauge,
}

/// What one model counts. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct ModelMetrics {
    requests: [Counter; CODES.len()],
    cancelled: [Counter; OF_MODEL.len()],
    closed: [Counter; CAUSES.len()],
    pub(crate) texts: Counter,
    pub(crate) tokens: Counter,
    deduplicated: Counter,
    cache_hits: Counter,
    cache_misses: Counter,
    panics: Counter,
    queue_texts: Gauge,
    inflight: Gauge,
    pub(crate) duration: Histogram,
    queue_wait: Histogram,
    pub(crate) tokenize: Histogram,
    forward: Histogram,
    batch_texts: Histogram,
    batch_tokens: Histogram,
}

/// Counters by name, with what they count.
const COUNTERS: [(&str, &str); 6] = [
    ("embed_texts", "Texts that were embedded"),
    ("embed_tokens", "Tokens that were embedded, as in `usage`"),
    ("embed_dedup_saved_texts", "Texts that got the row of an equal one computed at the same time"),
    ("embed_cache_hits", "Texts whose row was kept from before"),
    ("embed_cache_misses", "Texts looked for among the kept rows, and not found"),
    ("embed_backend_panics", "Batches in which the model panicked"),
];

const GAUGES: [(&str, &str); 2] = [
    ("embed_queue_texts", "Texts that wait for a batch"),
    ("embed_inflight_batches", "Batches that are being computed"),
];

const HISTOGRAMS: [(&str, &str, Buckets); 6] = [
    (
        "embed_request_duration_seconds",
        "From the head of a request to the head of its answer",
        Buckets::Seconds,
    ),
    (
        "embed_queue_wait_seconds",
        "From admission to the first batch of a request",
        Buckets::Seconds,
    ),
    (
        "embed_tokenize_seconds",
        "Tokenizing apart from embedding: decoding foreign token ids, and /tokenize",
        Buckets::Seconds,
    ),
    ("embed_forward_seconds", "One batch: tokenizing and pooling are one pass", Buckets::Seconds),
    ("embed_batch_texts", "Texts of a batch", Buckets::Sizes),
    ("embed_batch_tokens", "Tokens of a batch", Buckets::Sizes),
];

impl Metrics {
    pub(crate) fn new(models: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut registry = Registry::default();
        let requests = Family::<Code, Counter>::default();
        registry.register("embed_requests", "Requests answered", requests.clone());
        let rejected = Family::<ReasonLabel, Counter>::default();
        registry.register("embed_rejected", "Requests refused, and why", rejected.clone());
        let cancelled = Family::<Stage, Counter>::default();
        let help = "Texts whose client went away, and where they were";
        registry.register("embed_cancelled", help, cancelled.clone());
        let closed = Family::<Cause, Counter>::default();
        let help = "Batches by what kept them from being larger";
        registry.register("embed_batch_close", help, closed.clone());
        let counters = COUNTERS.map(|(name, help)| {
            let family = Family::<Named, Counter>::default();
            registry.register(name, help, family.clone());
            (name, family)
        });
        let gauges = GAUGES.map(|(name, help)| {
            let family = Family::<Named, Gauge>::default();
            registry.register(name, help, family.clone());
            (name, family)
        });
        let histograms = HISTOGRAMS.map(|(name, help, buckets)| {
            let family = Histograms::new_with_constructor(buckets);
            registry.register(name, help, family.clone());
            (name, family)
        });
        let ready = Gauge::default();
        registry.register("embed_ready", "1 while requests are taken", ready.clone());
        let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("embed_build", "The program", info);
        for reason in REASONS {
            rejected.get_or_create_owned(&ReasonLabel { reason });
        }
        let metrics = Self {
            registry,
            requests,
            rejected,
            cancelled,
            closed,
            counters,
            gauges,
            histograms,
            ready,
        };
        // Requests that are for no model count under the empty name.
        metrics.requests_of("");
        metrics.cancelled.get_or_create_owned(&Stage { model: String::new(), stage: STAGES[0] });
        for model in models {
            metrics.of_model(&model.into());
        }
        metrics
    }

    fn requests_of(&self, model: &str) -> [Counter; CODES.len()] {
        let count = |code| Code { model: model.to_owned(), code };
        CODES.map(|code| self.requests.get_or_create_owned(&count(code)))
    }

    /// The counters of one model.
    pub(crate) fn of_model(&self, model: &str) -> ModelMetrics {
        let named = Named { model: model.to_owned() };
        let [texts, tokens, deduplicated, cache_hits, cache_misses, panics] =
            self.counters.each_ref().map(|(_, family)| family.get_or_create_owned(&named));
        let [queue_texts, inflight] =
            self.gauges.each_ref().map(|(_, family)| family.get_or_create_owned(&named));
        let [duration, queue_wait, tokenize, forward, batch_texts, batch_tokens] =
            self.histograms.each_ref().map(|(_, family)| family.get_or_create_owned(&named));
        let stage = |stage| Stage { model: model.to_owned(), stage };
        let cause = |cause| Cause { model: model.to_owned(), cause };
        ModelMetrics {
            requests: self.requests_of(model),
            cancelled: OF_MODEL.map(|name| self.cancelled.get_or_create_owned(&stage(name))),
            closed: CAUSES.map(|name| self.closed.get_or_create_owned(&cause(name))),
            texts,
            tokens,
            deduplicated,
            cache_hits,
            cache_misses,
            panics,
            queue_texts,
            inflight,
            duration,
            queue_wait,
            tokenize,
            forward,
            batch_texts,
            batch_tokens,
        }
    }

    /// Counts an answer that no model gave.
    pub(crate) fn answered(&self, status: StatusCode) {
        let code = Code { model: String::new(), code: status.as_u16() };
        self.requests.get_or_create(&code).inc();
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, reason: &'static str) {
        debug_assert!(REASONS.contains(&reason), "{reason} is not at zero from the start");
        self.rejected.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a client that went away while its request was read, when no model was known yet.
    pub(crate) fn left_while_reading(&self) {
        let stage = Stage { model: String::new(), stage: STAGES[0] };
        self.cancelled.get_or_create(&stage).inc();
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.ready.set(i64::from(is_ready));
    }

    /// The page that Prometheus reads, in the OpenMetrics text format.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        if encode(&mut page, &self.registry).is_err() {
            // Writing to a string does not fail.
            let _ = write!(page, "# EOF");
        }
        page
    }
}

impl ModelMetrics {
    /// Counts an answer.
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        if let Some(place) = CODES.iter().position(|&code| code == status.as_u16()) {
            self.requests[place].inc();
        }
        self.duration.observe(took.as_secs_f64());
    }

    /// What waits and runs at this moment.
    pub(crate) fn set_load(&self, queued_texts: usize, running_batches: u64) {
        self.queue_texts.set(i64::try_from(queued_texts).unwrap_or(i64::MAX));
        self.inflight.set(i64::try_from(running_batches).unwrap_or(i64::MAX));
    }
}

/// Counts what a batcher tells.
#[derive(Debug)]
pub(crate) struct BatchObserver {
    metrics: ModelMetrics,
}

impl BatchObserver {
    pub(crate) fn new(metrics: ModelMetrics) -> Self {
        Self { metrics }
    }
}

impl Observer for BatchObserver {
    fn observe(&self, observation: &Observation<'_>) {
        let metrics = &self.metrics;
        match *observation {
            Observation::BatchStarted { rows, tokens, cause, route, .. } => {
                metrics.batch_texts.observe(rows as f64);
                metrics.batch_tokens.observe(tokens as f64);
                let cause = match (cause, route) {
                    (CloseCause::Rows, _) => 1,
                    (CloseCause::Tokens, _) => 2,
                    (CloseCause::Fairness, _) => 3,
                    (_, Route::Inline | Route::Queued | Route::Direct) => 0,
                };
                metrics.closed[cause].inc();
            }
            Observation::BatchFinished { ran, panicked, .. } => {
                metrics.forward.observe(ran.as_secs_f64());
                metrics.panics.inc_by(u64::from(panicked));
            }
            Observation::Completed { waited, .. } => {
                metrics.queue_wait.observe(waited.as_secs_f64());
            }
            Observation::Cancelled { queued, running } => {
                metrics.cancelled[0].inc_by(queued as u64);
                metrics.cancelled[1].inc_by(running as u64);
            }
            Observation::Shared { texts } => {
                metrics.deduplicated.inc_by(texts as u64);
            }
            Observation::CacheLookup { hits, misses } => {
                metrics.cache_hits.inc_by(hits as u64);
                metrics.cache_misses.inc_by(misses as u64);
            }
            _ => {}
        }
    }
}
