//! `cargo xtask tidy`, which is a test too: what compilers do not check.
//!
//! - Crates depend on each other downwards only, as `EDGES` says.
//! - Every dependency has a license that `LICENSES` allows.
//! - The PTX text of the CUDA kernels was made from their source.
//! - The documents exist, every Rust file begins with module docs and keeps to a readable length, and
//!   no text file has trailing blanks or lacks its last line end; links between documents lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::ci::workspace_folder;
use crate::ptx;

/// What each crate of the workspace may depend on, among the crates of the workspace.
const EDGES: &[(&str, &[&str])] = &[
    ("embed-core", &[]),
    ("embed-decimal", &[]),
    ("embed-default-model", &[]),
    ("embed-model2vec", &["embed-core", "embed-default-model"]),
    ("embed-files", &["embed-core", "embed-decimal"]),
    ("embed-batcher", &["embed-core"]),
    ("embed-batcher-simulation", &["embed-batcher", "embed-core"]),
    ("embed-server", &["embed-batcher", "embed-core", "embed-decimal"]),
    ("embed-cli", &["embed-core", "embed-files", "embed-model2vec", "embed-server"]),
    ("embed-tests", &["embed-batcher", "embed-core", "embed-files", "embed-model2vec"]),
    (
        "xtask",
        &["embed-batcher-simulation", "embed-core", "embed-default-model", "embed-model2vec"],
    ),
];

/// Licenses of dependencies: permissive ones.
const LICENSES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages outside that list, each with the license that it may have, and why it is there.
///
/// - `option-ext`: file-level copyleft, used unmodified; hf-hub reads the home folder through it.
const EXCEPTIONS: &[(&str, &str)] = &[("option-ext", "MPL-2.0")];

const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "SCHEMA.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

/// Lines of a Rust file beyond which it should have been split.
const LONGEST_FILE: usize = 600;

pub(crate) fn run() -> Result<bool> {
    let problems = problems()?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} problems", problems.len());
    Ok(problems.is_empty())
}

fn problems() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let mut problems = edges(&metadata)?;
    problems.extend(licenses(&metadata)?);
    let missing = DOCUMENTS.iter().filter(|name| !workspace_folder().join(name).is_file());
    problems.extend(missing.map(|name| format!("{name}: missing")));
    problems.extend(ptx::problem()?);
    for file in tracked_files()? {
        problems.extend(text_problems(&file)?);
    }
    Ok(problems)
}

/// What cargo knows about the packages that are built on this machine.
fn metadata() -> Result<Value> {
    let host = output(Command::new("rustc").arg("-vV"))?;
    let host =
        host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let text = output(Command::new(env!("CARGO")).args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        host,
    ]))?;
    Ok(serde_json::from_str(&text)?)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.current_dir(workspace_folder()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("`{field}` is not a list"))
}

fn edges(metadata: &Value) -> Result<Vec<String>> {
    let members = list(metadata, "workspace_members")?;
    let mut problems = Vec::new();
    for package in
        list(metadata, "packages")?.iter().filter(|package| members.contains(&package["id"]))
    {
        let name = package["name"].as_str().context("a package without a name")?;
        let Some((_, allowed)) = EDGES.iter().find(|(member, _)| *member == name) else {
            problems.push(format!("{name}: not in the list of crates"));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let target = dependency["name"].as_str().unwrap_or_default();
            let ours = EDGES.iter().any(|(member, _)| *member == target);
            if ours && !allowed.contains(&target) {
                problems.push(format!("{name}: must not depend on {target}"));
            }
        }
    }
    Ok(problems)
}

fn licenses(metadata: &Value) -> Result<Vec<String>> {
    let nodes = list(&metadata["resolve"], "nodes")?;
    let built = |package: &Value| nodes.iter().any(|node| node["id"] == package["id"]);
    let mut problems = Vec::new();
    for package in list(metadata, "packages")?.iter().filter(|package| built(package)) {
        let license = package["license"].as_str().unwrap_or_default();
        let expression = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX);
        let allowed = expression.is_ok_and(|expression| {
            expression.evaluate(|term| {
                let name = term.license.id().map(|id| id.name);
                name.is_some_and(|name| LICENSES.contains(&name))
            })
        });
        let name = package["name"].as_str().unwrap_or_default();
        if !allowed && !EXCEPTIONS.contains(&(name, license)) {
            problems.push(format!("{name} {}: license {license:?}", package["version"]));
        }
    }
    Ok(problems)
}

/// Files of the repository, or of the folder where there is no repository.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let listed = output(Command::new("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listed
        .lines()
        .map(|line| workspace_folder().join(line))
        .filter(|path| path.is_file())
        .collect())
}

fn text_problems(path: &Path) -> Result<Vec<String>> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if !["rs", "md", "toml", "py", "yml"].contains(&extension) {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let name = path.strip_prefix(workspace_folder()).unwrap_or(path).display();
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            problems.push(format!("{name}:{}: trailing blank", index + 1));
        }
    }
    if !text.ends_with('\n') || text.ends_with("\n\n") {
        problems.push(format!("{name}: does not end with one line end"));
    }
    if extension == "md" {
        let folder = path.parent().unwrap_or(path);
        let dead = relative_links(&text).filter(|target| !folder.join(target).exists());
        problems.extend(dead.map(|target| format!("{name}: link to {target}, which is not there")));
    }
    if extension == "rs" {
        if !text.starts_with("//!") {
            problems.push(format!("{name}: does not begin with module docs"));
        }
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            problems.push(format!("{name}: {lines} lines, split it ({LONGEST_FILE} at most)"));
        }
    }
    Ok(problems)
}

/// Targets of the links of a document that lead to files, without their anchors.
fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() -> Result<()> {
        assert_eq!(problems()?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn links_to_files_are_found() {
        let text = "[a](docs/a.md) [b](https://example.org) [c](#here) [d](../d.md#there) (e](f";
        assert_eq!(relative_links(text).collect::<Vec<_>>(), ["docs/a.md", "../d.md", "f"]);
    }

    #[test]
    fn an_edge_upwards_is_a_problem() -> Result<()> {
        let package = |name: &str, dependency: &str| serde_json::json!({ "id": name, "name": name, "dependencies": [{ "name": dependency }] });
        let metadata = serde_json::json!({
            "workspace_members": ["embed-core", "embed-cli", "surprise"],
            "packages": [
                package("embed-core", "embed-cli"),
                package("embed-cli", "embed-core"),
                package("surprise", "serde"),
            ],
        });
        let expected =
            ["embed-core: must not depend on embed-cli", "surprise: not in the list of crates"];
        assert_eq!(edges(&metadata)?, expected);
        Ok(())
    }

    #[test]
    fn a_license_outside_the_list_is_a_problem() -> Result<()> {
        let package = |name: &str, license: &str| serde_json::json!({ "id": name, "name": name, "version": "1.0.0", "license": license });
        let packages = [
            package("a", "MIT OR GPL-3.0-only"),
            package("b", "MIT AND GPL-3.0-only"),
            package("c", "Apache-2.0 WITH LLVM-exception"),
            package("d", "MIT/Apache-2.0"),
        ];
        let nodes: Vec<Value> =
            packages.iter().map(|package| serde_json::json!({ "id": package["id"] })).collect();
        let metadata = serde_json::json!({ "packages": packages, "resolve": { "nodes": nodes } });
        assert_eq!(licenses(&metadata)?, ["b \"1.0.0\": license \"MIT AND GPL-3.0-only\""]);
        Ok(())
    }
}
