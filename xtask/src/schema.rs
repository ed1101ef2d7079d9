//! `cargo xtask schema`: what `/openapi.json` says, put to the test by schemathesis.
//!
//! It makes requests out of the description, right and wrong ones, sends them to a real server, and compares
//! the answers with the description. `xtask/clients/schemathesis.toml` says how many, and which checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::ci::target_folder;
use crate::clients::served::Served;
use crate::clients::{ALIAS, KEY, environment, output, program, scripts_folder};

/// Which program.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program; `cargo build --release -p embed-cli` makes the default one
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// The Python that makes the virtual environment
    #[arg(long, default_value = "python3", value_name = "PYTHON")]
    python: PathBuf,
    /// Another seed than the one that is written down
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Another number of requests for each route
    #[arg(long, value_name = "N")]
    examples: Option<u64>,
}

/// Limits that requests can reach without being large: the description says of each server what its own are.
const LIMITS: &[&str] = &["--max-inputs=32", "--max-text-chars=2000"];

/// Every check of the pinned version but `max_response_time`, which measures. What each of them asks:
///
/// - `not_a_server_error`: no 5xx but the 504 of a deadline that the request set itself.
/// - `status_code_conformance`, `content_type_conformance`, `response_headers_conformance`,
///   `response_schema_conformance`: status, media type, headers and body are those of the description.
/// - `negative_data_rejection`, `positive_data_acceptance`: wrong requests are refused, right ones are not.
/// - `missing_required_header`: a header that must be there is asked for.
/// - `unsupported_method`, `allow_header_conformance`: 405 with the methods that there are.
/// - `ignored_auth`: without a key, or with a wrong one, there is no answer where a key is asked for.
/// - `use_after_free`, `ensure_resource_availability`, `object_level_authorization`: nothing here is made
///   or deleted by requests, or belongs to somebody, so that they find nothing to check.
const CHECKS: &str = "all";

pub(crate) fn run(args: &Args) -> Result<bool> {
    let bin = program(args.bin.as_deref())?;
    let python = environment::python(&args.python)?;
    let alias = format!("--alias={ALIAS}={}", embed_default_model::NAME);
    let arguments = [&[alias.as_str()], LIMITS].concat();
    let mut is_sound = true;
    for (name, variables) in
        [("without a key", &[][..]), ("with a key", &[("EMBED_API_KEYS", KEY)])]
    {
        let has_keys = !variables.is_empty();
        let mut arguments = arguments.clone();
        // With keys, every route but those of health and of the description asks for one.
        arguments.extend(has_keys.then_some("--metrics-key"));
        let mut served = Served::start(&bin, &arguments, variables)?;
        let folder = target_folder().join("clients/schema");
        fs::create_dir_all(&folder)?;
        let description = description(&served.url, has_keys)?;
        let file = folder.join("openapi.json");
        fs::write(&file, description.to_string())?;
        println!("== {name}");
        let mut schemathesis = schemathesis(&python, args, &folder);
        schemathesis.arg(&file).args(["--url", &served.url]);
        if has_keys {
            schemathesis.arg("--header").arg(format!("Authorization: Bearer {KEY}"));
        }
        let status = schemathesis.status().with_context(|| format!("starting {schemathesis:?}"))?;
        let is_alive = served.is_alive()?;
        println!("== {name}: {status}{}", if is_alive { "" } else { ", and the server is gone" });
        is_sound &= status.success() && is_alive;
    }
    Ok(is_sound)
}

fn schemathesis(python: &Path, args: &Args, folder: &Path) -> Command {
    let mut command = Command::new(python.with_file_name("schemathesis"));
    command.arg("--config-file").arg(scripts_folder().join("schemathesis.toml"));
    command.args(["run", "--no-color", "--checks", CHECKS]);
    command.args(["--phases", "examples,coverage,fuzzing,stateful", "--mode", "all"]);
    if let Some(seed) = args.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(examples) = args.examples {
        command.args(["--max-examples", &examples.to_string()]);
    }
    // What it writes, it writes here.
    command.current_dir(folder).env("NO_PROXY", "*");
    command
}

/// The description as the server gives it.
///
/// A server says that a key may be sent, not that it must be. For one that has keys it must: without this
/// change nothing would be said of what is missing.
fn description(url: &str, has_keys: bool) -> Result<Value> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"])
        .arg(format!("{url}/openapi.json"));
    let mut description: Value = serde_json::from_str(&output(&mut curl)?)?;
    let paths = description["paths"].as_object_mut().context("no paths")?;
    ensure!(!paths.is_empty(), "no paths");
    if has_keys {
        let operations = paths.values_mut().filter_map(Value::as_object_mut).flatten();
        for (_, operation) in operations {
            if operation["security"].as_array().is_some_and(|ways| ways.contains(&json!({}))) {
                operation["security"] = json!([{ "bearer": [] }]);
            }
        }
    }
    Ok(description)
}
