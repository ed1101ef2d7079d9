//! A model that is served: its names, its batcher, and what it may hold at once.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use embed_batcher::{BatchConfig, Batcher, ConfigError, EmbedderBackend, OwnedInput};
use embed_core::{Embedder, EncodeOptions, Tokens};

use crate::budget::Budget;
use crate::metrics::{BatchObserver, Metrics, ModelMetrics};
use crate::settings::Settings;
use crate::turns::InTurns;

/// What a server can serve: anything that embeds and counts tokens.
pub trait Model: Embedder + Tokens {}

impl<T: Embedder + Tokens> Model for T {}

/// A model with the names under which it is served.
#[derive(Clone)]
pub struct ServedModel {
    /// Its name in lists and answers.
    pub name: String,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The options of every request; requests choose dimensions, and whether to truncate.
    pub options: EncodeOptions,
    /// So many tokens of a text count, if there is a limit; told to clients who ask.
    pub max_tokens: Option<NonZeroUsize>,
    /// Where it computes.
    pub place: Place,
}

/// Where a model computes, which decides how it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On the processor: as many batches at once as there are threads, and small requests beside them where
    /// they were read.
    #[default]
    Processor,
    /// On a device: one call at a time, always on a thread that may wait.
    Device,
}

impl fmt::Debug for ServedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedModel")
            .field("name", &self.name)
            .field("aliases", &self.aliases)
            .finish_non_exhaustive()
    }
}

/// A model at work.
pub(crate) struct Running {
    pub(crate) name: String,
    /// The name as a string of JSON.
    pub(crate) quoted_name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: EncodeOptions,
    pub(crate) max_tokens: Option<NonZeroUsize>,
    pub(crate) batcher: Batcher<EmbedderBackend<OwnedInput>>,
    /// Texts of large requests that wait or run: less than the queue has room for, so that a client
    /// who sends many of them never closes it to those who ask for one.
    pub(crate) bulk: Budget,
    pub(crate) metrics: ModelMetrics,
}

impl Running {
    /// Starts the batcher of a model on the runtime that is current here.
    pub(crate) fn start(
        served: ServedModel,
        settings: &Settings,
        metrics: &Metrics,
    ) -> Result<Self, ConfigError> {
        let ServedModel { name, aliases, model, options, max_tokens, place } = served;
        let model_metrics = metrics.of_model(&name);
        let default = match place {
            Place::Processor => BatchConfig {
                slots: settings.threads().get(),
                inline_bytes: settings.inline_bytes,
                // A small question does not wait for a batch of somebody's bulk work.
                inline_slots: settings.threads().get(),
                ..BatchConfig::default()
            },
            Place::Device => BatchConfig::device(),
        };
        let config = BatchConfig {
            max_rows: settings.batch_texts,
            max_tokens: settings.batch_tokens,
            queue_texts: settings.queue_texts,
            queue_bytes: settings.body_bytes_in_flight,
            queue_tokens: settings.body_bytes_in_flight,
            cache_rows: settings.cache_rows,
            ..default
        };
        let embedder = Arc::clone(&model) as Arc<dyn Embedder>;
        let backend = EmbedderBackend::of_inputs(match place {
            Place::Processor => Arc::new(InTurns(embedder)),
            Place::Device => embedder,
        });
        let batcher = Batcher::builder(backend)
            .config(config)
            .observer(Arc::new(BatchObserver::new(model_metrics.clone())))
            .spawn()?;
        let bulk = Budget::new(settings.queue_texts.saturating_sub(settings.queue_reserve));
        Ok(Self {
            quoted_name: serde_json::Value::from(&*name).to_string(),
            name,
            aliases,
            model,
            options,
            max_tokens,
            batcher,
            bulk,
            metrics: model_metrics,
        })
    }

    /// Whether requests for `name` are for this model.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}
