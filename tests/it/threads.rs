//! Calls from many threads with different options do not disturb each other.

use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::thread;

use embed_core::{Embedder as _, EncodeOptions, MaxLength, Normalize};
use embed_model2vec::StaticModel;

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
