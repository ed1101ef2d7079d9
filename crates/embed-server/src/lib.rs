//! Embeddings over HTTP, as the clients of OpenAI, Ollama and TEI ask for them, in front of the
//! micro-batcher.
//!
//! The crate knows no model: a [`ServedModel`] is anything that implements the traits of `embed-core`, with
//! the names under which it is served. [`Server::bind`] starts a batcher for each, and [`Server::run`]
//! answers until it is told to stop.
//!
//! ```
//! use std::sync::Arc;
//! # use embed_core::{Embedder, EncodeOptions, Error, Input, RowInfo, Tokens};
//! use embed_server::{Keys, Listen, Place, ServedModel, Server, Settings};
//! # struct Lengths;
//! # impl Embedder for Lengths {
//! #     fn dim(&self) -> usize { 1 }
//! #     fn model_id(&self) -> &str { "lengths" }
//! #     fn embed_into(
//! #         &self,
//! #         _: &[Input<'_>],
//! #         _: &EncodeOptions,
//! #         out: &mut [f32],
//! #         _: &mut [RowInfo],
//! #     ) -> Result<(), Error> {
//! #         out.fill(1.0);
//! #         Ok(())
//! #     }
//! # }
//! # impl Tokens for Lengths {
//! #     fn token_ids(&self, _: &str, _: &EncodeOptions, _: &mut Vec<u32>) -> Result<RowInfo, Error> {
//! #         Ok(RowInfo::default())
//! #     }
//! #     fn count_tokens(&self, _: &str, _: &EncodeOptions) -> Result<RowInfo, Error> {
//! #         Ok(RowInfo::default())
//! #     }
//! #     fn vocabulary_size(&self) -> usize { 1 }
//! # }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ServedModel {
//!     name: "lengths".into(),
//!     aliases: vec![],
//!     model: Arc::new(Lengths),
//!     options: EncodeOptions::default(),
//!     max_tokens: None,
//!     place: Place::Processor,
//! };
//! let settings = Settings { listen: Listen::Tcp(([127, 0, 0, 1], 0).into()), ..Settings::default() };
//! let server = Server::bind(settings, Keys::default(), vec![model]).await?;
//! println!("listening on {}", server.address());
//! // Stops as soon as it can: a real one waits for a signal.
//! let ended = server.run(async {}).await;
//! assert_eq!(ended.abandoned, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! Every [setting](Settings) that bounds something has a default, and a request beyond it is refused with a
//! reason and never served in part. Memory is bounded by the budgets of bodies, rows and the queue, whatever
//! clients send, announce or leave unread.
#![forbid(unsafe_code)]

mod app;
mod body;
mod budget;
mod error;
mod front;
mod inputs;
mod json;
mod metrics;
mod model;
mod openapi;
mod reply;
mod routes;
mod server;
mod settings;
mod transport;
mod turns;

pub use model::{Model, Place, ServedModel};
pub use server::{Ended, Server, StartError};
pub use settings::{
    CONFIG_VARIABLE, EmptyInput, Flags, Group, KEYS_VARIABLE, KeyOrigin, Keys, KeysError,
    KeysWarning, Listen, LoadedKeys, ModelEntry, ModelPlace, Origin, Problem, Resolved, Setting,
    Settings, SettingsError, Sources, TABLE, TokenIds, resolve,
};
