//! `embed serve`: models behind HTTP, until a signal.

mod signals;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use embed_core::MaxLength;
use embed_files::output::Destination;
use embed_model2vec::{Bundle, ModelOptions};
use embed_server::{
    CONFIG_VARIABLE, Ended, Flags, KEYS_VARIABLE, Keys, ModelEntry, ModelPlace, Place, Resolved,
    ServedModel, Server, Settings, Sources, resolve,
};
use tokio::runtime::Builder;

use crate::cli::{GlobalArgs, ServeArgs};
use crate::console::{self, Console, count};
use crate::exit_code::Outcome;
use crate::memory;
use crate::model;
use signals::Signals;

pub(crate) fn run(args: &ServeArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let env: Vec<(OsString, OsString)> = env::vars_os().collect();
    let resolved = settings(args, global, &env)?;
    if args.print_config {
        let mut out = Destination::stdout()?;
        out.write(resolved.to_toml().as_bytes())?;
        out.commit()?;
        return Ok(Outcome::Done);
    }
    let keys = keys(&resolved, &env, console)?;
    keep_texts_out_of_the_log();
    memory::give_large_blocks_back();
    let Resolved { settings, models, .. } = resolved;
    let runtime = Builder::new_multi_thread()
        .event_interval(TASKS_BETWEEN_LOOKS)
        .worker_threads(settings.threads().get())
        .enable_all()
        .build()
        .context("starting the threads of the server")?;
    let signals = {
        let _inside = runtime.enter();
        Signals::watch().context("installing the handlers of signals")?
    };
    // On this thread, which none of the runtime waits for.
    let models = open(models, &settings, global, console)?;
    let ended = runtime.block_on(async {
        let server = Server::bind(settings, keys, models).await?;
        // From here on the first signal is a wish, not an end.
        let stop = signals.stop_gently();
        console.note(&format!("listening on {}", server.address()));
        anyhow::Ok(server.run(stop).await)
    });
    // What still runs was given up: nobody waits for it.
    runtime.shutdown_background();
    let Ended { abandoned, .. } = ended?;
    if abandoned == 0 {
        return Ok(Outcome::Done);
    }
    let connections = count(abandoned as u64, "connection");
    console.warn(&format!("{connections} cut off after the time for draining (--drain)"));
    Ok(Outcome::Incomplete)
}

/// A thread of the runtime looks for what came over sockets after so many turns of tasks. A turn that sends a
/// piece of a large answer takes some 50 microseconds: with tokio's 61 turns, a question that comes meanwhile
/// is not seen for milliseconds.
const TASKS_BETWEEN_LOOKS: u32 = 4;

/// From now on a panic says where it happened and not what it is about: that could be a text of a caller.
fn keep_texts_out_of_the_log() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        console::fault(&format!(
            "a fault of this program at {place}; the request was answered with 500"
        ));
    }));
}

/// The settings of all sources.
fn settings(
    args: &ServeArgs,
    global: &GlobalArgs,
    env: &[(OsString, OsString)],
) -> Result<Resolved> {
    let path = args.config.clone().or_else(|| variable(env, CONFIG_VARIABLE).map(PathBuf::from));
    let text = path.as_ref().map(|path| {
        fs::read_to_string(path)
            .with_context(|| format!("cannot read the settings in {}", path.display()))
    });
    let text = text.transpose()?;
    let flags = Flags {
        settings: args.settings.clone(),
        models: global.model.clone(),
        aliases: args.aliases.clone(),
    };
    let built_in = Bundle::default_embedded();
    Ok(resolve(&Sources {
        flags: &flags,
        env,
        file: path.as_deref().zip(text.as_deref()),
        built_in: built_in.origin(),
    })?)
}

/// The value of a variable that is there and not empty.
fn variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    let found = env.iter().find(|(other, _)| other == name);
    found.map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// The keys of callers.
fn keys(resolved: &Resolved, env: &[(OsString, OsString)], console: Console) -> Result<Keys> {
    // What is not UTF-8 is no key, and is not shown.
    let variable = variable(env, KEYS_VARIABLE).map(|value| value.to_string_lossy());
    let loaded = Keys::load(resolved.settings.api_key_file.as_deref(), variable.as_deref())?;
    for warning in &loaded.warnings {
        console.warn(&warning.to_string());
    }
    Ok(loaded.keys)
}

/// Opens all models.
fn open(
    entries: Vec<ModelEntry>,
    settings: &Settings,
    global: &GlobalArgs,
    console: Console,
) -> Result<Vec<ServedModel>> {
    ensure!(
        global.subfolder.is_none() || entries.len() == 1,
        "--subfolder is a folder within one model, and there are {}: give the whole path with --model",
        entries.len()
    );
    // The server's own limit is the one that holds: a character has at most four bytes. Not where tokenizing
    // takes many times the memory of a text.
    let max_text_bytes = settings.max_text_chars.saturating_mul(4).min(settings.body_bytes);
    let encode_options = global.encode_options();
    let open = |entry: ModelEntry| {
        let place = match &entry.place {
            ModelPlace::BuiltIn => None,
            ModelPlace::Named(place) => Some(place.as_str()),
        };
        let model = model::open_at(place, ModelOptions::default(), global, console)
            .with_context(|| format!("model {} ({})", entry.name, entry.origin))?;
        let model = if model.has_own_tokenizer() {
            model.with_max_text_bytes(max_text_bytes)
        } else {
            model
        };
        let max_tokens = match encode_options.max_length {
            MaxLength::Model => model.description().max_length,
            MaxLength::Tokens(limit) => Some(limit),
            MaxLength::Unlimited | MaxLength::Tokenizer => None,
        };
        let place = if model.device_name().is_some() { Place::Device } else { Place::Processor };
        Ok(ServedModel {
            name: entry.name,
            aliases: entry.aliases,
            model: Arc::new(model),
            options: encode_options.clone(),
            max_tokens,
            place,
        })
    };
    entries.into_iter().map(open).collect()
}
