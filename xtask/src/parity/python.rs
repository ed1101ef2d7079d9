//! Goldens made by Python model2vec on the spot, in a virtual environment under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::ci::{target_folder, workspace_folder};

/// The reference implementation, pinned.
const REQUIREMENTS: [&str; 3] = ["model2vec==0.10.0", "tokenizers==0.22.2", "numpy==2.4.6"];

/// Embeds `texts` with Python and returns the folder of goldens; `None` is the embedded model.
pub(super) fn make_goldens(model: Option<&Path>, texts: &[String]) -> Result<PathBuf> {
    let python = environment()?;
    let work = target_folder().join("parity");
    let out = work.join("goldens");
    fs::create_dir_all(&out)?;
    let model = match model {
        Some(folder) => folder.to_owned(),
        None => write_default_model(&work.join("default-model"))?,
    };

    let lines: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| json!({ "id": number.to_string(), "text": text }).to_string() + "\n")
        .collect();
    let texts_file = work.join("texts.jsonl");
    fs::write(&texts_file, lines.concat())?;
    fs::copy(&texts_file, work.join("texts_limits.jsonl"))?;

    let script = workspace_folder().join("xtask/src/parity/reference.py");
    run(Command::new(python).arg(script).arg(model).arg(&texts_file).arg(&out))?;
    Ok(out)
}

/// The interpreter of a virtual environment with the requirements installed.
fn environment() -> Result<PathBuf> {
    let folder = target_folder().join("parity-python");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    // Written last: an environment without it is incomplete and made anew.
    let complete = folder.join("requirements.txt");
    let wanted = REQUIREMENTS.join("\n");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("installing {} into {}", REQUIREMENTS.join(", "), folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(REQUIREMENTS))?;
    fs::write(complete, wanted)?;
    Ok(python)
}

fn write_default_model(folder: &Path) -> Result<PathBuf> {
    use embed_default_model as model;
    fs::create_dir_all(folder)?;
    for (name, bytes) in [
        ("config.json", model::CONFIG),
        ("modules.json", model::MODULES),
        ("tokenizer.json", model::TOKENIZER),
        ("model.safetensors", model::WEIGHTS),
    ] {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(folder.to_owned())
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
