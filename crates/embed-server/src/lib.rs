//! Embeddings over HTTP, as the clients of OpenAI, Ollama and TEI ask for them, in front of the micro-batcher.
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

pub use model::{Model, Place, ServedModel};
pub use server::{Ended, Server, StartError};
pub use settings::{
    CONFIG_VARIABLE, EmptyInput, Flags, Group, KEYS_VARIABLE, KeyOrigin, Keys, KeysError,
    KeysWarning, Listen, LoadedKeys, ModelEntry, ModelPlace, Origin, Problem, Resolved, Setting,
    Settings, SettingsError, Sources, TABLE, TokenIds, resolve,
};
