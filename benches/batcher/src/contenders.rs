//! The ways from a caller to the work.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use batch_aint_one::{BatchingPolicy, Limits, OnFull, Processor};
use embed_batcher::{Backend, BatchConfig, Batcher, Cost};

use crate::work::Work;

/// A way from one text to its row.
#[derive(Clone)]
pub struct Contender {
    pub name: &'static str,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Direct(Work),
    Ours(Batcher<Ours>),
    Theirs(Arc<batch_aint_one::Batcher<Theirs>>),
}

impl Contender {
    /// The work on the caller's own task.
    pub fn direct(work: &Work) -> Self {
        Self { name: "direct call in each task", way: Way::Direct(work.clone()) }
    }

    /// `embed-batcher` as it comes.
    pub fn batcher(work: &Work) -> Self {
        let config = BatchConfig { slots: work.slots, ..BatchConfig::default() };
        // A device wants company, not a caller's thread.
        let inline_bytes = if work.slots == 1 { 0 } else { config.inline_bytes };
        Self::ours("embed-batcher", work, BatchConfig { inline_bytes, ..config })
    }

    /// `embed-batcher` with everything through the queue.
    pub fn queued(work: &Work) -> Self {
        let config = BatchConfig { slots: work.slots, inline_bytes: 0, ..BatchConfig::default() };
        Self::ours("embed-batcher, always through the queue", work, config)
    }

    /// A plain window of 25 ms, 16 texts at most.
    pub fn window(work: &Work) -> Self {
        let window = BatchConfig::fixed_window(Duration::from_millis(25), 16);
        let config = BatchConfig { slots: work.slots, ..window };
        Self::ours("embed-batcher, fixed window of 25 ms, 16 texts", work, config)
    }

    fn ours(name: &'static str, work: &Work, config: BatchConfig) -> Self {
        let batcher = Batcher::builder(Ours(work.clone())).config(config).spawn();
        Self { name, way: Way::Ours(batcher.expect("a valid setup")) }
    }

    /// `batch-aint-one`: as soon as possible, or after a window.
    pub fn batch_aint_one(work: &Work, rows: usize, window: Option<Duration>) -> Self {
        let limits = Limits::builder()
            .max_batch_size(rows)
            .max_key_concurrency(work.slots)
            .max_key_queued_items(4096)
            .max_items_awaiting_worker(4096)
            .build();
        let policy = match window {
            None => BatchingPolicy::Immediate,
            Some(window) => BatchingPolicy::Duration(window, OnFull::Process),
        };
        let batcher = batch_aint_one::Batcher::builder()
            .name("bench")
            .processor(Theirs(work.clone()))
            .limits(limits)
            .batching_policy(policy)
            .build();
        let name = match window {
            None => "batch-aint-one, immediate",
            Some(_) => "batch-aint-one, window of 25 ms, 16 texts",
        };
        Self { name, way: Way::Theirs(Arc::new(batcher)) }
    }

    /// The row of a text.
    pub async fn embed(&self, text: String) -> Arc<[f32]> {
        match &self.way {
            Way::Direct(work) => work.run(&[&text]).pop().expect("a row"),
            Way::Ours(batcher) => batcher.embed(text).await.expect("a row"),
            Way::Theirs(batcher) => batcher.add((), text).await.expect("a row"),
        }
    }
}

/// The work as a backend of ours.
pub struct Ours(Work);

impl Backend for Ours {
    type Item = str;
    type Options = ();
    type Row = Arc<[f32]>;
    type Error = Infallible;

    fn cost(&self, text: &str, (): &()) -> Cost {
        Cost { tokens: text.len() / 4, bytes: text.len() }
    }

    fn run(&self, texts: &[&str], (): &()) -> Result<Vec<Arc<[f32]>>, Infallible> {
        Ok(self.0.run(texts))
    }
}

/// The work as a processor of theirs: on a blocking thread, as ours.
#[derive(Clone)]
pub struct Theirs(Work);

impl Processor for Theirs {
    type Key = ();
    type Input = String;
    type Output = Arc<[f32]>;
    type Error = String;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), String> {
        Ok(())
    }

    async fn process(
        &self,
        (): (),
        inputs: impl Iterator<Item = String> + Send,
        (): (),
    ) -> Result<Vec<Arc<[f32]>>, String> {
        let texts: Vec<String> = inputs.collect();
        let work = self.0.clone();
        let rows = tokio::task::spawn_blocking(move || {
            let views: Vec<&str> = texts.iter().map(String::as_str).collect();
            work.run(&views)
        });
        rows.await.map_err(|error| error.to_string())
    }
}
