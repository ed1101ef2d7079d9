//! The contenders behind one trait. What a library wants its input to be is prepared before the clock
//! runs; what it returns is dropped while it runs, as a caller would.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use embed_core::{
    Embedder as _, EncodeOptions, Input, MaxLength, RowInfo, Tokens as _, UnknownTokens,
};
use embed_model2vec::{Bundle, ModelOptions, StaticModel};

/// A library at work. A contender refuses a task that it has no function for.
pub trait Contender {
    /// All texts to rows, each cut as the library does by default.
    fn embed_all(&mut self, texts: &[String]) -> Result<()> {
        let _ = texts;
        bail!("this contender does not embed")
    }

    /// All texts to ids, without limit and without special tokens; the number of ids.
    fn tokenize_all(&mut self, texts: &[String]) -> Result<usize> {
        let _ = texts;
        bail!("this contender does not give ids")
    }

    /// One text to a row.
    fn embed_one(&mut self, text: &str) -> Result<()> {
        let _ = text;
        bail!("this contender does not embed")
    }

    /// One text of any length to a row, nothing cut.
    fn embed_unlimited(&mut self, text: &str) -> Result<()> {
        let _ = text;
        bail!("this contender does not embed without a limit")
    }
}

/// Threads of the libraries that use rayon: one means that rayon is not used at all.
pub fn limit_rayon(threads: usize) -> Result<()> {
    incumbent_tokenizers::parallelism::set_parallelism(threads > 1);
    tokenizers::parallelism::set_parallelism(threads > 1);
    // tokie splits a long text over rayon's pool whatever that is set to.
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?)
}

/// Ours, with every buffer owned by the caller and used again.
struct Embed {
    model: StaticModel,
    batch: usize,
    rows: Vec<f32>,
    info: Vec<RowInfo>,
    ids: Vec<u32>,
}

pub fn embed(
    model: Option<&Path>,
    threads: NonZeroUsize,
    batch: usize,
) -> Result<Box<dyn Contender>> {
    let bundle = match model {
        None => Bundle::default_embedded(),
        Some(folder) => Bundle::open(folder)?,
    };
    let model = StaticModel::from_bundle(bundle, ModelOptions::default().with_threads(threads))?;
    let rows = vec![0.0; batch * model.dim()];
    Ok(Box::new(Embed {
        model,
        batch,
        rows,
        info: vec![RowInfo::default(); batch],
        ids: Vec::new(),
    }))
}

impl Embed {
    fn embed(&mut self, inputs: &[Input<'_>], options: &EncodeOptions) -> Result<()> {
        let values = inputs.len() * self.model.dim();
        let info = &mut self.info[..inputs.len()];
        self.model.embed_into(inputs, options, &mut self.rows[..values], info)?;
        black_box(&self.rows);
        Ok(())
    }
}

impl Contender for Embed {
    fn embed_all(&mut self, texts: &[String]) -> Result<()> {
        let options = EncodeOptions::default();
        let mut inputs = Vec::with_capacity(self.batch);
        for texts in texts.chunks(self.batch) {
            inputs.clear();
            inputs.extend(texts.iter().map(|text| Input::Text(text)));
            self.embed(&inputs, &options)?;
        }
        Ok(())
    }

    fn tokenize_all(&mut self, texts: &[String]) -> Result<usize> {
        let options = unlimited().with_unknown(UnknownTokens::Keep);
        let mut number = 0;
        for text in texts {
            self.ids.clear();
            self.model.token_ids(text, &options, &mut self.ids)?;
            number += black_box(&self.ids).len();
        }
        Ok(number)
    }

    fn embed_one(&mut self, text: &str) -> Result<()> {
        self.embed(&[Input::Text(text)], &EncodeOptions::default())
    }

    fn embed_unlimited(&mut self, text: &str) -> Result<()> {
        self.embed(&[Input::Text(text)], &unlimited())
    }
}

fn unlimited() -> EncodeOptions {
    EncodeOptions::default().with_max_length(MaxLength::Unlimited)
}

/// The incumbent. It returns fresh memory from every call; there is no other way to call it.
struct Model2vecRs {
    model: model2vec_rs::model::StaticModel,
    /// Texts in a call of `encode_flat`; `None` is a loop of `encode_single`.
    batch: Option<usize>,
}

pub fn model2vec_rs_flat(model: &Path, batch: usize) -> Result<Box<dyn Contender>> {
    let model = model2vec_rs::model::StaticModel::from_pretrained(model, None, None, None)?;
    Ok(Box::new(Model2vecRs { model, batch: Some(batch) }))
}

pub fn model2vec_rs_single(model: &Path) -> Result<Box<dyn Contender>> {
    let model = model2vec_rs::model::StaticModel::from_pretrained(model, None, None, None)?;
    Ok(Box::new(Model2vecRs { model, batch: None }))
}

impl Contender for Model2vecRs {
    fn embed_all(&mut self, texts: &[String]) -> Result<()> {
        match self.batch {
            Some(batch) => {
                for texts in texts.chunks(batch) {
                    black_box(self.model.encode_flat(texts));
                }
            }
            None => {
                for text in texts {
                    black_box(self.model.encode_single(text));
                }
            }
        }
        Ok(())
    }

    fn embed_one(&mut self, text: &str) -> Result<()> {
        black_box(self.model.encode_single(text));
        Ok(())
    }

    fn embed_unlimited(&mut self, text: &str) -> Result<()> {
        black_box(self.model.encode_flat_with_args(&[text.to_owned()], None));
        Ok(())
    }
}

struct Tokie(tokie::Tokenizer);

pub fn tokie(model: &Path) -> Result<Box<dyn Contender>> {
    let mut tokenizer = tokie::Tokenizer::from_json(model.join("tokenizer.json"))?;
    tokenizer.no_truncation().no_padding();
    Ok(Box::new(Tokie(tokenizer)))
}

impl Contender for Tokie {
    fn tokenize_all(&mut self, texts: &[String]) -> Result<usize> {
        Ok(texts.iter().map(|text| black_box(self.0.encode_ids(text, false)).len()).sum())
    }
}

struct Tokenizers(tokenizers::Tokenizer);

pub fn tokenizers(model: &Path) -> Result<Box<dyn Contender>> {
    let read = tokenizers::Tokenizer::from_file(model.join("tokenizer.json"));
    let mut tokenizer = read.map_err(|error| anyhow!(error))?;
    tokenizer.with_truncation(None).map_err(|error| anyhow!(error))?;
    tokenizer.with_padding(None);
    Ok(Box::new(Tokenizers(tokenizer)))
}

impl Contender for Tokenizers {
    fn tokenize_all(&mut self, texts: &[String]) -> Result<usize> {
        let mut number = 0;
        for text in texts {
            let encoding =
                self.0.encode_fast(text.as_str(), false).map_err(|error| anyhow!(error))?;
            number += black_box(encoding.get_ids()).len();
        }
        Ok(number)
    }
}
