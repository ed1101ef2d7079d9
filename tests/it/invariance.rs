//! A row depends on its own text and options, and on nothing else.

use std::num::NonZeroUsize;
use std::sync::LazyLock;

use embed_core::{
    Embedder as _, EncodeOptions, Error, Input, MaxLength, Normalize, Overflow, RowInfo,
    Tokens as _, forward_chunk_ranges,
};
use embed_model2vec::{Bundle, ModelOptions, StaticModel};
use proptest::prelude::*;

static MODEL: LazyLock<StaticModel> = LazyLock::new(StaticModel::default_embedded);

/// The same model with each kernel that this machine can run.
static KERNELS: LazyLock<Vec<StaticModel>> = LazyLock::new(|| {
    let with = |kernel| StaticModel::default_embedded().with_kernel(kernel);
    StaticModel::kernels().map(with).collect()
});

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|value| value.to_bits()).collect()
}

fn rows(model: &StaticModel, texts: &[&str], options: &EncodeOptions) -> Vec<Vec<u32>> {
    model.embed_with(texts, options).expect("rows").rows().map(bits).collect()
}

/// Texts with words, unknown characters and odd spaces.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "([a-z]{1,9}[ ,.!-]){0,20}",
        2 => "\\PC{0,40}",
        1 => "[a東ü\u{0}\u{301} ]{0,30}",
        1 => Just(String::new()),
        1 => "(internationalization ){0,200}",
    ]
}

fn options() -> impl Strategy<Value = EncodeOptions> {
    let limit = prop_oneof![
        Just(MaxLength::Model),
        Just(MaxLength::Unlimited),
        (1usize..30).prop_map(|n| MaxLength::Tokens(NonZeroUsize::new(n).expect("not zero"))),
    ];
    let normalize = prop_oneof![Just(Normalize::Yes), Just(Normalize::No)];
    let dims =
        proptest::option::of((1usize..=256).prop_map(|n| NonZeroUsize::new(n).expect("not zero")));
    let profile = prop_oneof![
        Just(EncodeOptions::model2vec()),
        Just(EncodeOptions::osaurus()),
        Just(EncodeOptions::sentence_transformers()),
    ];
    (profile, limit, normalize, dims).prop_map(|(profile, limit, normalize, dims)| {
        profile.with_max_length(limit).with_normalize(normalize).with_dims(dims)
    })
}

proptest! {
    #[test]
    fn a_row_in_a_batch_equals_the_row_alone(
        texts in proptest::collection::vec(text(), 0..20),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        chunk in 1usize..8,
        options in options(),
    ) {
        let alone: Vec<Vec<u32>> =
            texts.iter().map(|text| rows(&MODEL, &[text], &options).remove(0)).collect();
        // Any order, with duplicates and omissions.
        let picks: Vec<usize> =
            if texts.is_empty() { Vec::new() } else { order.iter().map(|i| i.index(texts.len())).collect() };
        let batch: Vec<&str> = picks.iter().map(|&i| texts[i].as_str()).collect();
        let expected: Vec<Vec<u32>> = picks.iter().map(|&i| alone[i].clone()).collect();
        prop_assert_eq!(&rows(&MODEL, &batch, &options), &expected);
        for model in &*KERNELS {
            let kernel = model.description().kernel;
            prop_assert_eq!(&rows(model, &batch, &options), &expected, "{}", kernel);
        }
        let chunk = NonZeroUsize::new(chunk).expect("not zero");
        let chunked: Vec<Vec<u32>> = forward_chunk_ranges(batch.len(), chunk)
            .flat_map(|range| rows(&MODEL, &batch[range], &options))
            .collect();
        prop_assert_eq!(&chunked, &expected);
    }

    #[test]
    fn ids_in_place_of_a_text_give_its_row(text in text(), options in options()) {
        let unlimited = options.clone().with_max_length(MaxLength::Unlimited);
        let mut ids = Vec::new();
        MODEL.token_ids(&text, &unlimited, &mut ids).expect("ids");
        let dim = MODEL.output_dim(&options).expect("a width");
        let (mut out, mut info) = (vec![0.0; dim], [RowInfo::default()]);
        MODEL.embed_into(&[Input::Ids(&ids)], &unlimited, &mut out, &mut info).expect("a row");
        prop_assert_eq!(bits(&out), rows(&MODEL, &[&text], &unlimited).remove(0));
        prop_assert_eq!(info[0].kept, ids.len());
    }

    #[test]
    fn fewer_dimensions_are_the_beginning_of_the_raw_row(text in text(), dims in 1usize..=256) {
        let raw = EncodeOptions::default().with_normalize(Normalize::No);
        let whole = rows(&MODEL, &[&text], &raw).remove(0);
        let cut = rows(&MODEL, &[&text], &raw.with_dims(NonZeroUsize::new(dims))).remove(0);
        prop_assert_eq!(cut.as_slice(), &whole[..dims]);
    }

    #[test]
    fn the_row_info_counts_what_the_row_is_made_of(text in text(), options in options()) {
        let mut ids = Vec::new();
        let info = MODEL.token_ids(&text, &options, &mut ids).expect("ids");
        prop_assert_eq!(info.kept, ids.len());
        prop_assert!(info.unknown <= info.tokens && info.kept <= info.tokens);
        let row = rows(&MODEL, &[&text], &options).remove(0);
        prop_assert!(info.kept > 0 || row.iter().all(|&bits| bits == 0), "no tokens, no values");
        let strict = options.with_overflow(Overflow::Error);
        let refused = MODEL.embed_with(&[&text], &strict).is_err();
        prop_assert_eq!(refused, info.truncated);
    }
}

