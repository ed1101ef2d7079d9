//! Embeddings over HTTP, as the clients of OpenAI, Ollama and TEI ask for them, in front of the micro-batcher.
#![forbid(unsafe_code)]

mod settings;

pub use settings::{EmptyInput, Listen, Settings, TokenIds};
