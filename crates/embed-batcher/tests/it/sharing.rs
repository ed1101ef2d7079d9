//! Equal items: in flight together, and one after the other.

use embed_batcher::RequestOptions;

use crate::held::{held, until_queued};

#[tokio::test(flavor = "multi_thread")]
async fn equal_items_in_flight_compute_once() {
    let (batcher, hand) = held(|_| {});
    let request = RequestOptions::default();
    let first = batcher.submit(["same"], &0, &request);
    hand.until(|calls| calls.len() == 1).await;
    let joins = batcher.submit(["same"], &0, &request);
    let gone = batcher.submit(["same"], &0, &request);
    let other_options = batcher.submit(["same", "same"], &1, &request);
    // Those that join are counted while they wait for the row.
    until_queued(&batcher, 4).await;
    drop(gone);
    until_queued(&batcher, 3).await;
    hand.release_all();
    assert_eq!(first.await, Ok(vec![4]));
    assert_eq!(joins.await, Ok(vec![4]));
    assert_eq!(other_options.await, Ok(vec![5, 5]));
    assert_eq!(hand.calls(), [["same"], ["same"]]);
    assert_eq!(batcher.stats().shared, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_keeps_so_many_rows_and_no_more() {
    for inline_bytes in [0, 4096] {
        let (batcher, hand) = held(|config| {
            (config.inline_bytes, config.cache_rows, config.cache_item_bytes) =
                (inline_bytes, 2, 5);
        });
        hand.release_all();
        let request = RequestOptions::default();
        let many = |texts: &'static [&'static str]| {
            batcher.embed_many(texts.iter().copied(), &0, &request)
        };
        assert_eq!(many(&["a", "bc"]).await, Ok(vec![1, 2]));
        // One known, one new: the new one pushes out what was used least recently.
        assert_eq!(many(&["a", "def"]).await, Ok(vec![1, 3]));
        assert_eq!(many(&["a", "def", "a"]).await, Ok(vec![1, 3, 1]));
        assert_eq!(many(&["bc"]).await, Ok(vec![2]));
        assert_eq!(many(&["too long"]).await, Ok(vec![8]));
        assert_eq!(many(&["too long"]).await, Ok(vec![8]));
        assert_eq!(batcher.embed_with("bc", &1, &request).await, Ok(3));
        let calls: Vec<String> = hand.calls().concat();
        assert_eq!(calls, ["a", "bc", "def", "bc", "too long", "too long", "bc"]);
        assert_eq!(batcher.stats().cache_hits, 4);
    }
}