#[test]
fn an_empty_batch_is_an_empty_result_of_the_right_width() -> Result<(), Error> {
    let before = MODEL.dim();
    let rows = MODEL.embed(&[])?;
    assert_eq!((rows.len(), rows.dim()), (0, before));
    Ok(())
}

#[test]
fn texts_without_known_tokens_give_zero_rows() -> Result<(), Error> {
    let texts = ["", " \n\t", "𓀀 𓀁", "[UNK]", "\u{0}\u{fffd}"];
    for options in [EncodeOptions::model2vec(), EncodeOptions::osaurus()] {
        let rows = MODEL.embed_with(&texts, &options)?;
        assert!(rows.as_slice().iter().all(|value| value.to_bits() == 0));
    }
    Ok(())
}

/// One word is up to 100 characters; a longer one is unknown as a whole.
#[test]
fn words_of_more_than_a_hundred_characters_are_unknown() -> Result<(), Error> {
    let info = |length| MODEL.count_tokens(&"a".repeat(length), &EncodeOptions::default());
    assert_eq!((info(101)?.tokens, info(101)?.unknown), (1, 1));
    assert_eq!(info(100)?.unknown, 0);
    Ok(())
}

#[test]
fn a_limit_holds_exactly_at_its_boundary() -> Result<(), Error> {
    let options = |limit| {
        let limit = NonZeroUsize::new(limit).expect("not zero");
        EncodeOptions::default().with_max_length(MaxLength::Tokens(limit))
    };
    // "cat " is one token of less than the median length: the pre-cut never interferes.
    for words in [1, 7, 8, 9, 20] {
        let text = "cat ".repeat(words);
        let info = MODEL.count_tokens(text.trim_end(), &options(8))?;
        assert_eq!((info.tokens, info.truncated), (words.min(8), words > 8), "{words} words");
    }
    let default = MODEL.count_tokens(&"cat ".repeat(600), &EncodeOptions::default())?;
    assert_eq!((default.tokens, default.truncated), (512, true));
    Ok(())
}

#[test]
fn a_batch_is_one_forward() -> Result<(), Error> {
    let model = StaticModel::default_embedded();
    let texts: Vec<String> = (0..1000).map(|i| format!("text number {i}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    model.embed(&texts)?;
    assert_eq!(model.forward_count(), 1);
    model.embed(&texts[..1])?;
    assert_eq!(model.forward_count(), 2);
    model.embed(&[])?;
    assert_eq!(model.forward_count(), 2, "nothing to embed, no forward");
    Ok(())
}

#[test]
fn wrong_buffers_and_ids_are_refused_with_numbers() {
    let options = EncodeOptions::default();
    let embed = |inputs: &[Input<'_>], values: usize, infos: usize| {
        let (mut out, mut info) = (vec![0.0; values], vec![RowInfo::default(); infos]);
        MODEL.embed_into(inputs, &options, &mut out, &mut info).expect_err("refused").to_string()
    };
    let text = Input::Text("x");
    let message = "the output buffer holds 255 values, expected 256 (inputs x dimensions)";
    assert_eq!(embed(&[text], 255, 1), message);
    let message = "the row info buffer holds 2 entries, expected 1 (one for each input)";
    assert_eq!(embed(&[text], 256, 2), message);
    let message = "input 1: id 29525 at position 2 is outside the vocabulary of 29525";
    assert_eq!(embed(&[text, Input::Ids(&[0, 1, 29525])], 512, 2), message);
}

#[test]
fn a_text_beyond_the_stated_size_is_refused() -> Result<(), Error> {
    let limits = ModelOptions::default().with_max_text_bytes(1000);
    let model =
        StaticModel::from_bundle(Bundle::default_embedded(), limits).expect("the default model");
    let text = "a ".repeat(600);
    let unlimited = EncodeOptions::default().with_max_length(MaxLength::Unlimited);
    let refused = model.embed_with(&["x", &text], &unlimited);
    assert!(matches!(refused, Err(Error::TextTooLarge { input: 1, bytes: 1200, limit: 1000 })));
    let short = EncodeOptions::default().with_max_length(MaxLength::Tokens(NonZeroUsize::MIN));
    model.embed_with(&[&text], &short)?;
    Ok(())
}
