//! Every way in which a batcher can end.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use embed_batcher::{Amount, DeviceGate, Error, Owner, RequestOptions};
use embed_core::block_on;

use crate::held::{builder, held, until_queued};

const MINUTE: Duration = Duration::from_mins(1);

/// Polls a future once, which has to wait. A drain admits nothing from then on.
async fn begun<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let pending = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
    assert!(pending, "something still runs");
    future
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_finishes_the_old_and_refuses_the_new() {
    let (batcher, hand) = held(|config| config.max_rows = 2);
    let request = RequestOptions::default();
    let old = batcher.submit(["a", "b", "c", "d", "e"], &0, &request);
    hand.until(|calls| calls.len() == 1).await;
    let drain = begun(batcher.drain(batcher.deadline_in(MINUTE))).await;
    assert_eq!(batcher.embed("new").await, Err(Error::Draining));
    let none: [&str; 0] = [];
    assert_eq!(batcher.embed_many(none, &0, &request).await, Err(Error::Draining));
    assert_eq!(batcher.embed_direct(["new"], &0, &request).await, Err(Error::Draining));
    hand.release_all();
    assert_eq!(old.await, Ok(vec![1; 5]));
    assert_eq!(drain.await.abandoned, 0);
    assert_eq!(batcher.embed("new").await, Err(Error::Closed));
    assert_eq!(batcher.drain(batcher.deadline_in(MINUTE)).await.abandoned, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_arrays_around_the_queue() {
    let (batcher, hand) = held(|_| {});
    let array = tokio::spawn({
        let batcher = batcher.clone();
        async move { batcher.embed_direct(["a", "b"], &0, &RequestOptions::default()).await }
    });
    hand.until(|calls| calls.len() == 1).await;
    let drain = begun(batcher.drain(batcher.deadline_in(MINUTE))).await;
    hand.release_all();
    assert_eq!(drain.await.abandoned, 0);
    assert_eq!(array.await.expect("no panic"), Ok(vec![1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_up_at_its_deadline() {
    let (batcher, hand) = held(|_| {});
    let request = RequestOptions::default();
    let running = batcher.submit(["running"], &0, &request);
    // The clock stands still while the blocking thread is busy, and moves when all else waits.
    hand.until(|calls| calls.len() == 1).await;
    let waiting = batcher.submit(["waiting"], &0, &request);
    let drain = begun(batcher.drain(batcher.deadline_in(MINUTE))).await;
    tokio::time::advance(MINUTE).await;
    assert_eq!(drain.await.abandoned, 2);
    assert_eq!(running.await, Err(Error::Closed));
    assert_eq!(waiting.await, Err(Error::Closed));
    hand.release_all();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_wakes_whoever_waits() {
    let (batcher, hand) = held(|_| {});
    let request = RequestOptions::default();
    let running = batcher.submit(["running"], &0, &request);
    hand.until(|calls| calls.len() == 1).await;
    let waiting = batcher.submit(["waiting"], &0, &request);
    until_queued(&batcher, 1).await;
    drop(batcher.clone());
    drop(batcher);
    assert_eq!(waiting.await, Err(Error::Closed));
    assert_eq!(running.await, Err(Error::Closed));
    hand.release_all();
}

#[test]
fn a_runtime_that_shuts_down_wakes_whoever_waits() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("threads");
    let (batcher, hand) = runtime.block_on(async { held(|_| {}) });
    let request = RequestOptions::default();
    let running = batcher.submit(["running"], &0, &request);
    runtime.block_on(hand.until(|calls| calls.len() == 1));
    let waiting = batcher.submit(["waiting"], &0, &request);
    runtime.shutdown_background();
    assert_eq!(block_on(waiting), Err(Error::Closed));
    assert_eq!(block_on(running), Err(Error::Closed));
    assert_eq!(block_on(batcher.embed("late")), Err(Error::Closed));
    let stats = batcher.stats();
    assert_eq!((stats.admitted, stats.closed, stats.queued), (2, 2, Amount::default()));
    hand.release_all();
}

#[tokio::test(start_paused = true)]
async fn an_array_that_waits_for_the_gate_ends_with_the_batcher() {
    let gate = DeviceGate::new();
    let (builder, hand) = builder(|_| {});
    let batcher = builder.gate(gate.clone(), Owner::shared("batcher")).spawn().expect("a runtime");
    let foreign = gate.try_acquire(&Owner::exclusive("generation"));
    let request = RequestOptions::default();
    let array = begun(batcher.embed_direct(["a", "b"], &0, &request)).await;
    let drain = batcher.drain(batcher.deadline_in(MINUTE)).await;
    assert_eq!(array.await, Err(Error::Closed));
    assert_eq!(drain.abandoned, 0, "it was not in the queue");
    assert_eq!(gate.occupancy().waiting, 0);
    drop(foreign);
    assert_eq!(hand.calls(), Vec::<Vec<String>>::new());
    assert_eq!(batcher.stats().closed, 2);
}

#[test]
fn a_worker_that_is_dropped_unpolled_answers_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    let (builder, _hand) = builder(|_| {});
    let (batcher, worker) = builder.pair().expect("a runtime is here");
    let waiting = batcher.submit(["waiting"], &0, &RequestOptions::default());
    assert_eq!(batcher.stats().queued.texts, 1);
    drop(worker);
    assert_eq!(block_on(waiting), Err(Error::Closed));
    assert_eq!(batcher.stats().queued.texts, 0);
}
