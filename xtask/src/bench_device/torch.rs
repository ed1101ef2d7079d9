//! PyTorch on the same shapes, in a Python of the caller's.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::kernels::{BAGS, TABLES, TOKENS};

const SCRIPT: &str = include_str!("torch.py");

/// What PyTorch was measured to need.
pub(super) struct Torch(Value);

/// One table in one type.
pub(super) struct Entry {
    /// Milliseconds of `embedding_bag`.
    pub(super) bag: f64,
    /// Milliseconds of a padded gather with a mean.
    pub(super) gather: f64,
}

/// Runs the script.
pub(super) fn measure(python: &Path, times: usize) -> Result<Torch> {
    let tables: Vec<[usize; 2]> = TABLES.iter().map(|&(rows, dim)| [rows, dim]).collect();
    let task = json!({ "tables": tables, "bags": BAGS, "tokens": TOKENS, "times": times });
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", python.display()))?;
    let mut stdin = child.stdin.take().context("the script takes its task from a pipe")?;
    stdin.write_all(task.to_string().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the script for PyTorch failed: {}", output.status);
    Ok(Torch(serde_json::from_slice(&output.stdout).context("the script for PyTorch writes JSON")?))
}

impl Torch {
    /// Name, version and copy bandwidth.
    pub(super) fn describe(&self) -> String {
        let text = |field: &str| self.0[field].as_str().unwrap_or("?").to_owned();
        let copies = self.0["copy_bytes_per_second"].as_f64().unwrap_or(f64::NAN);
        format!(
            "PyTorch {} for CUDA {}, which copies {:.0} GB/s (read and written)",
            text("torch"),
            text("cuda"),
            copies / 1e9
        )
    }

    /// The figures for a table in a type.
    pub(super) fn entry(&self, rows: usize, dim: usize, kind: &str) -> Option<Entry> {
        let entry = self.0["results"].as_array()?.iter().find(|entry| {
            entry["rows"] == json!(rows) && entry["dim"] == json!(dim) && entry["type"] == kind
        })?;
        Some(Entry { bag: entry["bag_ms"].as_f64()?, gather: entry["gather_ms"].as_f64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_shape_and_type() {
        let results =
            json!([{ "rows": 2, "dim": 3, "type": "f16", "bag_ms": 0.5, "gather_ms": 1.5 }]);
        let torch = Torch(json!({ "results": results }));
        let entry = torch.entry(2, 3, "f16").expect("it is there");
        assert_eq!((entry.bag, entry.gather), (0.5, 1.5));
        assert!(torch.entry(2, 3, "f32").is_none());
        assert!(torch.entry(3, 3, "f16").is_none());
    }
}
