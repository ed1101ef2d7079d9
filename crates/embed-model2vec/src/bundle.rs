//! Which files make a model, and where they lie.
//!
//! A bundle is the raw bytes of a configuration, a tokenizer and a weights file. Three layouts are
//! published; the first one whose three files all exist is taken, in the order that Python model2vec
//! uses:
//!
//! | layout | configuration | weights and tokenizer |
//! | --- | --- | --- |
//! | native | `config.json` | `model.safetensors`, `tokenizer.json` |
//! | sentence-transformers | `config_sentence_transformers.json` | `model.safetensors`, `tokenizer.json` |
//! | sentence-transformers, nested | `config_sentence_transformers.json` | the same in `0_StaticEmbedding/` |
//!
//! `modules.json` beside the configuration is optional. Nothing here looks inside the files.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::bytes::Bytes;
use crate::config;
use crate::error::{Attempt, LoadError};

/// How a model's files are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Model2Vec's own: everything side by side.
    Native,
    /// sentence-transformers, everything side by side.
    SentenceTransformers,
    /// sentence-transformers with the static module in a folder of its own.
    SentenceTransformersNested,
}

impl Layout {
    /// All layouts in the order in which they are tried.
    pub const ALL: [Self; 3] =
        [Self::Native, Self::SentenceTransformers, Self::SentenceTransformersNested];

    /// Path of the configuration below the model's folder.
    pub fn config(self) -> &'static str {
        match self {
            Self::Native => "config.json",
            Self::SentenceTransformers | Self::SentenceTransformersNested => {
                "config_sentence_transformers.json"
            }
        }
    }

    /// Path of the weights below the model's folder.
    pub fn weights(self) -> &'static str {
        match self {
            Self::Native | Self::SentenceTransformers => "model.safetensors",
            Self::SentenceTransformersNested => "0_StaticEmbedding/model.safetensors",
        }
    }

    /// Path of the tokenizer below the model's folder.
    pub fn tokenizer(self) -> &'static str {
        match self {
            Self::Native | Self::SentenceTransformers => "tokenizer.json",
            Self::SentenceTransformersNested => "0_StaticEmbedding/tokenizer.json",
        }
    }

    /// The three files without which there is no model.
    pub fn required(self) -> [&'static str; 3] {
        [self.config(), self.weights(), self.tokenizer()]
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "model2vec",
            Self::SentenceTransformers => "sentence-transformers",
            Self::SentenceTransformersNested => "sentence-transformers (nested)",
        })
    }
}

/// The optional file that lists the modules of a sentence-transformers pipeline.
pub(crate) const MODULES: &str = "modules.json";

/// One file of a bundle.
#[derive(Debug)]
pub(crate) struct BundleFile {
    /// For messages; need not exist on disk.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Bytes,
}

/// The unparsed files of one model.
#[derive(Debug)]
pub struct Bundle {
    pub(crate) layout: Layout,
    pub(crate) origin: String,
    pub(crate) config: BundleFile,
    pub(crate) modules: Option<BundleFile>,
    pub(crate) tokenizer: BundleFile,
    pub(crate) weights: BundleFile,
    known_id: Option<&'static str>,
}

