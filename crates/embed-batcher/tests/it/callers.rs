//! Many callers, few calls.

use std::time::Duration;

use embed_batcher::{Amount, BatchConfig, Batcher, Class, RequestOptions};
use tokio::task::JoinHandle;

use crate::held::{Held, HeldError, held, until, until_queued};

/// Asks for the row of a text in a task of its own.
fn ask(
    batcher: &Batcher<Held>,
    text: &'static str,
    request: RequestOptions,
) -> JoinHandle<Result<usize, HeldError>> {
    let batcher = batcher.clone();
    tokio::spawn(async move { batcher.embed_with(text, &0, &request).await })
}

/// Waits until the worker knows what callers have done: it counts an interactive request from before its
/// admission until a moment after its end.
async fn until_no_interactive_waits(batcher: &Batcher<Held>) {
    let wait = || batcher.expected_wait(Class::Interactive);
    until(|| wait().is_zero(), || format!("{:?} of interactive work", wait())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_while_a_batch_runs_go_together() {
    let (batcher, hand) = held(|_| {});
    let first = batcher.submit(["first"], &0, &RequestOptions::default());
    hand.until(|calls| calls.len() == 1).await;
    let callers: Vec<_> = (0..1000)
        .map(|length| {
            let batcher = batcher.clone();
            tokio::spawn(async move { batcher.embed("x".repeat(length)).await })
        })
        .collect();
    until_queued(&batcher, 1000).await;
    hand.release_all();
    assert_eq!(first.await, Ok(vec![5]));
    for (length, caller) in callers.into_iter().enumerate() {
        assert_eq!(caller.await.expect("no panic"), Ok(length));
    }
    let sizes: Vec<usize> = hand.calls().iter().map(Vec::len).collect();
    // A caller that was admitted a moment ago may still be about to send its message.
    assert!(sizes[0] == 1 && sizes.len() <= 3 && sizes.iter().sum::<usize>() == 1001, "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn four_in_five_of_five_hundred_cancel_and_the_next_five_hundred_succeed() {
    let (batcher, hand) = held(|config| config.max_rows = 100);
    let mut callers: Vec<_> = (0..500)
        .map(|index| batcher.submit([format!("{index}")], &0, &RequestOptions::default()))
        .collect();
    // The first batch, of those that came first, is with the backend; the rest waits.
    hand.until(|calls| calls.len() == 1).await;
    let running = hand.calls()[0].len();
    let mut index = 0;
    callers.retain(|_| {
        index += 1;
        index % 5 == 0
    });
    // Every fifth stays, and of those some are running.
    let stay_queued = 100 - running / 5;
    until_queued(&batcher, stay_queued).await;
    hand.release_all();
    for caller in callers {
        assert_eq!(caller.await.expect("a row").len(), 1);
    }
    let sent: usize = hand.calls().iter().map(Vec::len).sum();
    assert_eq!(sent, running + stay_queued);
    for index in 0..500 {
        let text = format!("again {index}");
        assert_eq!(batcher.embed(text.as_str()).await, Ok(text.len()));
    }
    let stats = batcher.stats();
    assert_eq!((stats.admitted, stats.completed, stats.cancelled), (1000, 600, 400));
    assert_eq!(stats.queued, Amount::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_callers_have_all_gone_never_reaches_the_backend() {
    let (batcher, hand) = held(|_| {});
    let first = batcher.submit(["first"], &0, &RequestOptions::default());
    hand.until(|calls| calls.len() == 1).await;
    let gone: Vec<_> =
        (0..10).map(|_| batcher.submit(["gone"], &0, &RequestOptions::default())).collect();
    until_queued(&batcher, 10).await;
    drop(gone);
    until_queued(&batcher, 0).await;
    hand.release_all();
    assert_eq!(first.await, Ok(vec![5]));
    assert_eq!(batcher.embed("last").await, Ok(4));
    assert_eq!(hand.calls(), [["first"], ["last"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_small_request_runs_on_its_own_thread() {
    let (batcher, hand) = held(|config| config.inline_bytes = 16);
    hand.release_all();
    assert_eq!(batcher.embed("small").await, Ok(5));
    let sixteen = "sixteen bytes ok";
    assert_eq!(batcher.embed(sixteen).await, Ok(16));
    assert_eq!(batcher.stats().inline, 2);
    assert_eq!(batcher.embed("seventeen bytes: ").await, Ok(17));
    assert_eq!(batcher.stats().inline, 2);
    let request = RequestOptions::default();
    assert_eq!(batcher.embed_many(["a", "bc", "a"], &1, &request).await, Ok(vec![2, 3, 2]));
    assert_eq!(batcher.stats().inline, 5);
    // Equal items of one call compute once.
    assert_eq!(hand.calls().last(), Some(&vec!["a".to_owned(), "bc".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_small_interactive_request_passes_bulk_work_and_nobody_else() {
    let (batcher, hand) = held(|config| (config.inline_bytes, config.inline_slots) = (16, 1));
    let (bulk, interactive) = (RequestOptions::bulk(), RequestOptions::default());
    let running = ask(&batcher, "running, with more bytes than run at once", bulk);
    hand.until(|calls| calls.len() == 1).await;
    let waiting = ask(&batcher, "waiting, with more bytes than run at once", bulk);
    until_queued(&batcher, 1).await;
    let small = ask(&batcher, "small", interactive);
    hand.until(|calls| calls.len() == 2).await;
    assert_eq!(hand.calls()[1], ["small"]);
    // Its slot is taken, and bulk work has none there.
    let queued = ask(&batcher, "second", interactive);
    let small_bulk = ask(&batcher, "bulk", bulk);
    until_queued(&batcher, 3).await;
    assert_eq!(hand.calls().len(), 2);
    hand.release_all();
    for pending in [running, waiting, small, queued, small_bulk] {
        assert!(pending.await.expect("no panic").is_ok());
    }
    assert_eq!(batcher.stats().inline, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interactive_request_in_the_queue_is_not_passed() {
    let (batcher, hand) = held(|config| (config.inline_bytes, config.inline_slots) = (16, 8));
    let running = ask(&batcher, "bulk work of more bytes", RequestOptions::bulk());
    hand.until(|calls| calls.len() == 1).await;
    let large = ask(&batcher, "more bytes than run at once", RequestOptions::default());
    until_queued(&batcher, 1).await;
    let small = ask(&batcher, "small", RequestOptions::default());
    until_queued(&batcher, 2).await;
    assert_eq!(hand.calls().len(), 1);
    hand.release_all();
    for answer in [running, large, small] {
        assert!(answer.await.expect("no panic").is_ok());
    }
    assert_eq!(batcher.stats().inline, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_interactive_request_with_the_backend_keeps_nobody_in_the_queue() {
    let (batcher, hand) = held(|config| (config.inline_bytes, config.inline_slots) = (16, 1));
    let running = ask(&batcher, "more bytes than run at once", RequestOptions::default());
    hand.until(|calls| calls.len() == 1).await;
    // One of them joins the row that is being computed.
    let equal = ask(&batcher, "more bytes than run at once", RequestOptions::default());
    let bulk = ask(&batcher, "bulk work of more bytes", RequestOptions::bulk());
    until_queued(&batcher, 2).await;
    until_no_interactive_waits(&batcher).await;
    let small = ask(&batcher, "small", RequestOptions::default());
    hand.until(|calls| calls.len() == 2).await;
    assert_eq!(hand.calls()[1], ["small"]);
    hand.release_all();
    for answer in [running, equal, bulk, small] {
        assert!(answer.await.expect("no panic").is_ok());
    }
    let stats = batcher.stats();
    assert_eq!((stats.inline, stats.shared), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_interactive_request_that_was_withdrawn_keeps_nobody_in_the_queue() {
    let (batcher, hand) = held(|config| (config.inline_bytes, config.inline_slots) = (16, 1));
    let running = ask(&batcher, "bulk work of more bytes", RequestOptions::bulk());
    hand.until(|calls| calls.len() == 1).await;
    let gone = batcher.submit(["more bytes than run at once"], &0, &RequestOptions::default());
    until_queued(&batcher, 1).await;
    assert!(batcher.expected_wait(Class::Interactive) > Duration::ZERO);
    drop(gone);
    until_queued(&batcher, 0).await;
    until_no_interactive_waits(&batcher).await;
    let small = ask(&batcher, "small", RequestOptions::default());
    hand.until(|calls| calls.len() == 2).await;
    hand.release_all();
    for answer in [running, small] {
        assert!(answer.await.expect("no panic").is_ok());
    }
    assert_eq!(batcher.stats().inline, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_expected_wait_falls_with_every_batch() {
    let (batcher, hand) = held(|config| config.max_rows = 1);
    let expected = |texts: u32, class| {
        // By the first guess, a thousand tokens take a millisecond, and each text has one.
        batcher.expected_wait(class) == texts * Duration::from_micros(1)
    };
    let options = RequestOptions::default();
    let array = batcher.submit(["1", "2", "3", "4"], &0, &options);
    hand.until(|calls| calls.len() == 1).await;
    assert!(expected(3, Class::Interactive) && expected(3, Class::Bulk));
    let bulk = batcher.submit(["bulk", "work"], &0, &RequestOptions::bulk());
    assert!(expected(3, Class::Interactive) && expected(5, Class::Bulk));
    drop(array);
    hand.release_all();
    assert!(bulk.await.is_ok());
    assert!(expected(0, Class::Interactive) && expected(0, Class::Bulk));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_turns_out_to_be_slow_leaves_the_callers_thread() {
    let (batcher, hand) = held(|config| {
        config.inline_bytes = 16;
        // Anything is slower than this.
        config.inline_time = Duration::ZERO;
    });
    hand.release_all();
    for text in ["one", "two", "three"] {
        assert_eq!(batcher.embed(text).await, Ok(text.len()));
    }
    assert_eq!((batcher.stats().inline, batcher.stats().completed), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_items_need_no_call() {
    let (batcher, hand) = held(|_| {});
    let none: [&str; 0] = [];
    assert_eq!(batcher.embed_many(none, &0, &RequestOptions::default()).await, Ok(vec![]));
    assert_eq!(batcher.embed_direct(none, &0, &RequestOptions::default()).await, Ok(vec![]));
    assert_eq!(hand.calls(), Vec::<Vec<String>>::new());
}

#[test]
fn a_batcher_without_capacity_cannot_be_built() {
    use embed_batcher::ConfigError;
    #[track_caller]
    fn check(change: impl FnOnce(&mut BatchConfig), expected: &ConfigError) {
        let mut config = BatchConfig::device();
        change(&mut config);
        let (builder, _hand) = crate::held::builder(|defaults| *defaults = config);
        assert_eq!(builder.pair().err().as_ref(), Some(expected));
    }
    let zero = |setting| ConfigError::Zero { setting };
    check(|config| config.slots = 0, &zero("slots"));
    check(|config| config.max_rows = 0, &zero("max_rows"));
    check(|config| config.max_tokens = 0, &zero("max_tokens"));
    check(|config| config.queue_texts = 0, &zero("queue_texts"));
    check(|config| config.queue_tokens = 0, &zero("queue_tokens"));
    check(|config| config.queue_bytes = 0, &zero("queue_bytes"));
    check(|_| {}, &ConfigError::NoRuntime);
    check(
        |config| config.slots = usize::MAX,
        &ConfigError::Slots { slots: usize::MAX, limit: u32::MAX as usize },
    );
}
