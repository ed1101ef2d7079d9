//! Arrays around the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use embed_batcher::{
    DeviceGate, Error, Observation, Observer, Occupancy, Owner, RequestOptions, TokioClock,
};

use crate::held::{Bad, builder, held};

/// Counts how often a gate was held.
#[derive(Default)]
struct Holds(AtomicUsize);

impl Observer for Holds {
    fn observe(&self, observation: &Observation<'_>) {
        if matches!(observation, Observation::GateHeld { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_holds_the_gate_once_and_goes_in_pieces() {
    let holds = Arc::new(Holds::default());
    let gate = DeviceGate::observed(Arc::new(TokioClock::new()), holds.clone());
    let (builder, hand) = builder(|config| config.max_rows = 3);
    let batcher = builder.gate(gate.clone(), Owner::shared("batcher")).spawn().expect("a runtime");
    hand.release_all();
    let texts: Vec<String> = (0..8).map(|length| "x".repeat(length)).collect();
    let rows = batcher.embed_direct(texts.clone(), &0, &RequestOptions::default()).await;
    assert_eq!(rows, Ok((0..8).collect()));
    assert_eq!(hand.calls().iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 2]);
    assert_eq!(holds.0.load(Ordering::Relaxed), 1);
    // The same array through the queue takes the gate once for each batch.
    let rows = batcher.embed_many(texts, &0, &RequestOptions::default()).await;
    assert_eq!(rows, Ok((0..8).collect()));
    assert_eq!(holds.0.load(Ordering::Relaxed), 1 + 3);
    assert_eq!(gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_whose_caller_goes_stops_between_two_pieces() {
    let (batcher, hand) = held(|config| config.max_rows = 1);
    let array = tokio::spawn({
        let batcher = batcher.clone();
        async move { batcher.embed_direct(["a", "b", "c"], &0, &RequestOptions::default()).await }
    });
    hand.until(|calls| calls.len() == 1).await;
    array.abort();
    assert!(array.await.expect_err("aborted").is_cancelled());
    hand.release_all();
    assert_eq!(batcher.embed("next").await, Ok(4));
    assert_eq!(hand.calls(), [["a"], ["next"]]);
    let stats = batcher.stats();
    assert_eq!((stats.admitted, stats.completed, stats.cancelled), (4, 1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_of_an_array_is_named_by_its_place() {
    let (batcher, hand) = held(|config| config.max_rows = 2);
    hand.release_all();
    let array = ["a", "b", "c", "bad", "e"];
    let failed = batcher.embed_direct(array, &0, &RequestOptions::default()).await;
    assert_eq!(failed, Err(Error::Backend(Bad { position: 3 })));
    assert_eq!(
        batcher.embed_direct(["a", "b"], &0, &RequestOptions::default()).await,
        Ok(vec![1, 1])
    );
}

#[tokio::test(start_paused = true)]
async fn an_array_that_waits_for_the_gate_expires_without_a_trace() {
    let gate = DeviceGate::new();
    let (builder, hand) = builder(|_| {});
    let batcher = builder.gate(gate.clone(), Owner::shared("batcher")).spawn().expect("a runtime");
    let foreign = gate.try_acquire(&Owner::exclusive("generation"));
    let soon = || {
        let deadline = batcher.deadline_in(std::time::Duration::from_millis(5));
        RequestOptions::default().with_deadline(deadline)
    };
    for _ in 0..1000 {
        assert_eq!(batcher.embed_direct(["a"], &0, &soon()).await, Err(Error::Expired));
        assert_eq!(batcher.embed_with("a", &0, &soon()).await, Err(Error::Expired));
    }
    drop(foreign);
    hand.release_all();
    assert_eq!(batcher.embed("a").await, Ok(1));
    assert_eq!(hand.calls(), [["a"]]);
    assert_eq!(gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
    assert_eq!(batcher.stats().expired, 2000);
}
