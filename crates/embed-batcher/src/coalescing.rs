//! Embedders that share a device: one that coalesces callers, and the direct one beside it.

use std::sync::Arc;
use std::time::Duration;

use embed_core::{AsyncEmbedder, BoxFuture, Embedder, Embeddings, EncodeOptions, Input, RowInfo};

use crate::config::{Class, RequestOptions};
use crate::embedder::{EmbeddedRow, EmbedderBackend};
use crate::error::Error;
use crate::gate::{DeviceGate, Owner};
use crate::handle::Batcher;

/// An [`Embedder`] whose every call holds a device gate.
///
/// It is the direct, synchronous path: the calling thread waits for its turn. Never give it to a
/// batcher that has the same gate: the batch would wait for itself.
pub struct GatedEmbedder {
    embedder: Arc<dyn Embedder>,
    gate: DeviceGate,
    owner: Owner,
}

impl GatedEmbedder {
    /// `embedder` behind `gate`, as `owner`.
    pub fn new(embedder: Arc<dyn Embedder>, gate: DeviceGate, owner: Owner) -> Self {
        Self { embedder, gate, owner }
    }
}

impl Embedder for GatedEmbedder {
    fn dim(&self) -> usize {
        self.embedder.dim()
    }

    fn model_id(&self) -> &str {
        self.embedder.model_id()
    }

    /// Waits for the gate, embeds the whole array under one hold of it, and gives it back.
    ///
    /// The thread sleeps while it waits: do not call it on a thread that drives futures.
    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), embed_core::Error> {
        let _guard = self.gate.acquire_blocking(&self.owner);
        self.embedder.embed_into(inputs, options, out, info)
    }
}

impl std::fmt::Debug for GatedEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatedEmbedder")
            .field("model_id", &self.model_id())
            .field("gate", &self.gate)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// How an array of several texts travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrays {
    /// Text by text through the queue, fairly among all others.
    #[default]
    Queued,
    /// On its own: in one slot and under one hold of the gate, in calls within the budgets.
    Direct,
}

/// An [`AsyncEmbedder`] over a batcher: many callers with a text each become few calls of the model.
///
/// ```
/// use std::sync::Arc;
/// use embed_batcher::{Batcher, CoalescingEmbedder, EmbedderBackend};
/// use embed_core::{AsyncEmbedder, Embedder, EncodeOptions, Error};
///
/// async fn search(model: Arc<dyn Embedder>, query: &str) -> Result<Vec<f32>, Error> {
///     let batcher = Batcher::builder(EmbedderBackend::new(model)).spawn().map_err(Error::backend)?;
///     let embedder = CoalescingEmbedder::new(batcher);
///     let rows = embedder.embed(vec![query.to_owned()], EncodeOptions::default()).await?;
///     Ok(rows.row(0).to_vec())
/// }
/// # let _ = search;
/// ```
#[derive(Clone, Debug)]
pub struct CoalescingEmbedder {
    batcher: Batcher<EmbedderBackend>,
    arrays: Arrays,
    class: Class,
    timeout: Option<Duration>,
}

impl CoalescingEmbedder {
    /// Over `batcher`, with arrays in the queue.
    pub fn new(batcher: Batcher<EmbedderBackend>) -> Self {
        Self { batcher, arrays: Arrays::default(), class: Class::default(), timeout: None }
    }

    /// The same with another way for arrays.
    #[must_use]
    pub fn with_arrays(self, arrays: Arrays) -> Self {
        Self { arrays, ..self }
    }

    /// The same with another class for every request.
    #[must_use]
    pub fn with_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// The same with a deadline for every request, so long after it is made.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The batcher, for deadlines, draining and statistics.
    pub fn batcher(&self) -> &Batcher<EmbedderBackend> {
        &self.batcher
    }

    /// The model itself, behind the batcher's gate where it has one: for callers who have a thread to
    /// spend and a batch of their own. Its calls take no slot, and no drain or statistic knows of them.
    pub fn direct(&self) -> Arc<dyn Embedder> {
        let embedder = Arc::clone(self.batcher.backend().embedder());
        match self.batcher.gate() {
            Some((gate, owner)) => {
                Arc::new(GatedEmbedder::new(embedder, gate.clone(), owner.clone()))
            }
            None => embedder,
        }
    }

    /// Embeds `texts` and says what became of each, in the batcher's own words if it fails.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`].
    pub async fn embed_rows(
        &self,
        texts: Vec<String>,
        options: &EncodeOptions,
    ) -> Result<Vec<EmbeddedRow>, Error<embed_core::Error>> {
        let deadline = self.timeout.map(|timeout| self.batcher.deadline_in(timeout));
        let request = RequestOptions { class: self.class, deadline };
        match self.arrays {
            Arrays::Direct if texts.len() > 1 => {
                self.batcher.embed_direct(texts, options, &request).await
            }
            _ => self.batcher.embed_many(texts, options, &request).await,
        }
    }
}

impl AsyncEmbedder for CoalescingEmbedder {
    fn dim(&self) -> usize {
        self.batcher.backend().embedder().dim()
    }

    fn model_id(&self) -> &str {
        self.batcher.backend().embedder().model_id()
    }

    fn embed(
        &self,
        texts: Vec<String>,
        options: EncodeOptions,
    ) -> BoxFuture<'_, Result<Embeddings, embed_core::Error>> {
        Box::pin(async move {
            let dim = self.batcher.backend().embedder().output_dim(&options)?;
            let rows = self.embed_rows(texts, &options).await?;
            let values = rows.iter().flat_map(|row| row.values.iter().copied()).collect();
            Embeddings::new(values, dim)
        })
    }
}
