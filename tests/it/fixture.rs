//! Small models, built in memory: sound ones and broken ones.

use embed_model2vec::{Bundle, LoadError, ModelOptions, StaticModel};
use serde_json::{Value, json};

/// Token ids of the fixture's tokenizer: `[UNK]` is 1, and words are the letters `a` to `f`.
pub(crate) const VOCABULARY: usize = 8;

/// A tensor as a safetensors file stores it.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn f32(name: &'static str, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name, dtype: "F32", shape: shape.to_vec(), bytes }
    }

    pub(crate) fn i32(name: &'static str, values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name, dtype: "I32", shape: vec![values.len()], bytes }
    }

    pub(crate) fn raw(
        name: &'static str,
        dtype: &'static str,
        shape: &[usize],
        bytes: Vec<u8>,
    ) -> Self {
        Self { name, dtype, shape: shape.to_vec(), bytes }
    }

    /// A sound F32 table `[VOCABULARY, 3]`.
    pub(crate) fn table() -> Self {
        Self::rows(VOCABULARY)
    }

    /// An F32 table `[rows, 3]`.
    pub(crate) fn rows(rows: usize) -> Self {
        let values: Vec<f32> = (0..rows * 3).map(|i| (i as f32 * 0.7).sin()).collect();
        Self::f32("embeddings", &[rows, 3], &values)
    }
}

/// A safetensors file with consistent offsets.
pub(crate) fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for tensor in tensors {
        let start = data.len();
        data.extend(&tensor.bytes);
        let offsets = json!({
            "dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [start, data.len()],
        });
        header.insert(tensor.name.to_owned(), offsets);
    }
    with_header(&Value::Object(header), &data)
}

/// A safetensors file with the given header, true or not. As real files do, it begins its data at a
/// multiple of eight bytes.
pub(crate) fn with_header(header: &Value, data: &[u8]) -> Vec<u8> {
    let mut header = header.to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A WordLevel tokenizer over [`VOCABULARY`] ids that splits at white space.
pub(crate) fn tokenizer() -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordLevel",
            "vocab": { "[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7 },
            "unk_token": "[UNK]",
        },
    })
}

pub(crate) fn bundle(config: &str, tokenizer: &Value, weights: Vec<u8>) -> Bundle {
    Bundle::from_bytes("fixture", config.into(), tokenizer.to_string().into_bytes(), weights)
}

/// A model with the fixture's tokenizer, an empty configuration and these tensors.
pub(crate) fn model(tensors: &[Tensor]) -> Result<StaticModel, LoadError> {
    let bundle = bundle("{}", &tokenizer(), safetensors(tensors));
    StaticModel::from_bundle(bundle, ModelOptions::default())
}
