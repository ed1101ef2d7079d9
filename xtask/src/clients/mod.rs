//! `cargo xtask clients`: real clients against a real server, over loopback.
//!
//! Servers are processes of the program as it is built, clients are the packages that people install. What a
//! client gets is compared in every bit with what curl gets, and that with `embed text`. Nothing here is
//! part of `cargo test`: packages come from PyPI and npm the first time.

pub(crate) mod environment;
mod report;
pub(crate) mod served;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::ci::{target_folder, workspace_folder};
use report::{Column, Report};
use served::Served;

/// Which program, and which clients.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program; `cargo build --release -p embed-cli` makes the default one
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// The Python that makes the virtual environment
    #[arg(long, default_value = "python3", value_name = "PYTHON")]
    python: PathBuf,
    /// Only this script, by its name without the ending; the document is not written then
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// The scripts, in the order of the table's columns.
const SCRIPTS: [&str; 7] = [
    "curl.py",
    "openai_python.py",
    "openai_node.mjs",
    "langchain.py",
    "litellm_python.py",
    "llamaindex.py",
    "ollama_python.py",
];

/// The name that clients of OpenAI know a model by, here an alias.
pub(crate) const ALIAS: &str = "text-embedding-3-small";

/// The key of the server that asks for one: a key of nothing else.
pub(crate) const KEY: &str = "sk-of-the-test-alone";

/// Bytes of bodies that the small server has room for.
const SMALL_BYTES: usize = 1 << 16;

pub(crate) fn run(args: &Args) -> Result<bool> {
    let scripts: Vec<&str> = SCRIPTS.into_iter().filter(|script| args.asks_for(script)).collect();
    ensure!(!scripts.is_empty(), "no such client; there are {}", SCRIPTS.map(stem).join(", "));
    let bin = program(args.bin.as_deref())?;
    let python = environment::python(&args.python)?;
    let node = environment::node()?;
    let vocabulary = environment::vocabulary()?;

    let name = embed_default_model::NAME;
    let alias = format!("--alias={ALIAS}={name}");
    let keys = [("EMBED_API_KEYS", KEY)];
    let small = format!("{}KiB", SMALL_BYTES >> 10);
    let open = Served::start(&bin, &[&alias], &[])?;
    let keyed = Served::start(&bin, &[&alias], &keys)?;
    let rejecting = Served::start(&bin, &[&alias, "--token-ids", "reject"], &[])?;
    let small = Served::start(
        &bin,
        &[
            &alias,
            "--body-bytes",
            &small,
            "--body-bytes-in-flight",
            &small,
            "--body-timeout",
            "600s",
        ],
        &[],
    )?;
    let config = json!({
        "open": open.url,
        "keyed": keyed.url,
        "rejecting": rejecting.url,
        "small": small.url,
        "small_bytes": SMALL_BYTES,
        "key": KEY,
        "alias": ALIAS,
        "name": name,
        "dim": dim()?,
        "bin": bin,
    });

    let mut columns = Vec::new();
    for script in scripts {
        println!("== {script}");
        let mut command = if script.ends_with(".mjs") {
            let mut command = Command::new("node");
            // Modules are looked for from where a script lies.
            let copy = node.join(script);
            std::fs::copy(scripts_folder().join(script), &copy)?;
            command.arg(copy);
            command
        } else {
            let mut command = Command::new(&python);
            command.arg(scripts_folder().join(script));
            command
        };
        command
            .env("EMBED_CLIENTS", config.to_string())
            .env("TIKTOKEN_CACHE_DIR", &vocabulary)
            .env("NO_PROXY", "*")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        for variable in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST", "OLLAMA_API_KEY"] {
            command.env_remove(variable);
        }
        columns.extend(cells(script, &mut command)?);
    }
    let report = Report { program: version(&bin)?, columns };
    report.print();
    if args.only.is_empty() {
        report.write(&workspace_folder().join("docs/clients.md"))?;
    }
    Ok(report.all_hold())
}

impl Args {
    fn asks_for(&self, script: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == stem(script))
    }
}

fn stem(script: &str) -> &str {
    script.split('.').next().unwrap_or(script)
}

/// Where the scripts and the pinned versions are.
pub(crate) fn scripts_folder() -> PathBuf {
    workspace_folder().join("xtask/clients")
}

/// The program that is asked for, or the one that was built.
pub(crate) fn program(asked: Option<&Path>) -> Result<PathBuf> {
    let default = || target_folder().join("release/embed");
    let path = asked.map_or_else(default, Path::to_owned);
    let path = path.canonicalize().with_context(|| {
        format!("{}: build it with `cargo build --release -p embed-cli`", path.display())
    })?;
    Ok(path)
}

/// What the program says of itself.
fn version(bin: &Path) -> Result<String> {
    Ok(output(Command::new(bin).arg("--version"))?.trim().to_owned())
}

/// The dimensions of that model.
fn dim() -> Result<u64> {
    let config: Value = serde_json::from_slice(embed_default_model::CONFIG)?;
    config["hidden_dim"].as_u64().context("a model that does not say its dimensions")
}

pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a script and reads its lines.
fn cells(script: &str, command: &mut Command) -> Result<Vec<Column>> {
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    let mut columns: Vec<Column> = Vec::new();
    for line in String::from_utf8(done.stdout)?.lines() {
        // Packages print, too.
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let Some(name) = line["client"].as_str() else { continue };
        if let Some(versions) = line["versions"].as_object() {
            columns.push(Column::new(name, versions));
            continue;
        }
        let column = columns.iter_mut().find(|column| column.name == name);
        column.context("a cell of no column")?.add(&line)?;
    }
    if !done.status.success() || columns.is_empty() {
        bail!("{script}: {}", done.status);
    }
    Ok(columns)
}
