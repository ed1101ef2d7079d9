//! The server over a real socket, with models that do as they are told.

mod adapters;
mod bodies;
mod client;
mod embeddings;
mod errors;
mod lifecycle;
mod limits;
mod model;
mod operation;
mod server;
