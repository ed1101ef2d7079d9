//! The default model against stored vectors and ids of Python model2vec: see golden/README.md.

use std::num::NonZeroUsize;

use embed_core::{Embedder as _, EncodeOptions, MaxLength, Normalize, Tokens as _, UnknownTokens};
use embed_model2vec::StaticModel;
use safetensors::SafeTensors;
use serde_json::Value;

struct Goldens {
    texts: Vec<String>,
    tokens: Vec<Value>,
    vectors: &'static [u8],
}

/// Texts and tokens in the order of the vectors' rows.
macro_rules! goldens {
    ($suffix:literal) => {
        Goldens {
            texts: lines(include_str!(concat!("golden/texts", $suffix, ".jsonl")))
                .map(|line| line["text"].as_str().expect("a text").to_owned())
                .collect(),
            tokens: lines(include_str!(concat!("golden/tokens", $suffix, ".jsonl"))).collect(),
            vectors: include_bytes!(concat!("golden/vectors", $suffix, ".safetensors")),
        }
    };
}

fn lines(file: &str) -> impl Iterator<Item = Value> {
    file.split_terminator('\n').map(|line| serde_json::from_str(line).expect("JSON"))
}

impl Goldens {
    #[track_caller]
    fn check_vectors(&self, model: &StaticModel, variant: &str, options: &EncodeOptions) {
        let tensors = SafeTensors::deserialize(self.vectors).expect("a safetensors file");
        let tensor = tensors.tensor(variant).expect("the variant");
        let (expected, _) = tensor.data().as_chunks::<4>();
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let rows = model.embed_with(&texts, options).expect("rows");
        assert_eq!(rows.as_slice().len(), expected.len());
        for (index, (value, expected)) in rows.as_slice().iter().zip(expected).enumerate() {
            let text = &texts[index / rows.dim()];
            assert_eq!(value.to_le_bytes(), *expected, "{variant}, value {index}, of {text:?}");
        }
    }

    #[track_caller]
    fn check_ids(&self, model: &StaticModel, variant: &str, options: &EncodeOptions) {
        assert_eq!(self.texts.len(), self.tokens.len());
        for (text, tokens) in self.texts.iter().zip(&self.tokens) {
            let mut ids = Vec::new();
            let info = model.token_ids(text, options, &mut ids).expect("ids");
            assert_eq!(serde_json::json!(ids), tokens[variant], "{variant} of {text:?}");
            assert_eq!(info.kept, ids.len());
            assert_eq!(model.count_tokens(text, options).expect("a count"), info);
        }
    }
}

fn raw() -> EncodeOptions {
    EncodeOptions::default().with_normalize(Normalize::No)
}

/// Python's bits, normalized rows included: the tolerance of 3e-6 is not needed on this model.
#[test]
fn rows_and_ids_are_those_of_python() {
    let (goldens, model) = (goldens!(""), StaticModel::default_embedded());
    assert!(goldens.texts.len() > 100);
    let unlimited = |options: EncodeOptions| options.with_max_length(MaxLength::Unlimited);
    goldens.check_vectors(&model, "default", &EncodeOptions::default());
    goldens.check_vectors(&model, "raw", &raw());
    goldens.check_vectors(&model, "raw_nolimit", &unlimited(raw()));
    goldens.check_ids(&model, "default", &EncodeOptions::default());
    goldens.check_ids(&model, "nolimit", &unlimited(EncodeOptions::default()));
    let keep = unlimited(EncodeOptions::default()).with_unknown(UnknownTokens::Keep);
    goldens.check_ids(&model, "nolimit_with_unk", &keep);
}

#[test]
fn token_limits_are_those_of_python() {
    let (goldens, model) = (goldens!("_limits"), StaticModel::default_embedded());
    for limit in [1, 8, 64, 512] {
        let max_length = MaxLength::Tokens(NonZeroUsize::new(limit).expect("not zero"));
        let options = raw().with_max_length(max_length);
        goldens.check_vectors(&model, &format!("raw_{limit}"), &options);
        goldens.check_ids(&model, &format!("ids_{limit}"), &options);
    }
}
