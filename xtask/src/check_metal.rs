//! `cargo xtask check-metal`: type-checks the Metal code, with or without a Mac.
//!
//! Where the Rust target of Macs is installed, the crate is linted for that target: nothing is linked,
//! so that no other tool of a Mac is needed.
//!
//! Where it is not, the crate is checked for this machine, in a package of its own under the target
//! folder. The Objective-C crates are for Apple's systems, and two things make them pass elsewhere: the
//! feature `gnustep-2-1` chooses another runtime, and copies of the framework crates lack the lines that
//! would link frameworks, which the compiler refuses. The copies come out of cargo's registry, in the
//! versions of `Cargo.lock`. Nothing of that leaves the target folder. Only types are checked here: the
//! lints need the target.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::ci::{target_folder, workspace_folder};

const TARGET: &str = "aarch64-apple-darwin";

const CRATE: &str = "embed-model2vec";

/// Crates that link frameworks.
const FRAMEWORKS: &[&str] = &["objc2-core-foundation", "objc2-foundation", "objc2-metal"];

pub(crate) fn run() -> Result<bool> {
    if target_is_installed()? {
        println!("check-metal: linting for {TARGET}");
        let arguments = ["clippy", "--locked", "--package", CRATE, "--features", "metal"];
        let status = cargo()
            .args(arguments)
            .args(["--target", TARGET, "--", "-D", "warnings"])
            .status()
            .context("starting cargo")?;
        return Ok(status.success());
    }
    println!("check-metal: {TARGET} is not installed, checking for this machine");
    let folder = target_folder().join("check-metal");
    fs::create_dir_all(folder.join("src"))?;
    let folder = folder.canonicalize()?;
    write_package(&folder)?;
    let output = cargo()
        .args(["check", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.join("build"))
        .output()
        .context("starting cargo")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    eprint!("{messages}");
    // Cargo repeats warnings of what it does not compile again.
    let warned = messages.contains(&format!("`{CRATE}` (lib) generated"));
    if warned {
        println!("check-metal: warnings are errors here");
    }
    Ok(output.status.success() && !warned)
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace_folder());
    cargo
}

/// Whether the standard library of Macs is there.
fn target_is_installed() -> Result<bool> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(workspace_folder())
        .output()
        .context("starting rustc")?;
    let folder = String::from_utf8(output.stdout)?;
    Ok(output.status.success() && Path::new(folder.trim()).is_dir())
}

/// Writes a package that depends on the crate with Metal, and on what makes it pass.
fn write_package(folder: &Path) -> Result<()> {
    let mut patches = String::new();
    for (name, source) in framework_crates()? {
        let copy = folder.join(source.file_name().context("a package lies in a folder")?);
        if !copy.is_dir() {
            // Complete or not there.
            let unfinished = folder.join("unfinished");
            let _ = fs::remove_dir_all(&unfinished);
            copy_without_frameworks(&source, &unfinished)
                .with_context(|| format!("copying {}", source.display()))?;
            fs::rename(&unfinished, &copy)?;
        }
        let copy = copy.display().to_string();
        let _ = writeln!(patches, "{name} = {{ path = {copy:?} }}");
    }
    let ours = workspace_folder().join("crates").join(CRATE).canonicalize()?;
    let manifest = format!(
        "[package]\nname = \"check-metal\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n\
         [dependencies]\n\
         {CRATE} = {{ path = {:?}, features = [\"metal\"] }}\n\
         block2 = {{ version = \"0.6\", features = [\"gnustep-2-1\"] }}\n\
         objc2 = {{ version = \"0.6\", features = [\"gnustep-2-1\"] }}\n\n\
         [patch.crates-io]\n{patches}",
        ours.display().to_string()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), "")?;
    // The versions that the project builds with; cargo removes what this package does not need.
    fs::copy(workspace_folder().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

/// Names and folders of the crates that link frameworks, as cargo has them.
fn framework_crates() -> Result<Vec<(&'static str, PathBuf)>> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--features", "metal"])
        .arg("--manifest-path")
        .arg(workspace_folder().join("crates").join(CRATE).join("Cargo.toml"))
        .output()
        .context("starting cargo")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {messages}");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let folder = |name: &'static str| {
        let package = packages.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        let folder = folder.with_context(|| format!("{CRATE} does not depend on {name}"))?;
        Ok((name, folder.to_path_buf()))
    };
    FRAMEWORKS.iter().map(|name| folder(name)).collect()
}

/// Copies a crate and leaves out the lines that link frameworks.
fn copy_without_frameworks(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_without_frameworks(&source, &copy)?;
        } else if source.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&source)?;
            let kept = text.split_inclusive('\n').filter(|line| !links_framework(line));
            fs::write(copy, kept.collect::<String>())?;
        } else {
            fs::copy(&source, &copy)?;
        }
    }
    Ok(())
}

fn links_framework(line: &str) -> bool {
    line.trim_start().starts_with("#[link(") && line.contains("kind = \"framework\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_frameworks_are_left_out() {
        assert!(links_framework("    #[link(name = \"Metal\", kind = \"framework\")]\n"));
        assert!(!links_framework("#[link(name = \"z\")]\n"));
        assert!(!links_framework("// kind = \"framework\"\n"));
        assert!(!links_framework("extern \"C\" {}\n"));
    }
}
