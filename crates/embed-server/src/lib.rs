//! Embeddings over HTTP, as the clients of OpenAI, Ollama and TEI ask for them, in front of the micro-batcher.
#![forbid(unsafe_code)]

mod settings;

pub use settings::{
    CONFIG_VARIABLE, EmptyInput, Flags, Group, KEYS_VARIABLE, KeyOrigin, Keys, KeysError,
    KeysWarning, Listen, LoadedKeys, ModelEntry, ModelPlace, Origin, Problem, Resolved, Setting,
    Settings, SettingsError, Sources, TABLE, TokenIds, resolve,
};
