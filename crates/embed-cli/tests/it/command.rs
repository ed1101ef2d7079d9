//! Runs the program in a clean environment.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The result of a run, with text in place of bytes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Lines of standard output as JSON.
    #[track_caller]
    pub(crate) fn rows(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// The program with nothing of our environment but a home of its own.
pub(crate) fn embed(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embed"));
    command.env_clear().env("HOME", folder).env("HF_HUB_OFFLINE", "1").current_dir(folder);
    command
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Run {
    text(embed(folder).args(arguments).output().expect("the program starts"))
}

pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = embed(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It may end without reading everything.
    let _ = child.stdin.take().expect("piped").write_all(input);
    text(child.wait_with_output().expect("the program ends"))
}

fn text(output: Output) -> Run {
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Exit code, standard output and standard error are exactly these.
#[track_caller]
pub(crate) fn check(run: &Run, code: i32, stdout: &str, stderr: &str) {
    let found = (run.code, run.stdout.as_str(), run.stderr.as_str());
    assert_eq!(found, (Some(code), stdout, stderr));
}
