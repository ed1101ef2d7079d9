//! What the numbers were measured on and with.

use std::fs;
use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result};

use crate::ci::workspace_folder;

/// The processor, its cores, and the vector instructions that matter here.
pub(crate) fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let model = field("model name").unwrap_or("an unnamed processor");
    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let known = ["avx2", "avx512f", "avx512bw", "avx512_vnni", "asimd"];
    let found: Vec<&str> =
        known.into_iter().filter(|flag| flags.split(' ').any(|found| found == *flag)).collect();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = memory.split_whitespace().nth(1).and_then(|number| number.parse::<f64>().ok());
    let memory = kibibytes.map_or_else(String::new, |kibibytes| {
        format!(", {:.0} GB of memory", kibibytes * 1024.0 / 1e9)
    });
    format!(
        "{model}, {cores} cores{memory}, {} {}, with {}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        found.join(" "),
    )
}

/// The compiler, and the contenders as they are pinned.
pub(super) fn versions() -> Result<String> {
    let rustc = compiler()?;
    let lock = fs::read_to_string(workspace_folder().join("benches/peers/Cargo.lock"))?;
    let of = |name: &str| locked(&lock, name);
    // Two versions of tokenizers are locked; the contender is the newer one, which Cargo.toml pins.
    let manifest = fs::read_to_string(workspace_folder().join("benches/peers/Cargo.toml"))?;
    let pinned = manifest.lines().find_map(|line| {
        let rest = line.strip_prefix("tokenizers = { version = \"=")?;
        Some(rest.split('"').next().unwrap_or_default().to_owned())
    });
    Ok(format!(
        "{rustc}; embed {}, {}, {}, tokenizers {}",
        env!("CARGO_PKG_VERSION"),
        of("model2vec-rs"),
        of("tokie"),
        pinned.unwrap_or_default(),
    ))
}

/// The compiler, with its version.
pub(crate) fn compiler() -> Result<String> {
    let rustc = Command::new("rustc").arg("--version").output().context("starting rustc")?;
    Ok(String::from_utf8(rustc.stdout)?.trim().to_owned())
}

/// A package and its version, as a lock file has it; the first, if there are several.
pub(crate) fn locked(lock: &str, name: &str) -> String {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.map_or_else(String::new, |version| format!("{name} {}", version.trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_contenders_are_found() -> Result<()> {
        let versions = versions()?;
        for part in ["rustc 1.", "model2vec-rs 0.4.0", "tokie 0.1.4", "tokenizers 0.23.2"] {
            assert!(versions.contains(part), "{part:?} is missing in {versions}");
        }
        Ok(())
    }
}
