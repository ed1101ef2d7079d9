//! Models and corpora, and which rows of the table each can serve.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use embed_model2vec::StaticModel;
use serde_json::Value;

use crate::ci::workspace_folder;

/// What the table of targets tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// WordPiece, a table of f32.
    F32,
    /// WordPiece, int8 rows with a scale each.
    Int8Row,
    /// WordPiece, int8 rows without scales.
    Int8,
    /// Unigram with a precompiled normalizer: made as such.
    Unigram,
    /// Unigram made of another tokenizer's vocabulary.
    UnigramFaked,
    /// Byte-level BPE.
    Bpe,
    /// Anything else: measured for memory alone.
    Other,
}

impl Kind {
    /// The kind in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "a WordPiece model of f32 rows",
            Self::Int8Row => "a WordPiece model of int8 rows with scales",
            Self::Int8 => "a WordPiece model of int8 rows",
            Self::Unigram => "a Unigram model with a precompiled normalizer",
            Self::UnigramFaked => "a Unigram model made of another tokenizer",
            Self::Bpe => "a BPE model",
            Self::Other => "another model",
        }
    }
}

/// A model folder.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) kind: Kind,
    /// Of configuration, tokenizer and weights.
    pub(super) file_bytes: usize,
}

impl Model {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let model = StaticModel::open(folder)?;
        let description = model.description();
        let tokenizer = folder.join(model.bundle().layout().tokenizer());
        let tokenizer: Value = serde_json::from_slice(&fs::read(&tokenizer)?)
            .with_context(|| format!("reading {}", tokenizer.display()))?;
        let kind_of = |part: &str| tokenizer[part]["type"].as_str().unwrap_or_default();
        let scaled = description.weights_type.is_some();
        let kind = match (kind_of("model"), description.table_type, description.mapped) {
            ("WordPiece", "F32", false) => Kind::F32,
            ("WordPiece", "I8", false) if scaled => Kind::Int8Row,
            ("WordPiece", "I8", false) => Kind::Int8,
            ("Unigram", ..) if kind_of("normalizer") == "Precompiled" => Kind::Unigram,
            ("Unigram", ..) => Kind::UnigramFaked,
            ("BPE", ..) => Kind::Bpe,
            _ => Kind::Other,
        };
        Ok(Self {
            name: folder_name(folder),
            folder: folder.to_owned(),
            kind,
            file_bytes: model.bundle().file_sizes().iter().sum(),
        })
    }

    /// The files of the built-in model, which lie in the repository.
    pub(super) fn built_in() -> Result<Self> {
        let folder = workspace_folder().join("crates/embed-default-model/model");
        Ok(Self { name: embed_default_model::NAME.to_owned(), ..Self::read(&folder)? })
    }
}

/// The last part of a path; with the part before it, if it says nothing.
fn folder_name(folder: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.display().to_string());
    let last = name(folder).unwrap_or_default();
    match folder.parent().and_then(name) {
        Some(parent) if last == "model" => format!("{parent}/{last}"),
        _ => last,
    }
}

/// A file of texts.
pub(super) struct Corpus {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Whether most lines are not ASCII.
    pub(super) multilingual: bool,
}

impl Corpus {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let ascii = text.lines().filter(|line| line.is_ascii()).count();
        Ok(Self {
            name: path.file_name().map(|name| name.display().to_string()).unwrap_or_default(),
            path: path.to_owned(),
            multilingual: ascii * 2 < text.lines().count(),
        })
    }
}

/// Everything that was given.
pub(super) struct Inputs {
    pub(super) models: Vec<Model>,
    pub(super) corpora: Vec<Corpus>,
}

impl Inputs {
    /// The first model of a kind.
    pub(super) fn model(&self, kind: Kind) -> Option<&Model> {
        self.models.iter().find(|model| model.kind == kind)
    }

    /// The first corpus that is mostly ASCII.
    pub(super) fn english(&self) -> Option<&Corpus> {
        self.corpora.iter().find(|corpus| !corpus.multilingual)
    }

    /// The first corpus that is not.
    pub(super) fn multilingual(&self) -> Option<&Corpus> {
        self.corpora.iter().find(|corpus| corpus.multilingual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_no_paths() {
        assert_eq!(folder_name(Path::new("/somewhere/minilm-256-f32")), "minilm-256-f32");
        assert_eq!(folder_name(Path::new("/somewhere/static_model/model/")), "static_model/model");
    }

    #[test]
    fn the_built_in_model_has_scales() -> Result<()> {
        let model = Model::built_in()?;
        assert_eq!((model.kind, model.name.as_str()), (Kind::Int8Row, "default-en-256"));
        assert!(model.file_bytes > 8_000_000);
        Ok(())
    }
}
