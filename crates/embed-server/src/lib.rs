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
#[cfg_attr(not(test), expect(dead_code, reason = "no route serves it yet"))]
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

/// The description of the API in OpenAPI 3.1.
const OPENAPI: &str = include_str!("openapi.json");

/// The page for people.
const DOCS: &str = include_str!("docs.html");
