//! Calls from many threads do not disturb each other, and threads within a call cannot be seen.

use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::thread;

use embed_core::{Embedder as _, EncodeOptions, Error, Input, MaxLength, Normalize, RowInfo};
use embed_model2vec::{Bundle, ModelOptions, StaticModel};

use crate::fixture::{self, Tensor};

#[test]
fn many_threads_with_different_options_get_their_own_rows() {
    let model = StaticModel::default_embedded();
    let texts: Vec<String> = (0..40)
        .map(|i| {
            format!("thread safety 東京 and unbelievable options number {i} ").repeat(1 + i % 30)
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let options: Vec<EncodeOptions> = (1..9)
        .map(|i| {
            let limit = MaxLength::Tokens(NonZeroUsize::new(i * 5).expect("not zero"));
            let normalize = if i % 2 == 0 { Normalize::Yes } else { Normalize::No };
            EncodeOptions::default().with_max_length(limit).with_normalize(normalize)
        })
        .collect();
    let expected: Vec<_> =
        options.iter().map(|options| model.embed_with(&texts, options).expect("rows")).collect();

    let start = Barrier::new(options.len());
    let (model, texts, start) = (&model, texts.as_slice(), &start);
    thread::scope(|scope| {
        for (options, expected) in options.iter().zip(&expected) {
            scope.spawn(move || {
                start.wait();
                for _ in 0..10 {
                    assert_eq!(&model.embed_with(texts, options).expect("rows"), expected);
                }
            });
        }
    });
}

/// Enough text that workers take part, with empty and long texts among them.
fn large_batch() -> Vec<String> {
    (0..3000)
        .map(|i| match i % 7 {
            0 => String::new(),
            1 => format!("long {i} unbelievable naïve 東京 ").repeat(80),
            _ => format!("a text of the usual length, number {i}, is cut into words and embedded"),
        })
        .collect()
}

fn with_threads(threads: usize) -> StaticModel {
    let threads = NonZeroUsize::new(threads).expect("not zero");
    let options = ModelOptions::default().with_threads(threads);
    StaticModel::from_bundle(Bundle::default_embedded(), options).expect("the embedded model")
}

#[test]
fn rows_are_the_same_for_any_number_of_threads() {
    let texts = large_batch();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for options in [EncodeOptions::default(), EncodeOptions::osaurus()] {
        let expected = with_threads(1).embed_with_info(&texts, &options).expect("rows");
        for threads in [2, 3, 8] {
            let model = with_threads(threads);
            for _ in 0..3 {
                let rows = model.embed_with_info(&texts, &options).expect("rows");
                assert_eq!(rows, expected, "{threads} threads");
            }
            assert_eq!(model.forward_count(), 3);
        }
    }
}

#[test]
fn of_several_refused_texts_the_first_is_named_whatever_the_threads() {
    let mut texts = large_batch();
    for index in [700, 701, 2900] {
        texts[index] = "x".repeat(20_000);
    }
    let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::Text(text)).collect();
    let options = EncodeOptions::osaurus();
    for threads in [1, 2, 4] {
        let threads = NonZeroUsize::new(threads).expect("not zero");
        let limits = ModelOptions::default().with_threads(threads).with_max_text_bytes(10_000);
        let model = StaticModel::from_bundle(Bundle::default_embedded(), limits).expect("a model");
        let mut out = vec![0.0; inputs.len() * model.dim()];
        let mut info = vec![RowInfo::default(); inputs.len()];
        let refused = model.embed_into(&inputs, &options, &mut out, &mut info);
        let expected = Error::TextTooLarge { input: 700, bytes: 20_000, limit: 10_000 };
        assert_eq!(refused.map_err(|error| error.to_string()), Err(expected.to_string()));
    }
}

/// After a mebibyte of text a mapped table is moved to where it is read faster.
#[test]
fn rows_are_the_same_while_a_table_is_moved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("a writable folder");
    };
    write("config.json", b"{}");
    write("tokenizer.json", fixture::tokenizer().to_string().as_bytes());
    write("model.safetensors", &fixture::safetensors(&[Tensor::table()]));
    let text = "a b f ".repeat(1 << 14);
    let options = EncodeOptions::default().with_max_length(MaxLength::Unlimited);
    let inputs = ["a b", &text, "a b"];
    let expected = StaticModel::open(folder.path()).expect("a model").embed_with(&inputs, &options);
    let expected = expected.expect("rows");
    let model = StaticModel::open(folder.path()).expect("a model");
    assert!(!model.has_moved_table());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let rows = model.embed_with(&inputs, &options).expect("rows");
                    assert!(rows.rows().eq(expected.rows()));
                }
            });
        }
    });
    assert!(model.has_moved_table(), "there were several mebibytes");
}
