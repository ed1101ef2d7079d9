//! An embedder behind a batcher is the same embedder.

use std::error::Error as _;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use embed_batcher::{
    Arrays, BatchConfig, Batcher, CoalescingEmbedder, DeviceGate, EmbedderBackend, Error,
    GatedEmbedder, Occupancy, Owner,
};
use embed_core::{AsyncEmbedder, Embedder, EncodeOptions, Input, MaxLength, Overflow, RowInfo};

/// Row = (bytes, 1, bytes squared), at most as many tokens as bytes; `nan` gives a NaN.
#[derive(Default)]
struct Bytes {
    calls: AtomicUsize,
    gate: DeviceGate,
    outside: AtomicUsize,
}

impl Embedder for Bytes {
    fn dim(&self) -> usize {
        3
    }

    fn model_id(&self) -> &'static str {
        "bytes"
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), embed_core::Error> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.outside.fetch_add(usize::from(self.gate.occupancy().holders == 0), Ordering::Relaxed);
        let dim = self.output_dim(options)?;
        for (index, input) in inputs.iter().enumerate() {
            let Input::Text(text) = input else { continue };
            let limit = match options.max_length {
                MaxLength::Tokens(limit) => limit.get(),
                _ => usize::MAX,
            };
            if text.len() > limit && options.overflow == Overflow::Error {
                return Err(embed_core::Error::TooLong { input: index, max_length: limit });
            }
            let bytes = text.len() as f32;
            let row = [bytes, if *text == "nan" { f32::NAN } else { 1.0 }, bytes * bytes];
            out[index * dim..][..dim].copy_from_slice(&row[..dim]);
            info[index] = RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() };
        }
        Ok(())
    }
}

fn coalescing(model: &Arc<Bytes>) -> CoalescingEmbedder {
    let config = BatchConfig { max_rows: 4, slots: 2, ..BatchConfig::default() };
    let backend = EmbedderBackend::new(model.clone());
    let builder = Batcher::builder(backend).config(config);
    let builder = builder.gate(model.gate.clone(), Owner::shared("embedding"));
    CoalescingEmbedder::new(builder.spawn().expect("a runtime"))
}

fn texts() -> Vec<String> {
    (0..11).map(|length| "y".repeat(length)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_the_model_whichever_way_they_travel() {
    let model = Arc::new(Bytes::default());
    let embedder = coalescing(&model);
    assert_eq!((embedder.dim(), embedder.model_id()), (3, "bytes"));
    let texts = texts();
    let views: Vec<&str> = texts.iter().map(String::as_str).collect();
    for options in
        [EncodeOptions::default(), EncodeOptions::default().with_dims(NonZeroUsize::new(2))]
    {
        let expected = model.embed_with(&views, &options);
        let expected = expected.expect("rows").as_slice().to_vec();
        for arrays in [Arrays::Queued, Arrays::Direct] {
            let embedder = embedder.clone().with_arrays(arrays);
            let rows = embedder.embed(texts.clone(), options.clone()).await.expect("rows");
            assert_eq!(
                (rows.dim(), rows.as_slice()),
                (options.dims.map_or(3, Into::into), &*expected)
            );
            let lone =
                embedder.embed(vec![texts[5].clone()], options.clone()).await.expect("a row");
            assert_eq!(lone.row(0), &expected[5 * rows.dim()..][..rows.dim()]);
        }
    }
    let none = embedder.embed(Vec::new(), EncodeOptions::default()).await.expect("no rows");
    assert_eq!((none.len(), none.dim()), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_at_fault_fails_alone_in_the_words_of_the_model() {
    let model = Arc::new(Bytes::default());
    let limit = MaxLength::Tokens(NonZeroUsize::new(5).expect("not zero"));
    let options = EncodeOptions::default().with_max_length(limit).with_overflow(Overflow::Error);
    for arrays in [Arrays::Queued, Arrays::Direct] {
        let embedder = coalescing(&model).with_arrays(arrays);
        let failed = embedder.embed(texts(), options.clone()).await.expect_err("some are too long");
        let place = failed.input();
        assert!(matches!(failed, embed_core::Error::TooLong { max_length: 5, .. }), "{failed:?}");
        // Texts 6 to 10 are too long. Pieces of an array go in order; two batches may return in any.
        let first = if arrays == Arrays::Direct { 6..=6 } else { 6..=10 };
        assert!(place.is_some_and(|place| first.contains(&place)), "{place:?}");
        let nan = embedder.embed(vec!["nan".to_owned()], EncodeOptions::default()).await;
        let nan = nan.expect_err("not a number");
        let cause = nan.source().and_then(|cause| cause.downcast_ref::<Error<embed_core::Error>>());
        assert!(matches!(cause, Some(Error::NotFinite { row: 0, column: 1 })), "{nan:?}");
        let dims = EncodeOptions::default().with_dims(NonZeroUsize::new(4));
        let refused = embedder.embed(texts(), dims).await.expect_err("the model has three");
        assert!(matches!(refused, embed_core::Error::Dimensions { requested: 4, available: 3 }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_made_inside_the_gate() {
    let model = Arc::new(Bytes::default());
    let embedder = coalescing(&model);
    let direct = embedder.direct();
    let blocking = tokio::task::spawn_blocking(move || {
        (0..100).map(|_| direct.embed(&["a", "bc"]).expect("rows").len()).sum::<usize>()
    });
    for _ in 0..100 {
        embedder.embed(texts(), EncodeOptions::default()).await.expect("rows");
        embedder.embed(vec!["lone".to_owned()], EncodeOptions::default()).await.expect("a row");
    }
    assert_eq!(blocking.await.expect("no panic"), 200);
    assert_eq!(model.outside.load(Ordering::Relaxed), 0);
    assert!(model.calls.load(Ordering::Relaxed) >= 300);
    assert_eq!(model.gate.occupancy(), Occupancy { holders: 0, waiting: 0 });
}

#[test]
fn a_gated_embedder_needs_no_runtime() {
    let model = Arc::new(Bytes::default());
    let gate = DeviceGate::new();
    let gated = GatedEmbedder::new(model, gate.clone(), Owner::exclusive("direct"));
    assert_eq!((gated.dim(), gated.model_id()), (3, "bytes"));
    let rows = std::thread::scope(|scope| {
        let guard = gate.try_acquire(&Owner::exclusive("generation"));
        let rows = scope.spawn(|| gated.embed(&["abc"]));
        while gate.occupancy().waiting == 0 {
            std::thread::yield_now();
        }
        drop(guard);
        rows.join()
    });
    let rows = rows.expect("no panic").expect("a row");
    assert_eq!(rows.row(0), [3.0, 1.0, 9.0]);
}
