//! `embed bench`: the shape of what it prints, and its refusals. Speed is not tested.

use std::fs;
use std::io;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{check, run};

/// A folder with a small corpus: a short line, a blank one, one that is not ASCII, a long one.
fn folder() -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let text = format!("two words\n\nnaïve café\n{}\n", "word ".repeat(20).trim_end());
    fs::write(folder.path().join("corpus.txt"), text)?;
    Ok(folder)
}

#[track_caller]
fn number(object: &Value, field: &str) -> f64 {
    object[field].as_f64().unwrap_or_else(|| panic!("{field} in {object}"))
}

#[test]
fn json_is_one_object_with_every_figure() -> io::Result<()> {
    let folder = folder()?;
    let arguments = ["bench", "--corpus", "corpus.txt", "--rounds", "2", "--json"];
    let run = run(folder.path(), &arguments);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let [report] = &run.rows()[..] else { panic!("one line: {}", run.stdout) };
    assert!(run.stdout.starts_with("{\"model\":\"default-en-256\",\"id\":\"bc42f1d9"));

    let corpus = serde_json::json!({
        "path": "corpus.txt",
        "lines": 4,
        "bytes": 120,
        "median_line_bytes": 9,
        "p99_line_bytes": 99,
        "tokens": 24, "truncated_lines": 0,
        "non_ascii_share": 0.25,
    });
    assert_eq!(report["corpus"], corpus);
    assert_eq!((&report["device"], &report["dimensions"]), (&"cpu".into(), &256.into()));
    assert_eq!((&report["rounds"], &report["batch_texts"]), (&2.into(), &1024.into()));
    assert_eq!(report["threads"], 1);
    assert!(report["tokenizer"].as_str().is_some_and(|name| name.starts_with("WordPiece")));
    assert!(number(report, "cores") >= 1.0);
    for task in ["tokenize", "embed"] {
        let rate = |field: &str| number(&report[task], field);
        assert!(rate("first_pass_seconds") > 0.0 && rate("first_pass_mb_per_second") > 0.0);
        assert!(rate("best_mb_per_second") >= rate("median_mb_per_second"));
        assert!(rate("best_texts_per_second") >= rate("median_texts_per_second"));
        assert!(rate("median_mb_per_second") > 0.0 && rate("median_texts_per_second") > 0.0);
    }
    assert_eq!(report["query"]["queries"], 1000);
    let query = |field: &str| number(&report["query"], field);
    assert!(query("p99_nanoseconds") >= query("p50_nanoseconds"));
    let load = |field: &str| number(&report["load"], field);
    assert!(load("median_seconds") >= load("best_seconds") && load("best_seconds") > 0.0);
    let resident = &report["resident_bytes_after_load"];
    assert_eq!(resident.is_null(), !cfg!(target_os = "linux"), "{resident}");
    Ok(())
}

#[test]
fn people_get_a_table() -> io::Result<()> {
    let folder = folder()?;
    let run = run(folder.path(), &["bench", "--corpus", "corpus.txt", "--rounds", "1"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let mut lines = run.stdout.lines();
    for start in [
        "model: default-en-256, 256 dimensions",
        "tokenizer: WordPiece",
        "device: cpu, one thread; ",
        "corpus: corpus.txt, 4 lines, 120 bytes, 24 tokens; 25.0 % of lines are not ASCII",
        "a line: 9 bytes in the median, 99 in the 99th percentile",
        "",
        "             best MB/s   median MB/s",
        "tokenize  ",
        "embed     ",
        "",
        "one query: ",
        "load: ",
        "resident after load: ",
        "",
        "1 pass after the first, 1024 texts a call, MB = 10^6 bytes",
    ] {
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with(start) && line.is_empty() == start.is_empty(), "{line:?}");
    }
    assert_eq!(lines.next(), None);
    Ok(())
}

#[test]
fn the_number_of_threads_is_told() -> io::Result<()> {
    let folder = folder()?;
    let arguments = ["bench", "--corpus", "corpus.txt", "--rounds", "1", "--threads", "2"];
    let table = run(folder.path(), &arguments).stdout;
    assert!(table.lines().any(|line| line.starts_with("device: cpu, 2 threads; ")), "{table}");
    let json = run(folder.path(), &[&arguments[..], &["--json"]].concat());
    assert_eq!(json.rows()[0]["threads"], 2);
    Ok(())
}

#[test]
fn options_of_encoding_hold() -> io::Result<()> {
    let folder = folder()?;
    let arguments =
        ["bench", "--corpus", "corpus.txt", "--rounds", "1", "--json", "--max-length", "1"];
    assert_eq!(run(folder.path(), &arguments).rows()[0]["corpus"]["tokens"], 3);
    Ok(())
}

#[test]
fn without_a_corpus_it_says_what_to_give() -> io::Result<()> {
    let folder = folder()?;
    let message =
        "error: nothing to measure with: give a file of texts, one a line, with --corpus FILE\n";
    check(&run(folder.path(), &["bench"]), 2, "", message);
    Ok(())
}

#[test]
fn a_file_that_is_no_corpus_is_refused_with_the_reason() -> io::Result<()> {
    let folder = folder()?;
    fs::write(folder.path().join("empty"), "")?;
    fs::write(folder.path().join("blank"), " \n\r\n\t\n")?;
    fs::write(folder.path().join("latin1"), b"fine\ncaf\xe9\n")?;
    fs::File::create(folder.path().join("large"))?.set_len((1 << 30) + 1)?;
    for (file, reason) in [
        ("missing", "cannot be read as a corpus: No such file or directory (os error 2)"),
        (".", "cannot be read as a corpus: Is a directory (os error 21)"),
        ("empty", "there is no text in it"),
        ("blank", "there is no text in it"),
        ("latin1", "not UTF-8 at byte 8, in line 2"),
        ("large", "larger than 1 GiB, the most that is held in memory: give a part of it"),
    ] {
        let run = run(folder.path(), &["bench", "--corpus", file]);
        check(&run, 2, "", &format!("error: {file}: {reason}\n"));
    }
    Ok(())
}

#[test]
fn no_rounds_is_wrong_usage() -> io::Result<()> {
    let folder = folder()?;
    let run = run(folder.path(), &["bench", "--corpus", "corpus.txt", "--rounds", "0"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    Ok(())
}

#[test]
fn a_line_that_is_refused_is_named() -> io::Result<()> {
    let folder = folder()?;
    fs::write(folder.path().join("long"), format!("short\n{}\n", "a ".repeat(600_000)))?;
    let run = run(folder.path(), &["bench", "--corpus", "long", "--max-length", "none"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.starts_with("error: line 2: "), "{}", run.stderr);
    Ok(())
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_130() -> io::Result<()> {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use crate::command::embed;

    let folder = folder()?;
    // A pipe that nobody writes to: the command waits for it with its handler in place.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
    let mut child = embed(folder.path())
        .args(["bench", "--corpus", "pipe"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Opening waits until the command has opened its end.
    let writer = fs::OpenOptions::new().write(true).open(&pipe)?;
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status()?.success());
    let status = child.wait()?;
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    drop(writer);
    Ok(())
}
