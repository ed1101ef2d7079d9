//! Batched against stored vectors and ids of Python model2vec.
//!
//! A golden folder holds `vectors.safetensors` (F32 tensors `[texts, dim]` by variant, row order in
//! the metadata field `ids`) and `tokens.jsonl` (token ids of each text by variant); the texts lie in
//! `texts.jsonl` in the folder above. The same three files with `_limits` hold token limits.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use embed_core::UnknownTokens;
use embed_core::{Embedder as _, EncodeOptions, MaxLength, Normalize, Precut, Tokens as _};
use embed_model2vec::StaticModel;
use half::f16;
use safetensors::SafeTensors;
use serde_json::Value;

use super::forwards::sum_order_bound;
use super::report::{Line, Report, Rule};

/// Compares with everything in a golden folder.
pub(super) fn compare_folder(
    model: &StaticModel,
    folder: &Path,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let above = folder.parent().context("the folder of the goldens has no parent")?;
    let mut found = false;
    for suffix in ["", "_limits"] {
        let vectors = folder.join(format!("vectors{suffix}.safetensors"));
        if vectors.exists() {
            found = true;
            let goldens = Goldens::read(
                &above.join(format!("texts{suffix}.jsonl")),
                &folder.join(format!("tokens{suffix}.jsonl")),
                &vectors,
            )?;
            compare(model, &goldens, name, report)?;
        }
    }
    ensure!(found, "there is no vectors.safetensors in {}", folder.display());
    Ok(())
}

/// Texts with the vectors and ids that Python gave.
struct Goldens {
    texts: Vec<String>,
    /// `[texts, dim]` by variant, in a fixed order.
    vectors: Vec<(String, Vec<f32>)>,
    /// Ids of each text by variant.
    ids: HashMap<String, Vec<Vec<u32>>>,
    dim: usize,
}

impl Goldens {
    fn read(texts: &Path, tokens: &Path, vectors: &Path) -> Result<Self> {
        let file = fs::read(vectors).with_context(|| format!("reading {}", vectors.display()))?;
        let (_, header) = SafeTensors::read_metadata(&file)?;
        let order = header.metadata().as_ref().and_then(|fields| fields.get("ids"));
        let order: Vec<String> =
            serde_json::from_str(order.context("the vectors lack the metadata field `ids`")?)?;

        let texts = by_id(&read_jsonl(texts)?)?;
        let tokens = by_id(&read_jsonl(tokens)?)?;
        let in_order = |map: &HashMap<String, Value>| -> Result<Vec<Value>> {
            order
                .iter()
                .map(|id| map.get(id).cloned().with_context(|| format!("no {id:?}")))
                .collect()
        };
        let mut ids: HashMap<String, Vec<Vec<u32>>> = HashMap::new();
        for line in in_order(&tokens)? {
            for (variant, list) in line.as_object().context("a line of tokens is not an object")? {
                if variant != "id" {
                    ids.entry(variant.clone())
                        .or_default()
                        .push(serde_json::from_value(list.clone())?);
                }
            }
        }
        let texts = in_order(&texts)?
            .iter()
            .map(|line| line["text"].as_str().map(str::to_owned).context("a line has no `text`"))
            .collect::<Result<Vec<_>>>()?;

        let tensors = SafeTensors::deserialize(&file)?;
        let mut dim = 0;
        let mut vectors = Vec::new();
        let mut names: Vec<&str> = tensors.names();
        names.sort_by_key(|name| (name.len(), name.to_owned()));
        for name in names {
            let tensor = tensors.tensor(name)?;
            let [rows, width] = *tensor.shape() else { bail!("tensor {name} is not a matrix") };
            ensure!(rows == texts.len(), "tensor {name} has {rows} rows for {} texts", texts.len());
            dim = width;
            let (values, _) = tensor.data().as_chunks::<4>();
            vectors
                .push((name.to_owned(), values.iter().map(|v| f32::from_le_bytes(*v)).collect()));
        }
        Ok(Self { texts, vectors, ids, dim })
    }
}

fn read_jsonl(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).with_context(|| format!("in {}", path.display())))
        .collect()
}

fn by_id(lines: &[Value]) -> Result<HashMap<String, Value>> {
    lines
        .iter()
        .map(|line| {
            Ok((line["id"].as_str().context("a line has no `id`")?.to_owned(), line.clone()))
        })
        .collect()
}

