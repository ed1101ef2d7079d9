//! A backend that a test holds in its hand.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use embed_batcher::{Backend, BatchConfig, Batcher, Builder, Cost, Error};

/// The error of the backend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("item {position} is bad")]
pub(crate) struct Bad {
    pub(crate) position: usize,
}

/// What a batcher of [`Held`] returns.
pub(crate) type HeldError = Error<Bad>;

/// Row = length of the text. A text with `bad` fails the call that it is in, `panic` panics.
pub(crate) struct Held {
    calls: Arc<Mutex<Vec<Vec<String>>>>,
    go: Mutex<Receiver<()>>,
}

/// The hand.
pub(crate) struct Hand {
    calls: Arc<Mutex<Vec<Vec<String>>>>,
    go: Sender<()>,
}

impl Hand {
    /// Lets one call go on, now or when it comes.
    pub(crate) fn release(&self) {
        // A backend that is gone needs no leave.
        let _ = self.go.send(());
    }

    /// Lets every call go on.
    pub(crate) fn release_all(&self) {
        for _ in 0..10_000 {
            self.release();
        }
    }

    /// Texts of every call so far.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives other tasks their turn until `done`.
    pub(crate) async fn until(&self, done: impl Fn(&[Vec<String>]) -> bool) {
        until(|| done(&self.calls()), || format!("{:?}", self.calls())).await;
    }
}

impl Backend for Held {
    type Item = str;
    type Options = u8;
    type Row = usize;
    type Error = Bad;

    fn cost(&self, text: &str, _: &u8) -> Cost {
        assert_ne!(text, "costly", "no cost for this");
        Cost { tokens: 1, bytes: text.len() }
    }

    fn run(&self, texts: &[&str], options: &u8) -> Result<Vec<usize>, Bad> {
        let call = texts.iter().map(|text| (*text).to_owned()).collect();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        // A hand that is gone holds nothing.
        let _ = self.go.lock().unwrap_or_else(PoisonError::into_inner).recv();
        assert!(!texts.contains(&"panic"), "as the text says");
        match texts.iter().position(|text| text.contains("bad")) {
            Some(position) => Err(Bad { position }),
            None => Ok(texts.iter().map(|text| text.len() + usize::from(*options)).collect()),
        }
    }

    fn is_data_dependent(&self, error: &HeldError) -> bool {
        matches!(error, Error::Backend(_))
    }

    fn relocate(&self, _: Bad, position: usize) -> Bad {
        Bad { position }
    }
}

/// A batcher with one slot that never runs inline, and the hand that holds its backend.
pub(crate) fn held(configure: impl FnOnce(&mut BatchConfig)) -> (Batcher<Held>, Hand) {
    let (builder, hand) = builder(configure);
    (builder.spawn().expect("a runtime is here"), hand)
}

pub(crate) fn builder(configure: impl FnOnce(&mut BatchConfig)) -> (Builder<Held>, Hand) {
    let (go, wait) = channel();
    let calls = Arc::default();
    let backend = Held { calls: Arc::clone(&calls), go: Mutex::new(wait) };
    let mut config = BatchConfig::device();
    config.inline_bytes = 0;
    // A machine that is busy with other things slows no test's backend down.
    config.inline_time = Duration::MAX;
    configure(&mut config);
    (Batcher::builder(backend).config(config), Hand { calls, go })
}

/// Waits until so many texts are in the queue.
pub(crate) async fn until_queued(batcher: &Batcher<Held>, texts: usize) {
    let stats = || batcher.stats();
    until(|| stats().queued.texts == texts, || format!("{texts} not queued: {:?}", stats())).await;
}

/// Gives other tasks their turn until `done`; says what was `found` if that takes more than a minute.
pub(crate) async fn until(done: impl Fn() -> bool, found: impl Fn() -> String) {
    let waits = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_mins(1), waits).await;
    assert!(in_time.is_ok(), "{}", found());
}
