//! The batched forward against the sequential reference and the padded one, for every way in which a
//! table and its weights can be stored.

use embed_core::{Embedder as _, EncodeOptions, Normalize, Tokens as _};
use embed_model2vec::padded::PaddedForward;
use embed_model2vec::{ModelOptions, Sequential, StaticModel};

use crate::fixture::{self, Tensor, VOCABULARY};

const TEXTS: [&str; 8] =
    ["", "a", "b c d", "z", "a z a", "f e d c b a", "[UNK] [PAD] a", "c c c c c c c c c"];

const DIM: usize = 11;

/// Stored values and weights are drawn from a few patterns that exercise rounding.
fn value(index: usize) -> f32 {
    ((index * 37 % 101) as f32 - 50.0) * 0.731
}

fn half(value: f32) -> u16 {
    half::f16::from_f32(value).to_bits()
}

fn table(dtype: &'static str, rows: usize) -> Tensor {
    let values = (0..rows * DIM).map(value);
    #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
    #[expect(clippy::cast_sign_loss, reason = "of absolute values")]
    let bytes: Vec<u8> = match dtype {
        "F64" => values.flat_map(|v| (f64::from(v) / 3.0).to_le_bytes()).collect(),
        "F32" => values.flat_map(f32::to_le_bytes).collect(),
        "F16" => values.flat_map(|v| half(v).to_le_bytes()).collect(),
        "BF16" => values.flat_map(|v| half::bf16::from_f32(v).to_bits().to_le_bytes()).collect(),
        "I8" => values.map(|v| v as i8 as u8).collect(),
        "U8" => values.map(|v| v.abs() as u8 + 100).collect(),
        _ => unreachable!("no such type in this test"),
    };
    Tensor::raw("embeddings", dtype, &[rows, DIM], bytes)
}

fn weights(dtype: &'static str) -> Tensor {
    let values = (0..VOCABULARY).map(|i| 0.1 + value(i + 5).abs() / 17.0);
    let bytes: Vec<u8> = match dtype {
        "F64" => values.flat_map(|v| (f64::from(v) / 3.0).to_le_bytes()).collect(),
        "F32" => values.flat_map(f32::to_le_bytes).collect(),
        "F16" => values.flat_map(|v| half(v).to_le_bytes()).collect(),
        "BF16" => values.flat_map(|v| half::bf16::from_f32(v).to_bits().to_le_bytes()).collect(),
        _ => unreachable!("no such type in this test"),
    };
    Tensor::raw("weights", dtype, &[VOCABULARY], bytes)
}

/// Every combination of stored types, with and without a mapping.
fn models() -> Vec<(String, StaticModel)> {
    let mut models = Vec::new();
    for table_type in ["F64", "F32", "F16", "BF16", "I8", "U8"] {
        for weights_type in [None, Some("F64"), Some("F32"), Some("F16"), Some("BF16")] {
            for mapped in [false, true] {
                let mut tensors = vec![table(table_type, if mapped { 3 } else { VOCABULARY })];
                tensors.extend(weights_type.map(weights));
                if mapped {
                    tensors.push(Tensor::i32("mapping", &[0, 1, 2, 0, 1, 2, 2, 1]));
                }
                let name = format!("{table_type}, weights {weights_type:?}, mapped {mapped}");
                models.push((name, fixture::model(&tensors).expect("a sound model")));
            }
        }
    }
    models
}

fn options() -> [EncodeOptions; 4] {
    [
        EncodeOptions::default(),
        EncodeOptions::default().with_normalize(Normalize::Yes),
        EncodeOptions::sentence_transformers().with_normalize(Normalize::Yes),
        EncodeOptions::default().with_dims(std::num::NonZeroUsize::new(5)),
    ]
}

#[test]
fn batched_equals_sequential_in_every_bit() -> Result<(), Box<dyn std::error::Error>> {
    for (name, model) in models() {
        let sequential = Sequential::new(&model)?;
        for options in options() {
            let rows = model.embed_with(&TEXTS, &options)?;
            for (text, row) in TEXTS.iter().zip(rows.rows()) {
                let bits =
                    |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                let expected = sequential.embed(text, &options)?;
                assert_eq!(bits(row), bits(&expected), "{name}, {text:?}, {options:?}");
                let mut ids = Vec::new();
                model.token_ids(text, &options, &mut ids)?;
                assert_eq!(ids, sequential.token_ids(text, &options)?);
            }
        }
    }
    Ok(())
}

#[test]
fn the_reference_reads_vocabularies_without_unknown_token_too()
-> Result<(), Box<dyn std::error::Error>> {
    let mut tokenizer = fixture::tokenizer();
    tokenizer["model"]["vocab"].as_object_mut().ok_or("a map")?.remove("[UNK]");
    tokenizer["model"]["vocab"]["x"] = serde_json::json!(1);
    let bundle = fixture::bundle("{}", &tokenizer, fixture::safetensors(&[Tensor::table()]));
    let model = StaticModel::from_bundle(bundle, ModelOptions::default())?;
    let sequential = Sequential::new(&model)?;
    let options = EncodeOptions::default();
    for (text, ids) in [("a z b", &[2, 3][..]), ("z", &[]), ("x [UNK] a", &[1, 2])] {
        assert_eq!(sequential.token_ids(text, &options)?, ids);
        assert_eq!(model.embed(&[text])?.as_slice(), sequential.embed(text, &options)?);
    }
    Ok(())
}

#[test]
fn padded_equals_batched_up_to_rounding() -> Result<(), Box<dyn std::error::Error>> {
    for (name, model) in models() {
        let padded = PaddedForward::new(&model, &candle_core::Device::Cpu)?;
        // F16 weights: numpy's rounding of products to F16 is not a thing that tensors do.
        let tolerance = if name.contains("\"F16\"") { 1e-3 } else { 3e-6 };
        for options in options() {
            let rows = model.embed_with(&TEXTS, &options)?;
            let other = padded.embed(&TEXTS, &options)?;
            assert_eq!((rows.len(), rows.dim()), (other.len(), other.dim()));
            let scale = rows.as_slice().iter().fold(1f32, |max, value| max.max(value.abs()));
            for (a, b) in rows.as_slice().iter().zip(other.as_slice()) {
                assert!((a - b).abs() <= tolerance * scale, "{name}, {options:?}: {a} against {b}");
            }
        }
    }
    Ok(())
}

#[test]
fn padded_handles_many_texts_and_none() -> Result<(), Box<dyn std::error::Error>> {
    let model = StaticModel::default_embedded();
    let padded = PaddedForward::new(&model, &candle_core::Device::Cpu)?;
    assert!(padded.embed(&[], &EncodeOptions::default())?.is_empty());
    let texts: Vec<String> = (0..50).map(|i| "many words ".repeat(i)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (rows, other) = (model.embed(&texts)?, padded.embed(&texts, &EncodeOptions::default())?);
    for (a, b) in rows.as_slice().iter().zip(other.as_slice()) {
        assert!((a - b).abs() <= 3e-6);
    }
    Ok(())
}