impl Bundle {
    /// Maps the files of a model folder into memory.
    ///
    /// The files must not be overwritten or shortened while the bundle, or a model made of it, is in
    /// use; replace them by renaming instead.
    ///
    /// # Errors
    ///
    /// [`LoadError::NotFound`] if no layout is complete, naming each missing file; otherwise
    /// [`LoadError::Read`], [`LoadError::NotAFile`] or [`LoadError::EmptyFile`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        match find_layout(folder) {
            Ok(layout) => Self::open_layout(folder, layout, folder.display().to_string()),
            Err(attempts) => {
                Err(LoadError::NotFound { wanted: folder.display().to_string(), attempts })
            }
        }
    }

    /// Maps the files of `layout` below `folder`; `origin` is the model's name in messages.
    pub(crate) fn open_layout(
        folder: &Path,
        layout: Layout,
        origin: String,
    ) -> Result<Self, LoadError> {
        let required = |name: &str| open_file(folder.join(name));
        let modules = match required(MODULES) {
            Ok(file) => Some(file),
            Err(LoadError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            layout,
            origin,
            config: required(layout.config())?,
            modules,
            tokenizer: required(layout.tokenizer())?,
            weights: required(layout.weights())?,
            known_id: None,
        })
    }

    /// Makes a bundle of bytes in memory, in the native layout.
    ///
    /// A table is read where it lies in `weights`; that of a file is moved to where it is read faster.
    ///
    /// `name` stands for the model's folder in messages.
    pub fn from_bytes(name: &str, config: Vec<u8>, tokenizer: Vec<u8>, weights: Vec<u8>) -> Self {
        Self::in_memory(
            name,
            Bytes::Owned(config),
            None,
            Bytes::Owned(tokenizer),
            Bytes::Owned(weights),
        )
    }

    /// The same bundle with a `modules.json`.
    #[must_use]
    pub fn with_modules(mut self, modules: Vec<u8>) -> Self {
        let path = Path::new(&self.origin).join(MODULES);
        self.modules = Some(BundleFile { path, bytes: Bytes::Owned(modules) });
        self
    }

    /// The model that is linked into the program.
    #[cfg(feature = "default-model")]
    pub fn default_embedded() -> Self {
        use embed_default_model as model;
        let mut bundle = Self::in_memory(
            model::NAME,
            Bytes::Static(model::CONFIG),
            Some(Bytes::Static(model::MODULES)),
            Bytes::Static(model::TOKENIZER),
            Bytes::Static(model::WEIGHTS),
        );
        bundle.known_id = Some(model::MODEL_ID);
        bundle
    }

    fn in_memory(
        name: &str,
        config: Bytes,
        modules: Option<Bytes>,
        tokenizer: Bytes,
        weights: Bytes,
    ) -> Self {
        let layout = Layout::Native;
        let file = |file: &str, bytes| BundleFile { path: Path::new(name).join(file), bytes };
        Self {
            layout,
            origin: name.to_owned(),
            config: file(layout.config(), config),
            modules: modules.map(|bytes| file(MODULES, bytes)),
            tokenizer: file(layout.tokenizer(), tokenizer),
            weights: file(layout.weights(), weights),
            known_id: None,
        }
    }

    /// How the files are arranged.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where the model comes from: a folder, a repository, or the embedded model's name.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Sizes in bytes of configuration, tokenizer and weights.
    pub fn file_sizes(&self) -> [usize; 3] {
        [self.config.bytes.len(), self.tokenizer.bytes.len(), self.weights.bytes.len()]
    }

    /// The identity of the model: BLAKE3, in hexadecimal, over the configuration, the tokenizer and
    /// the weights, each preceded by its length as a little-endian `u64`. Where the configuration
    /// leaves normalizing to `modules.json`, that file comes fourth.
    ///
    /// Reads every byte of the files unless the identity is known beforehand.
    pub fn identity(&self) -> String {
        self.known_id.map_or_else(|| self.computed_identity(), str::to_owned)
    }

    /// [`identity`](Self::identity), always computed from the bytes.
    pub fn computed_identity(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let modules = self.modules.as_ref().filter(|_| config::leaves_normalizing_to_modules(self));
        for file in [&self.config, &self.tokenizer, &self.weights].into_iter().chain(modules) {
            hasher.update(&(file.bytes.len() as u64).to_le_bytes());
            hasher.update(&file.bytes);
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// The first layout whose required files all exist, or why each layout is incomplete.
pub(crate) fn find_layout(folder: &Path) -> Result<Layout, Vec<Attempt>> {
    let mut attempts = Vec::new();
    match fs::metadata(folder) {
        Err(error) => {
            return Err(vec![Attempt {
                place: folder.display().to_string(),
                reason: error.to_string(),
            }]);
        }
        Ok(metadata) if !metadata.is_dir() => {
            let reason = "expected a folder, found a file".to_owned();
            return Err(vec![Attempt { place: folder.display().to_string(), reason }]);
        }
        Ok(_) => {}
    }
    for layout in Layout::ALL {
        let missing: Vec<_> = layout
            .required()
            .into_iter()
            .filter_map(|name| fs::metadata(folder.join(name)).err().map(|error| (name, error)))
            .collect();
        if missing.is_empty() {
            return Ok(layout);
        }
        attempts.extend(missing.into_iter().map(|(name, error)| Attempt {
            place: folder.join(name).display().to_string(),
            reason: match error.kind() {
                io::ErrorKind::NotFound => format!("no such file ({layout} layout)"),
                _ => format!("{error} ({layout} layout)"),
            },
        }));
    }
    Err(attempts)
}

/// Maps one file after checking that it is one and that it has contents.
fn open_file(path: PathBuf) -> Result<BundleFile, LoadError> {
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(source) => return Err(LoadError::Read { path, source }),
    };
    if metadata.is_dir() {
        return Err(LoadError::NotAFile { path, found: "a directory" });
    }
    if !metadata.is_file() {
        return Err(LoadError::NotAFile { path, found: "a device, socket or pipe" });
    }
    if metadata.len() == 0 {
        return Err(LoadError::EmptyFile { path });
    }
    match Bytes::map(&path) {
        Ok(bytes) => Ok(BundleFile { path, bytes }),
        Err(source) => Err(LoadError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "default-model")]
    fn the_embedded_identity_is_that_of_the_bytes() {
        let bundle = Bundle::default_embedded();
        assert_eq!(bundle.identity(), bundle.computed_identity());
    }

    #[test]
    fn the_identity_depends_on_where_a_file_ends() {
        let bundle = |config: &[u8], tokenizer: &[u8]| {
            Bundle::from_bytes("m", config.to_vec(), tokenizer.to_vec(), Vec::new()).identity()
        };
        assert_ne!(bundle(b"ab", b"c"), bundle(b"a", b"bc"));
    }

    #[test]
    fn the_identity_covers_modules_where_they_decide_on_normalizing() {
        let bundle = |config: &str, modules: &str| {
            Bundle::from_bytes("m", config.into(), Vec::new(), Vec::new())
                .with_modules(modules.into())
                .identity()
        };
        assert_ne!(bundle("{}", "[]"), bundle("{}", "[{}]"));
        let decided = r#"{"normalize":true}"#;
        assert_eq!(bundle(decided, "[]"), bundle(decided, "[{}]"));
    }

    #[test]
    fn the_first_complete_layout_wins() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        let place = |name: &str| path.join(name).display().to_string();

        let attempts = find_layout(path).expect_err("an empty folder holds no model");
        assert_eq!(attempts.len(), 9, "three files of three layouts");
        assert_eq!(attempts[0].place, place("config.json"));

        fs::create_dir(path.join("0_StaticEmbedding"))?;
        for file in Layout::SentenceTransformersNested.required() {
            fs::write(path.join(file), "x")?;
        }
        assert_eq!(find_layout(path), Ok(Layout::SentenceTransformersNested));
        for file in Layout::Native.required() {
            fs::write(path.join(file), "x")?;
        }
        assert_eq!(find_layout(path), Ok(Layout::Native));
        Ok(())
    }
}
