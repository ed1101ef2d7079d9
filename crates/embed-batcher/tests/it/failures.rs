//! Errors, panics and refusals: typed, to those whom they concern, and without after-effects.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use embed_batcher::{
    Amount, ConfigError, DeviceGate, Error, Executor, Job, Observation, Observer, Occupancy, Owner,
    RequestOptions, Resource, TokioClock,
};

use crate::held::{Bad, builder, held, until_queued};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_fails_alone_and_at_its_place() {
    let (batcher, hand) = held(|_| {});
    let first = batcher.submit(["first"], &0, &RequestOptions::default());
    hand.until(|calls| calls.len() == 1).await;
    let request = RequestOptions::default();
    let good = batcher.submit(["good", "fine"], &0, &request);
    let bad = batcher.submit(["x", "y", "bad", "z"], &0, &request);
    let lone = batcher.submit(["also bad"], &0, &request);
    let last = batcher.submit(["last"], &0, &request);
    until_queued(&batcher, 8).await;
    hand.release_all();
    assert_eq!(first.await, Ok(vec![5]));
    assert_eq!(good.await, Ok(vec![4, 4]));
    assert_eq!(bad.await, Err(Error::Backend(Bad { position: 2 })));
    assert_eq!(lone.await, Err(Error::Backend(Bad { position: 0 })));
    assert_eq!(last.await, Ok(vec![4]));
    let stats = batcher.stats();
    assert_eq!((stats.completed, stats.failed, stats.batches), (4, 5, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_a_failed_batch_can_be_downcast() {
    let (batcher, hand) = held(|_| {});
    hand.release_all();
    let error = batcher.embed("bad").await.expect_err("it is bad").clone();
    let source = error.source().expect("the backend's own error");
    assert_eq!(source.downcast_ref::<Bad>(), Some(&Bad { position: 0 }));
    assert_eq!(batcher.embed("good").await, Ok(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_its_batch_and_no_other() {
    for inline_bytes in [0, 4096] {
        let (batcher, hand) = held(|config| config.inline_bytes = inline_bytes);
        hand.release_all();
        let expected = Error::Panicked { message: "as the text says".into() };
        assert_eq!(batcher.embed("panic").await, Err(expected));
        assert_eq!(batcher.embed("good").await, Ok(4));
        assert_eq!(batcher.stats().panics, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cost_function_that_panics_refuses_its_request() {
    let (batcher, hand) = held(|_| {});
    hand.release_all();
    let request = RequestOptions::default();
    for refused in [
        batcher.embed_many(["good", "costly"], &0, &request).await,
        batcher.embed_direct(["good", "costly"], &0, &request).await,
    ] {
        assert!(matches!(refused, Err(Error::Panicked { .. })), "{refused:?}");
    }
    assert_eq!(batcher.stats().queued, Amount::default());
    assert_eq!(batcher.stats().refused, 2);
    assert_eq!(batcher.embed("good").await, Ok(4));
}

/// Panics whenever it is told anything.
struct Touchy;

impl Observer for Touchy {
    fn observe(&self, _: &Observation<'_>) {
        std::panic::panic_any("touchy")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_that_panic_harm_nobody() {
    for inline_bytes in [0, 4096] {
        let gate = DeviceGate::observed(Arc::new(TokioClock::new()), Arc::new(Touchy));
        let (builder, hand) = builder(|config| config.inline_bytes = inline_bytes);
        let builder = builder.gate(gate.clone(), Owner::shared("batcher"));
        let batcher = builder.observer(Arc::new(Touchy)).spawn().expect("a runtime");
        hand.release_all();
        let request = RequestOptions::default();
        assert_eq!(batcher.embed("good").await, Ok(4));
        assert_eq!(batcher.embed_direct(["a", "bc"], &0, &request).await, Ok(vec![1, 2]));
        assert!(matches!(batcher.embed("bad").await, Err(Error::Backend(_))));
        assert_eq!(gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
    }
}

/// Has no thread to give.
struct NoThreads;

impl Executor for NoThreads {
    fn execute(&self, _: Job) {
        std::panic::panic_any("no thread")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_that_panics_fails_its_batch_and_leaves_nothing_behind() {
    let (builder, _hand) = builder(|_| {});
    let batcher = builder.executor(NoThreads).spawn().expect("a runtime");
    for _ in 0..3 {
        assert_eq!(batcher.embed("good").await, Err(Error::Closed));
        let direct = batcher.embed_direct(["a", "b"], &0, &RequestOptions::default()).await;
        assert_eq!(direct, Err(Error::Closed));
    }
    let stats = batcher.stats();
    assert_eq!((stats.queued, stats.running_batches, stats.closed), (Amount::default(), 0, 9));
}

#[test]
fn a_runtime_without_timers_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    let (builder, _hand) = builder(|_| {});
    assert_eq!(builder.spawn().err(), Some(ConfigError::NoTime));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_around_the_queue_count_while_they_wait() {
    let (batcher, hand) = held(|config| config.queue_texts = 4);
    let request = RequestOptions::default();
    let running = batcher.submit(["running"], &0, &request);
    hand.until(|calls| calls.len() == 1).await;
    let mut array = Box::pin(batcher.embed_direct(["a", "b", "c"], &0, &request));
    let waits = std::future::poll_fn(|context| {
        std::task::Poll::Ready(array.as_mut().poll(context).is_pending())
    });
    assert!(waits.await);
    let refused = batcher.embed_direct(["d", "e"], &0, &request).await;
    assert!(matches!(refused, Err(Error::Overloaded { queued: 3, .. })), "{refused:?}");
    let refused = batcher.embed_many(["d", "e"], &0, &request).await;
    assert!(matches!(refused, Err(Error::Overloaded { queued: 3, .. })), "{refused:?}");
    drop(array);
    let rest = batcher.submit(["d", "e", "f", "g"], &0, &request);
    hand.release_all();
    assert_eq!(running.await, Ok(vec![7]));
    assert_eq!(rest.await, Ok(vec![1; 4]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_at_once_and_whole() {
    let (batcher, hand) = held(|config| config.queue_texts = 4);
    let request = RequestOptions::default();
    let running = batcher.submit(["running"], &0, &request);
    hand.until(|calls| calls.len() == 1).await;
    let waiting = batcher.submit(["a", "b", "c"], &0, &request);
    until_queued(&batcher, 3).await;
    let refused = batcher.embed_many(["d", "e"], &0, &request).await;
    let Err(Error::Overloaded { resource, queued, requested, limit, .. }) = refused else {
        unreachable!("{refused:?}")
    };
    assert_eq!((resource, queued, requested, limit), (Resource::Texts, 3, 2, 4));
    let too_large = batcher.embed_many(["1", "2", "3", "4", "5"], &0, &request).await;
    let expected = Error::TooLarge { resource: Resource::Texts, requested: 5, limit: 4 };
    assert_eq!(too_large, Err(expected.clone()));
    let direct = batcher.embed_direct(["1", "2", "3", "4", "5"], &0, &request).await;
    assert_eq!(direct, Err(expected));
    hand.release_all();
    assert_eq!(running.await, Ok(vec![7]));
    assert_eq!(waiting.await, Ok(vec![1, 1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_late_already_is_refused() {
    let (batcher, hand) = held(|config| config.inline_bytes = 4096);
    let late = RequestOptions::default().with_deadline(batcher.deadline_in(Duration::ZERO));
    assert_eq!(batcher.embed_with("late", &0, &late).await, Err(Error::Expired));
    assert_eq!(batcher.embed_direct(["late"], &0, &late).await, Err(Error::Expired));
    assert_eq!(hand.calls(), Vec::<Vec<String>>::new());
}
