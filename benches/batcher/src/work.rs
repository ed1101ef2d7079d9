//! What is done for a batch of texts, in the same way for every contender.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use embed_core::{Embedder, EncodeOptions};
use embed_model2vec::StaticModel;

/// A function from texts to rows, and how often it was called.
#[derive(Clone)]
pub struct Work {
    pub name: &'static str,
    pub texts_a_caller: usize,
    /// Calls that may run at once.
    pub slots: usize,
    run: Arc<dyn Fn(&[&str]) -> Vec<Arc<[f32]>> + Send + Sync>,
    calls: Arc<AtomicUsize>,
}

impl Work {
    fn new(
        name: &'static str,
        texts_a_caller: usize,
        slots: usize,
        run: impl Fn(&[&str]) -> Vec<Arc<[f32]>> + Send + Sync + 'static,
    ) -> Self {
        Self { name, texts_a_caller, slots, run: Arc::new(run), calls: Arc::default() }
    }

    /// No work: what is left is the cost of the way to it.
    pub fn nothing() -> Self {
        let row: Arc<[f32]> = Arc::new([0.0]);
        Self::new("no work", 20, 2, move |texts| texts.iter().map(|_| Arc::clone(&row)).collect())
    }

    /// The embedded model on the CPU.
    pub fn model() -> Self {
        let model = StaticModel::default_embedded();
        Self::new("the default model", 20, 2, move |texts| {
            let rows = model.embed_with(texts, &EncodeOptions::default()).expect("rows");
            (0..rows.len()).map(|row| rows.row(row).into()).collect()
        })
    }

    /// A device: a millisecond for the call and ten microseconds for each text, one call at a time.
    pub fn device() -> Self {
        let device = std::sync::Mutex::new(());
        let row: Arc<[f32]> = Arc::new([0.0]);
        Self::new("a device (1 ms a call + 10 µs a text, one at a time)", 2, 1, move |texts| {
            let _alone = device.lock().expect("nobody panics");
            let micros = 1000 + 10 * texts.len() as u64;
            std::thread::sleep(Duration::from_micros(micros));
            texts.iter().map(|_| Arc::clone(&row)).collect()
        })
    }

    pub fn run(&self, texts: &[&str]) -> Vec<Arc<[f32]>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.run)(texts)
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A short query; no two are equal.
pub fn text(number: usize) -> String {
    format!("query {number}: where did I put my notes about micro-batching?")
}
