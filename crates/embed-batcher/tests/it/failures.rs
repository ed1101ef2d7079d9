//! Errors, panics and refusals: typed, to those whom they concern, and without after-effects.

use std::error::Error as _;
use std::time::Duration;

use embed_batcher::{Amount, Error, RequestOptions, Resource};

use crate::held::{Bad, held, until_queued};

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