fn compare(model: &StaticModel, goldens: &Goldens, name: &str, report: &mut Report) -> Result<()> {
    ensure!(goldens.dim == model.dim(), "the goldens have {} dimensions", goldens.dim);
    let texts: Vec<&str> = goldens.texts.iter().map(String::as_str).collect();
    for (variant, vectors) in &goldens.vectors {
        let options = options_of(variant)?;
        let rule = rule_for(model, &options);
        let mut line = Line::new(format!("{name}, {variant}"), rule);
        if let Some(ids) = goldens.ids.get(ids_of(variant).as_str()) {
            compare_ids(model, &texts, ids, &options, &mut line)?;
        }
        let rows = model.embed_with(&texts, &options)?;
        for ((text, row), golden) in
            texts.iter().zip(rows.rows()).zip(vectors.chunks_exact(goldens.dim))
        {
            let bound = match rule {
                Rule::SumOrder => sum_order_bound(model, text, &options)?,
                _ => 0.0,
            };
            line.row(text, row, golden, bound);
        }
        report.add(line);
        if rule == Rule::NormalizedHalf {
            // A raw value that is one unit off, as with F64 weights, can be two units off once
            // normalizing has moved it to just below a power of two.
            let double = model.description().weights_type == Some("F64");
            let rule = Rule::HalfUlps(if double { 2 } else { 1 });
            let mut line = Line::new(format!("{name}, {variant}, by way of F16"), rule);
            let raw = model.embed_with(&texts, &options.with_normalize(Normalize::No))?;
            for ((text, row), golden) in
                texts.iter().zip(raw.rows()).zip(vectors.chunks_exact(goldens.dim))
            {
                line.row(text, &normalized_from_half(row), golden, 0.0);
            }
            report.add(line);
        }
    }
    // Ids that Python gives on the way, for which there are no vectors.
    for (variant, options) in [
        (
            "nolimit_with_unk",
            EncodeOptions::default()
                .with_max_length(MaxLength::Unlimited)
                .with_unknown(UnknownTokens::Keep),
        ),
        ("tokenize", without_precut()),
    ] {
        if let Some(ids) = goldens.ids.get(variant) {
            let mut line = Line::new(format!("{name}, {variant}"), Rule::IdsOnly);
            compare_ids(model, &texts, ids, &options, &mut line)?;
            report.add(line);
        }
    }
    Ok(())
}

fn compare_ids(
    model: &StaticModel,
    texts: &[&str],
    reference: &[Vec<u32>],
    options: &EncodeOptions,
    line: &mut Line,
) -> Result<()> {
    ensure!(
        reference.len() == texts.len(),
        "{} lists of ids, {} texts",
        reference.len(),
        texts.len()
    );
    let mut ids = Vec::new();
    for (text, reference) in texts.iter().zip(reference) {
        ids.clear();
        let info = model.token_ids(text, options, &mut ids)?;
        ensure!(info.kept == ids.len(), "the row info counts {} of {} ids", info.kept, ids.len());
        line.ids(text, &ids, reference);
    }
    Ok(())
}

/// The options under which Python made a variant.
fn options_of(variant: &str) -> Result<EncodeOptions> {
    let default = EncodeOptions::default();
    Ok(match variant {
        "default" => default,
        "nolimit" => default.with_max_length(MaxLength::Unlimited),
        "raw" => default.with_normalize(Normalize::No),
        "raw_nolimit" => {
            default.with_normalize(Normalize::No).with_max_length(MaxLength::Unlimited)
        }
        _ => {
            let limit = variant.strip_prefix("raw_").and_then(|limit| limit.parse().ok());
            let limit = limit.and_then(NonZeroUsize::new);
            let limit = limit.with_context(|| format!("unknown variant {variant:?}"))?;
            default.with_normalize(Normalize::No).with_max_length(MaxLength::Tokens(limit))
        }
    })
}

/// The variant of ids that belongs to a variant of vectors.
fn ids_of(variant: &str) -> String {
    match variant {
        "raw" => "default".to_owned(),
        "raw_nolimit" => "nolimit".to_owned(),
        _ => {
            variant.strip_prefix("raw_").map_or(variant.to_owned(), |limit| format!("ids_{limit}"))
        }
    }
}

/// `StaticModel.tokenize` of Python: the model's token limit without the cut by characters.
fn without_precut() -> EncodeOptions {
    EncodeOptions::default().with_precut(Precut::Off)
}

/// How close rows have to be to Python's, which gives F16 rows for F16 tables.
fn rule_for(model: &StaticModel, options: &EncodeOptions) -> Rule {
    let description = model.description();
    // The bits are promised by the processor alone.
    let exact = model.device_counts().is_none();
    match (description.table_type, model.normalizes(options)) {
        ("F16", true) => Rule::NormalizedHalf,
        // F64 sums are rounded to F32 by us and at once to F16 by Python.
        ("F16", false) if description.weights_type == Some("F64") => Rule::HalfUlps(1),
        ("F16", false) => Rule::HalfUlps(u32::from(!exact)),
        (_, true) => Rule::Normalized,
        (_, false) if exact => Rule::Bits,
        (_, false) => Rule::SumOrder,
    }
}

/// A raw row rounded to F16 and then normalized, as Python forms the rows of F16 tables.
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded further, to F16")]
fn normalized_from_half(raw: &[f32]) -> Vec<f32> {
    let rounded: Vec<f64> = raw.iter().map(|&value| f16::from_f32(value).to_f64()).collect();
    let norm = rounded.iter().map(|value| value * value).sum::<f64>().sqrt() + 1e-32;
    rounded.iter().map(|value| (value / norm) as f32).collect()
}
