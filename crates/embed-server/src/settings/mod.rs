//! The settings of a server, as plain values, and how they are found.
//!
//! | module | does |
//! | --- | --- |
//! | `table` | every setting once: its key, what it may be, what it is for, its field |
//! | `kind` | what values may be, and their way to the field and back |
//! | `value` | sizes, durations, addresses: from text and to text |
//! | `resolve` | flag over environment over file over default; where each value came from |
//! | `models` | which models are served, under which names |
//! | `check` | settings that contradict each other |
//! | `error` | everything that can be wrong, told at once |
//! | `show` | the settings as a TOML file |
//! | `keys` | the keys of callers, which are no setting: never shown |

mod check;
mod error;
mod keys;
mod kind;
mod models;
mod resolve;
mod show;
mod table;
mod value;

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use error::{Problem, SettingsError};
pub use keys::{KeyOrigin, Keys, KeysError, KeysWarning, LoadedKeys};
pub use models::{ModelEntry, ModelPlace};
pub use resolve::{CONFIG_VARIABLE, Flags, KEYS_VARIABLE, Origin, Resolved, Sources, resolve};
pub use table::{Group, Setting, TABLE};

/// The settings of a server.
///
/// Write `Settings { queue_texts: 100, ..Settings::default() }`: settings may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens.
    pub listen: Listen,
    /// A file of keys, one a line; blank lines and those that begin with `#` do not count.
    pub api_key_file: Option<PathBuf>,
    /// Whether it may listen to other machines without asking for a key.
    pub insecure: bool,
    /// Values of the `Host` header that are answered besides those of the loopback interface. Only a
    /// server that listens on loopback looks at the header.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages in a browser may read answers.
    pub cors_origins: Vec<String>,
    /// Whether `/metrics` asks for a key too.
    pub metrics_key: bool,
    /// Whether `/docs` and `/openapi.json` are served.
    pub docs: bool,
    /// What arrays of token ids mean.
    pub token_ids: TokenIds,
    /// What becomes of an empty text.
    pub empty_input: EmptyInput,
    /// Bytes of one request body.
    pub body_bytes: usize,
    /// Brackets within brackets in a body.
    pub json_depth: usize,
    /// Inputs of one request.
    pub max_inputs: usize,
    /// Unicode code points of one text.
    pub max_text_chars: usize,
    /// Tokens of one request, as they count after each text was truncated; token ids count as they are sent.
    pub max_request_tokens: usize,
    /// Connections at the same time.
    pub max_connections: usize,
    /// Bytes of all request bodies that are being read or answered.
    pub body_bytes_in_flight: usize,
    /// Bytes of all rows that are being computed or sent.
    pub row_bytes_in_flight: usize,
    /// Texts that may wait for a batch, for each model.
    pub queue_texts: usize,
    /// Of those, how many are kept for requests of few texts; by default no more than an eighth.
    pub queue_reserve: usize,
    /// A request of more texts than this is bulk work, and goes after all others.
    pub bulk_texts: usize,
    /// Texts of one batch.
    pub batch_texts: usize,
    /// Tokens of one batch.
    pub batch_tokens: usize,
    /// Requests of at most so many bytes of text are computed where they were read if nothing waits,
    /// interactive ones also past bulk work: a change of threads would take longer. Zero never does that, and
    /// a model on a device never does.
    pub inline_bytes: usize,
    /// Rows of recent texts that are kept, for each model.
    pub cache_rows: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// How long a client may take to accept the next part of an answer.
    pub write_timeout: Duration,
    /// How long a connection is kept that asks for nothing.
    pub keep_alive: Duration,
    /// How long admitted work may take when the server ends.
    pub drain: Duration,
    /// Batches of a model that may be computed at once, and threads of the runtime, each of which may
    /// compute a small request beside them; `None` is the number of processors.
    pub threads: Option<NonZeroUsize>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// At an address of the network; port 0 takes any that is free.
    Tcp(SocketAddr),
    /// At a path of the file system, for the same user alone.
    Unix(PathBuf),
}

/// What arrays of token ids mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenIds {
    /// Ids of OpenAI's `cl100k_base`, as LangChain sends them: turned back into text.
    Cl100k,
    /// Ids of the model's own vocabulary.
    Native,
    /// They are refused.
    Reject,
}

/// What becomes of an empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyInput {
    /// The request is refused: a row of zeros would poison an index.
    Reject,
    /// It gives a row of zeros.
    Zero,
}

impl Settings {
    /// Batches of a model that may be computed at once, and threads of the runtime.
    pub fn threads(&self) -> NonZeroUsize {
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(processors)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp((Ipv4Addr::LOCALHOST, 8080).into()),
            api_key_file: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            metrics_key: false,
            docs: true,
            token_ids: TokenIds::Cl100k,
            empty_input: EmptyInput::Reject,
            body_bytes: 16 << 20,
            json_depth: 32,
            max_inputs: 2048,
            max_text_chars: 1_000_000,
            max_request_tokens: 300_000,
            max_connections: 1024,
            body_bytes_in_flight: 64 << 20,
            row_bytes_in_flight: 64 << 20,
            queue_texts: 4096,
            queue_reserve: 512,
            bulk_texts: 64,
            batch_texts: 1024,
            batch_tokens: 65_536,
            inline_bytes: 4096,
            cache_rows: 0,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(75),
            drain: Duration::from_secs(30),
            threads: None,
        }
    }
}
