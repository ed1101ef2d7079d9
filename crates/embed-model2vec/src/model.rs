//! The loaded model: what it is, what it holds, and its place behind the traits.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use embed_core::{Embedder, EncodeOptions, Error, Input, Normalize, RowInfo, Tokens};

use crate::both::both;
use crate::bundle::{Bundle, Layout};
use crate::config::ModelConfig;
use crate::device::{self, Counts, Device, DeviceError, DeviceTable, PoolRows};
use crate::error::LoadError;
use crate::forward;
use crate::kernels::{Level, Pooler};
use crate::limits::Limits;
use crate::parallel::Workers;
use crate::tokenizer::{IdSink, Spellings, Tokenizer};
use crate::weights::Weights;

/// Limits of a model that are chosen when it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelOptions {
    /// The largest text that is tokenized in one piece, in bytes after the pre-cut; a larger one is
    /// refused with [`Error::TextTooLarge`]. Default: 1 MiB.
    ///
    /// Our own tokenizers take at most a few times the text, beside working memory of 2 to 5 MiB for each
    /// call at the same time; through the `tokenizers` crate it is about 115 times the size of a text for
    /// prose, and 430 times for nothing but punctuation, so this bounds what one text can claim. Under the
    /// default limit of 512 tokens the pre-cut keeps every text far below it.
    pub max_text_bytes: usize,
    /// How many threads work on one large batch, the caller's among them. Default: 1, so that a call
    /// stays on its thread. The rows are the same for any number, and a batch of less than 64 KiB
    /// never leaves the caller's thread.
    ///
    /// A model with several threads keeps them, asleep, as long as it lives. Take the number of processors
    /// where batches come one at a time, as in a program that embeds files, and 1 where many threads call at
    /// once.
    pub threads: NonZeroUsize,
}

impl ModelOptions {
    /// The same limits with another size of the largest text, in bytes.
    #[must_use]
    pub fn with_max_text_bytes(self, max_text_bytes: usize) -> Self {
        Self { max_text_bytes, ..self }
    }

    /// The same limits with another number of threads.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self { max_text_bytes: 1 << 20, threads: NonZeroUsize::MIN }
    }
}

/// Text after which a table is moved to where it is read faster: as much as is embedded in about the time
/// that moving takes, so that whoever stops right here has waited twice as long as needed, and nobody
/// longer.
///
/// A table of 30 MiB takes 8 ms, and so does a mebibyte of English. Less than that is not worth counting.
fn worth_moving_after(table_bytes: usize) -> usize {
    const LEAST: usize = 1 << 20;
    LEAST.max(table_bytes / 32)
}

/// A Model2Vec model: a tokenizer and a table of rows, ready to embed from any number of threads.
///
/// Calls do not change the model: calls with different options run side by side without touching each
/// other.
///
/// ```
/// # #[cfg(feature = "default-model")] {
/// use embed_core::Embedder;
/// use embed_model2vec::StaticModel;
///
/// let model = StaticModel::default_embedded();
/// let rows = model.embed(&["a cat sat on the mat", "the weather is nice"])?;
/// assert_eq!((rows.len(), rows.dim()), (2, 256));
/// # }
/// # Ok::<(), embed_core::Error>(())
/// ```
#[derive(Debug)]
pub struct StaticModel {
    bundle: Bundle,
    config: ModelConfig,
    tokenizer: Tokenizer,
    weights: Weights,
    options: ModelOptions,
    /// How rows are pooled: the fastest way that this machine knows.
    level: Level,
    /// Threads that help with large batches, if there are any.
    workers: Option<Workers>,
    /// The device that holds a copy of the table, if rows are not pooled here.
    device: Option<Box<dyn PoolRows>>,
    identity: OnceLock<String>,
    /// Read when somebody asks for a token.
    spellings: OnceLock<Spellings>,
    forwards: AtomicU64,
    /// Bytes of text and ids of all batches so far, until the table was moved.
    bytes_before_move: AtomicUsize,
    /// What that number has to reach.
    worth_moving_after: usize,
}

