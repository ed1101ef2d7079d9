//! Every setting, once.
//!
//! The key is the name of the field. Flag, environment variable and TOML key are made from it, and the
//! default is that of [`Settings::default`], so that nothing is written twice. Help texts end without
//! a full stop: defaults are appended to them.

use super::Settings;
use super::kind::{Kind, LARGEST_BODY, Least, MANY, MOST_BYTES};

/// One setting: how it is named, what it may be, what it is for.
#[derive(Debug)]
pub struct Setting {
    key: &'static str,
    group: Group,
    kind: Kind,
    help: &'static str,
}

/// What a setting is about: a heading of the help and of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Where it listens, and who may ask.
    Access,
    /// What requests mean.
    Requests,
    /// What is too much.
    Limits,
    /// The queue, batches, the cache, threads.
    Batching,
    /// How long it waits for what.
    Times,
}

impl Group {
    /// All groups, in the order of the table.
    pub const ALL: [Self; 5] =
        [Self::Access, Self::Requests, Self::Limits, Self::Batching, Self::Times];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Access => "Access",
            Self::Requests => "Requests",
            Self::Limits => "Limits",
            Self::Batching => "Batching",
            Self::Times => "Times",
        }
    }
}

macro_rules! field {
    ($name:ident) => {
        |settings| &mut settings.$name
    };
}

/// A row of the table. The key and the field are one word.
macro_rules! setting {
    ($group:ident, $key:ident, $kind:ident $(($limits:expr))?, $help:literal) => {
        Setting {
            key: stringify!($key),
            group: Group::$group,
            kind: Kind::$kind($($limits,)? field!($key)),
            help: $help,
        }
    };
}

/// All settings, in the order in which they are shown.
pub const TABLE: &[Setting] = &[
    setting!(
        Access,
        listen,
        Listen,
        "Where it listens: `ADDRESS:PORT` (port 0: any that is free), or `unix:PATH` for this user alone"
    ),
    setting!(
        Access,
        api_key_file,
        Path,
        "File of the keys that are accepted, one a line. `EMBED_API_KEYS` may hold keys too, separated by commas"
    ),
    setting!(Access, insecure, Switch, "Listen to other machines without asking for a key"),
    setting!(
        Access,
        allowed_hosts,
        Hosts,
        "Values of the `Host` header that are answered besides those of the loopback interface, separated by commas. Only a server that listens on loopback looks at the header"
    ),
    setting!(
        Access,
        cors_origins,
        Origins,
        "Origins whose pages in a browser may read answers, exactly as browsers send them, separated by commas"
    ),
    setting!(Access, metrics_key, Switch, "Ask for a key at `/metrics` too"),
    setting!(Access, docs, Switch, "Serve `/docs` and `/openapi.json`"),
    setting!(
        Requests,
        token_ids,
        TokenIds,
        "What arrays of token ids mean: `cl100k` turns them back into text, `native` takes them as ids of the model's own vocabulary, `reject` refuses them"
    ),
    setting!(
        Requests,
        empty_input,
        EmptyInput,
        "What becomes of an empty text: `reject` refuses the request, `zero` gives a row of zeros"
    ),
    setting!(Limits, body_bytes, Bytes((1, LARGEST_BODY)), "Bytes of one request body"),
    setting!(Limits, json_depth, Count((1, 127)), "Brackets within brackets in a body"),
    setting!(Limits, max_inputs, Count((1, MANY)), "Inputs of one request"),
    setting!(Limits, max_text_chars, Count((1, MANY)), "Unicode code points of one text"),
    setting!(
        Limits,
        max_request_tokens,
        Count((1, MANY)),
        "Tokens of one request, as they count after each text was truncated; token ids count as they are sent"
    ),
    setting!(Limits, max_connections, Count((1, MANY)), "Connections at the same time"),
    setting!(
        Limits,
        body_bytes_in_flight,
        Bytes((1, MOST_BYTES)),
        "Bytes of all request bodies that are being read or answered"
    ),
    setting!(
        Limits,
        row_bytes_in_flight,
        Bytes((1, MOST_BYTES)),
        "Bytes of all rows that are being computed or sent"
    ),
    setting!(
        Batching,
        queue_texts,
        Count((1, MANY)),
        "Texts that may wait for a batch, for each model"
    ),
    setting!(
        Batching,
        queue_reserve,
        Count((0, MANY)),
        "Of those, how many are kept for requests of few texts"
    ),
    setting!(
        Batching,
        bulk_texts,
        Count((1, MANY)),
        "A request of more texts than this is bulk work, and goes after all others"
    ),
    setting!(Batching, batch_texts, Count((1, MANY)), "Texts of one batch"),
    setting!(Batching, batch_tokens, Count((1, MANY)), "Tokens of one batch"),
    setting!(
        Batching,
        inline_bytes,
        Bytes((0, LARGEST_BODY)),
        "Requests of at most so many bytes of text are computed where they were read if nothing waits, interactive ones also past bulk work: a change of threads would take longer. `0` never does that, and a model on a device never does"
    ),
    setting!(
        Batching,
        cache_rows,
        Count((0, MANY)),
        "Rows of recent texts that are kept, for each model"
    ),
    setting!(
        Batching,
        threads,
        Threads,
        "Batches of a model that may be computed at once, and threads of the runtime, each of which may compute a small request beside them: a number, or `auto` for the number of processors"
    ),
    setting!(
        Times,
        header_timeout,
        Duration(Least::Millisecond),
        "How long a client may take to send the head of a request"
    ),
    setting!(
        Times,
        body_timeout,
        Duration(Least::Millisecond),
        "How long a client may take to send a body"
    ),
    setting!(
        Times,
        write_timeout,
        Duration(Least::Millisecond),
        "How long a client may take to accept the next part of an answer"
    ),
    setting!(
        Times,
        keep_alive,
        Duration(Least::Millisecond),
        "How long a connection is kept that asks for nothing"
    ),
    setting!(
        Times,
        drain,
        Duration(Least::Zero),
        "How long admitted work may take when the server ends"
    ),
];

impl Setting {
    /// The setting of this key.
    pub fn find(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key)
    }

    /// The name of the field, and the key in a file: `body_bytes`.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The flag without its hyphens: `body-bytes`.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// The environment variable: `EMBED_SERVE_BODY_BYTES`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.key.to_ascii_uppercase())
    }

    /// What it is about.
    pub fn group(&self) -> Group {
        self.group
    }

    /// What it is for, with its unit, in a sentence without a full stop.
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// Its default as text; empty if there is none.
    pub fn default_text(&self) -> String {
        self.text(&Settings::default())
    }

    /// A word for its value.
    pub fn value_name(&self) -> &'static str {
        self.kind.value_name()
    }

    /// Whether its flag stands for `true` when it has no value.
    pub fn is_switch(&self) -> bool {
        self.kind.is_switch()
    }

    /// Its value as text, in the form that it is given in.
    pub fn text(&self, settings: &Settings) -> String {
        self.kind.text(settings)
    }

    /// What its value may be, and where it goes.
    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }
}

/// What every environment variable of a setting begins with.
pub(super) const PREFIX: &str = "EMBED_SERVE_";

#[cfg(test)]
mod tests;
