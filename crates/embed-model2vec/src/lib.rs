//! Exact Model2Vec text embeddings on the CPU: load a model, embed batches of texts.
//!
//! A static model turns a text into token ids, looks up one row of a table for each, and averages the
//! rows. This crate does so with the results of Python model2vec 0.10, bit for bit, and loads every published
//! form of such models: see [`Bundle`] for the layouts.
//!
//! ```
//! # #[cfg(feature = "default-model")] {
//! use embed_core::{Embedder, EncodeOptions, MaxLength};
//! use embed_model2vec::StaticModel;
//!
//! let model = StaticModel::default_embedded();
//! let options = EncodeOptions::default().with_max_length(MaxLength::Unlimited);
//! let rows = model.embed_with(&["first text", "second text"], &options)?;
//! assert_eq!(rows.row(0).len(), model.dim());
//! # }
//! # Ok::<(), embed_core::Error>(())
//! ```
//!
//! # Life of a batch
//!
//! ```text
//! texts --limits: pre-cut--> tokenizer --limits: count, stop, drop unknown--> ids
//!       --pooler--> mean row --norm--> row, text after text
//! ```
//!
//! # Features
//!
//! | feature | gives |
//! | --- | --- |
//! | `candle` (default) | [`device::candle`]: pooling as a Candle op; [`padded`]: the padded forward on a Candle device, as a cross-check |
//! | `cuda` | pooling on CUDA devices: see [`device`] |
//! | `candle-cuda` | the Candle op on Candle's CUDA backend; needs a CUDA toolkit to build |
//! | `default-model` | [`StaticModel::default_embedded`]: 8 MB of English model inside the program |
//! | `metal` | models on the GPU of a Mac: [`StaticModel::on`] with [`device::Device::Metal`] |
//! | `tokenizers` (default) | the `tokenizers` crate for tokenizer files that our own do not serve, and [`Sequential`] |
//! | `hub` | [`hub`]: models by name, from the Hugging Face cache or downloaded |
//!
//! Three forwards exist. The batched one behind [`StaticModel`] is the product. [`Sequential`] is the
//! reference, written as plainly as possible; `padded` is the classic formulation on tensors. The two
//! exist to prove the first one right.

mod both;
mod bundle;
mod bytes;
mod config;
pub mod device;
mod error;
mod forward;
mod kernels;
mod limits;
mod model;
mod pages;
mod parallel;
mod prefetch;
#[cfg(feature = "tokenizers")]
mod sequential;
mod tokenizer;
mod weights;

#[cfg(feature = "hub")]
pub mod hub;
#[cfg(feature = "candle")]
pub mod padded;

/// The traits and types that models are used through.
pub use embed_core;

pub use bundle::{Bundle, Layout};
pub use error::{Attempt, LoadError};
pub use model::{Audit, Description, ModelOptions, StaticModel};
#[cfg(feature = "tokenizers")]
pub use sequential::Sequential;