impl StaticModel {
    /// Loads a model from a folder, with the default [`ModelOptions`].
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::open`] and [`from_bundle`](Self::from_bundle).
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::from_bundle(Bundle::open(folder)?, ModelOptions::default())
    }

    /// The model that is linked into the program: English, 256 dimensions. Touches no file.
    ///
    /// # Panics
    ///
    /// Never: the bytes are constants, and the tests load them.
    #[cfg(feature = "default-model")]
    pub fn default_embedded() -> Self {
        Self::from_bundle(Bundle::default_embedded(), ModelOptions::default())
            .expect("the embedded model is a valid model")
    }

    /// Parses and checks the files of a bundle.
    ///
    /// # Errors
    ///
    /// A [`LoadError`] that names the file, what was expected in it and what was found.
    pub fn from_bundle(bundle: Bundle, options: ModelOptions) -> Result<Self, LoadError> {
        let config = ModelConfig::read(&bundle)?;
        let (tokenizer, weights) = both(
            || Tokenizer::load(&bundle.tokenizer),
            || Weights::load(&bundle.weights, bundle.layout),
        );
        let (tokenizer, weights) = (tokenizer?, weights?);
        weights.check(&bundle.weights, tokenizer.vocabulary().size)?;
        let workers = Workers::new(options.threads)?;
        let table_bytes = weights.elements.bytes(&bundle.weights.bytes).len();
        let worth_moving_after = worth_moving_after(table_bytes);
        // Read through once, and now only for the identity, the reference forward and spellings.
        bundle.tokenizer.bytes.release();
        Ok(Self {
            bundle,
            config,
            tokenizer,
            weights,
            options,
            workers,
            level: Level::best(),
            device: None,
            identity: OnceLock::new(),
            spellings: OnceLock::new(),
            forwards: AtomicU64::new(0),
            bytes_before_move: AtomicUsize::new(0),
            worth_moving_after,
        })
    }

    /// Moves the model to a device: uploads the table, which stays there as long as the model lives.
    ///
    /// Texts are tokenized by the caller's thread alone, whatever
    /// [`ModelOptions::threads`](ModelOptions) says. Rows agree with those of the processor to rounding,
    /// not in bits. [`Device::Auto`] takes the first GPU that takes the table, and the processor if none
    /// does; which one is told by [`device_name`](Self::device_name). A device that fails for good needs
    /// the model to be loaded anew.
    ///
    /// # Errors
    ///
    /// [`DeviceError`]: this program has no such device, or the device has no kernel for this table, or
    /// failed. Never for [`Device::Auto`].
    pub fn on(mut self, device: Device) -> Result<Self, DeviceError> {
        let upload = |gpu| {
            let table = DeviceTable::new(&self.weights, &self.bundle.weights.bytes, gpu)?;
            device::upload(gpu, &table)
        };
        self.device = match device {
            Device::Cpu => None,
            Device::Auto => {
                let gpus = device::available().into_iter().filter(|gpu| *gpu != Device::Cpu);
                gpus.map(upload).find_map(Result::ok)
            }
            gpu => Some(upload(gpu)?),
        };
        Ok(self)
    }

    /// How often the device was asked for something since the table was uploaded; `None` where rows
    /// are pooled by the processor.
    pub fn device_counts(&self) -> Option<Counts> {
        self.device.as_ref().map(|device| device.counts())
    }

    /// Whether the table was moved to where it is read faster, as it is after some text. For tests.
    #[doc(hidden)]
    pub fn has_moved_table(&self) -> bool {
        self.weights.has_moved()
    }

    /// The device that rows are pooled on, in words; `None` where that is the processor.
    pub fn device_name(&self) -> Option<&str> {
        self.device.as_ref().map(|device| device.name())
    }

    /// The pooling kernels that this machine can run, the fastest one last. For benchmarks and
    /// comparisons: all of them give the same bits.
    #[doc(hidden)]
    pub fn kernels() -> impl Iterator<Item = &'static str> {
        Level::available().into_iter().map(Level::name)
    }

    /// The model with one of [`kernels`](Self::kernels); unchanged if there is none of that name.
    #[doc(hidden)]
    #[must_use]
    pub fn with_kernel(mut self, name: &str) -> Self {
        if let Some(level) = Level::available().into_iter().find(|level| level.name() == name) {
            self.level = level;
        }
        self
    }

    /// The files that the model was made of.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The limits that the model was loaded with.
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// The same model with another [`ModelOptions::max_text_bytes`].
    #[must_use]
    pub fn with_max_text_bytes(mut self, max_text_bytes: usize) -> Self {
        self.options.max_text_bytes = max_text_bytes;
        self
    }

    /// Whether a tokenizer of this crate serves the model, which needs a small multiple of the memory of a
    /// text; the `tokenizers` crate, which serves all others, needs hundreds of times as much.
    pub fn has_own_tokenizer(&self) -> bool {
        self.tokenizer.is_own()
    }

    /// What the model is, in words and numbers.
    pub fn description(&self) -> Description {
        let vocabulary = self.tokenizer.vocabulary();
        Description {
            origin: self.bundle.origin.clone(),
            layout: self.bundle.layout,
            dim: self.weights.dim,
            rows: self.weights.rows,
            table_name: self.weights.table_name.clone(),
            table_type: self.weights.elements.type_name(),
            weights_type: self.weights.factors.type_name(),
            mapped: self.weights.mapping.is_some(),
            tokenizer: self.tokenizer.implementation(),
            kernel: self.level.name(),
            vocabulary: vocabulary.size,
            unk_id: vocabulary.unk_id,
            median_chars: vocabulary.median_chars,
            max_length: self.config.max_length,
            normalize: self.config.normalize,
        }
    }

    /// How often a batch of one or more inputs was embedded since the model was loaded.
    ///
    /// A batch is one forward, however many inputs it has; a single text is a batch of one.
    pub fn forward_count(&self) -> u64 {
        self.forwards.load(Ordering::Relaxed)
    }

    /// Looks at the row of every token for values that spoil embeddings.
    ///
    /// # Panics
    ///
    /// Never: token ids are `u32`.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit::default();
        let mut row = vec![0.0; self.weights.dim];
        let mut pooler = self.pooler(self.weights.dim);
        for id in 0..self.tokenizer.vocabulary().size {
            let id = u32::try_from(id).expect("ids are u32");
            let _ = pooler.push(id);
            pooler.finish(&mut row);
            if row.iter().any(|value| !value.is_finite()) {
                audit.non_finite.push(id);
            } else if row.iter().all(|&value| value == 0.0) {
                audit.zero.push(id);
            }
        }
        audit
    }

    /// The number of code points of a text that are looked at under `options`; `None` means all.
    ///
    /// A caller that holds only a part of a long text can use it to know whether the part suffices.
    pub fn max_chars(&self, options: &EncodeOptions) -> Option<usize> {
        self.limits(options).max_chars()
    }

    /// Whether rows are scaled to length 1 under `options`.
    pub fn normalizes(&self, options: &EncodeOptions) -> bool {
        match options.normalize {
            Normalize::Model => self.config.normalize,
            Normalize::Yes => true,
            Normalize::No => false,
        }
    }

    pub(crate) fn limits(&self, options: &EncodeOptions) -> Limits {
        Limits::new(options, &self.config, self.tokenizer.vocabulary())
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    #[cfg(any(feature = "candle", feature = "tokenizers"))]
    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    #[cfg(any(feature = "candle", feature = "tokenizers"))]
    pub(crate) fn weights_file(&self) -> &crate::bundle::BundleFile {
        &self.bundle.weights
    }

    #[cfg(feature = "tokenizers")]
    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub(crate) fn device(&self) -> Option<&dyn PoolRows> {
        self.device.as_deref()
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// A pooler for rows of `columns` values.
    pub(crate) fn pooler(&self, columns: usize) -> Pooler<'_> {
        Pooler::new(&self.weights, &self.bundle.weights.bytes, self.level, columns)
    }

    pub(crate) fn workers(&self) -> Option<&Workers> {
        self.workers.as_ref()
    }

    pub(crate) fn count_forward(&self) {
        self.forwards.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch of `bytes` of text that is pooled here.
    ///
    /// When there was so much that a faster table pays, the batch that comes then makes it: a model
    /// that answers a few questions is loaded faster and stays smaller.
    pub(crate) fn count_text(&self, bytes: usize) {
        let (so_far, enough) = (&self.bytes_before_move, self.worth_moving_after);
        if so_far.load(Ordering::Relaxed) < enough {
            let bytes = bytes.min(enough);
            let before = so_far.fetch_add(bytes, Ordering::Relaxed);
            // One of several batches at the same time is the one that gets there.
            if before < enough && before.saturating_add(bytes) >= enough {
                self.weights.move_to_pages(&self.bundle.weights.bytes);
            }
        }
    }
}

impl Embedder for StaticModel {
    fn dim(&self) -> usize {
        self.weights.dim
    }

    /// BLAKE3 over the model's files: see [`Bundle::identity`]. Computed on the first call.
    fn model_id(&self) -> &str {
        self.identity.get_or_init(|| self.bundle.identity())
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), Error> {
        forward::embed_into(self, inputs, options, out, info)
    }
}

impl Tokens for StaticModel {
    fn token_ids(
        &self,
        text: &str,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<RowInfo, Error> {
        let session = &mut self.tokenizer.session();
        forward::push_input(self, session, &self.limits(options), 0, &Input::Text(text), ids)
    }

    fn count_tokens(&self, text: &str, options: &EncodeOptions) -> Result<RowInfo, Error> {
        let session = &mut self.tokenizer.session();
        let limits = self.limits(options);
        forward::push_input(self, session, &limits, 0, &Input::Text(text), &mut Discard)
    }

    fn vocabulary_size(&self) -> usize {
        self.tokenizer.vocabulary().size
    }

    fn token(&self, id: u32) -> Option<&str> {
        let read = || Spellings::read(&self.bundle.tokenizer, self.vocabulary_size());
        self.spellings.get_or_init(read).token(id)
    }
}

/// Keeps ids, for callers that want them.
impl IdSink for Vec<u32> {
    fn push(&mut self, id: u32) -> ControlFlow<()> {
        Vec::push(self, id);
        ControlFlow::Continue(())
    }

    fn push_all(&mut self, ids: &[u32]) -> ControlFlow<()> {
        self.extend_from_slice(ids);
        ControlFlow::Continue(())
    }
}

/// Takes ids that only had to be counted.
struct Discard;

impl IdSink for Discard {
    fn push(&mut self, _: u32) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Facts about a loaded model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Folder, repository or name that the model comes from.
    pub origin: String,
    /// How its files are arranged.
    pub layout: Layout,
    /// Width of a row.
    pub dim: usize,
    /// Rows of the table.
    pub rows: usize,
    /// Name of the table's tensor.
    pub table_name: String,
    /// Stored element type of the table, as safetensors names it.
    pub table_type: &'static str,
    /// Stored type of the per-token weights, if there are any. BF16 weights read as F32.
    pub weights_type: Option<&'static str>,
    /// Whether token ids are mapped to rows.
    pub mapped: bool,
    /// Kind of tokenizer and what runs it.
    pub tokenizer: &'static str,
    /// Instructions that rows are pooled with.
    pub kernel: &'static str,
    /// Number of token ids.
    pub vocabulary: usize,
    /// Id of the unknown token.
    pub unk_id: Option<u32>,
    /// Median length of a vocabulary entry in code points.
    pub median_chars: usize,
    /// Default token limit; `None` is no limit.
    pub max_length: Option<NonZeroUsize>,
    /// Whether rows are normalized by default.
    pub normalize: bool,
}

/// Token ids whose rows deserve attention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Rows with a NaN or an infinity: every text with such a token becomes useless.
    pub non_finite: Vec<u32>,
    /// Rows of zeros: such a token only shrinks the mean.
    pub zero: Vec<u32>,
}
