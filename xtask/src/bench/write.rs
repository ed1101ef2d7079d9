//! Models that are made to be measured.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;

use super::inputs::Model;
use crate::random::Random;

/// Writes a model folder with a table of seeded random numbers between -1 and 1, and reads it as a model.
pub(super) fn model(folder: &Path, tokenizer: &str, rows: usize, dim: usize) -> Result<Model> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut random = Random::new(1);
    let table: Vec<u8> = (0..rows * dim).flat_map(|_| random.unit().to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![rows, dim], &table)?;
    safetensors::serialize_to_file(
        [("embeddings", view)],
        None,
        &folder.join("model.safetensors"),
    )?;
    fs::write(folder.join("tokenizer.json"), tokenizer)?;
    let config = json!({ "model_type": "model2vec", "normalize": true });
    fs::write(folder.join("config.json"), config.to_string())?;
    Model::read(folder)
}
