//! `embed files`: inputs, outputs, exit codes, and ends that come too early.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::command::{Run, check, embed, run, run_with_input};

/// A folder with a few files.
fn tree() -> io::Result<TempDir> {
    let tree = tempfile::tempdir()?;
    let file = |name: &str, contents: &[u8]| fs::write(tree.path().join(name), contents);
    fs::create_dir(tree.path().join("docs"))?;
    file("docs/a.md", b"# Title\n\nSome text about cats.\n")?;
    file("docs/b.txt", b"first line\n\nthird line\n")?;
    file("docs/ignored.log", b"noise")?;
    file("docs/.gitignore", b"*.log\n")?;
    Ok(tree)
}

/// The last line of standard error without the time.
fn summary(run: &Run) -> String {
    let last = run.stderr.lines().last().unwrap_or_default();
    let (before, after) = last.split_once(" in ").unwrap_or((last, ""));
    before.to_owned() + after.split_once(", ").map_or("", |(_, rest)| rest)
}

fn paths(run: &Run) -> Vec<String> {
    run.rows().iter().map(|row| row["path"].as_str().expect("a path").to_owned()).collect()
}

/// Nothing but these names is in the folder.
#[track_caller]
fn check_names(folder: &Path, expected: &[&str]) {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().display().to_string())
        .collect();
    names.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_folder_gives_its_chunks_in_order() -> io::Result<()> {
    let tree = tree()?;
    let run = run(tree.path(), &["files", "docs"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(paths(&run), ["docs/a.md", "docs/b.txt"]);
    assert_eq!(summary(&run), "2 vectors of 2 files (54 bytes, 11 tokens)");
    let row = &run.rows()[0];
    assert_eq!(row["bytes"], serde_json::json!([0, 31]));
    assert_eq!(row["lines"], serde_json::json!([1, 3]));
    Ok(())
}

#[test]
fn lines_keep_their_place_also_when_blank() -> io::Result<()> {
    let tree = tree()?;
    let run = run(tree.path(), &["files", "docs/b.txt", "--chunk", "line", "-q"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let zeros: Vec<bool> = run.rows().iter().map(|row| row["zero"] == true).collect();
    assert_eq!(zeros, [false, true, false]);
    Ok(())
}

#[test]
fn the_number_of_threads_cannot_be_seen() -> io::Result<()> {
    let tree = tree()?;
    // Several times the text for which a second thread is woken up.
    let line =
        |number: usize| format!("{} naïve words of line {number}\n", "some ".repeat(number % 90));
    let text: String = (0..2000).map(line).collect();
    assert!(text.len() > 400_000);
    fs::write(tree.path().join("docs/long.txt"), text)?;
    let run = |arguments: &[&str]| {
        let fixed = ["files", "docs", "--chunk", "line", "-q"];
        let run = run(tree.path(), &[&fixed[..], arguments].concat());
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        run.stdout
    };
    let one = run(&["--threads", "1"]);
    assert_eq!(one.lines().count(), 2006);
    for arguments in [&["--threads", "2"][..], &["--threads", "7"], &[]] {
        assert!(run(arguments) == one, "{arguments:?}");
    }
    Ok(())
}

#[test]
fn standard_input_is_a_file_called_dash() -> io::Result<()> {
    let tree = tree()?;
    let run =
        run_with_input(tree.path(), &["files", "-", "docs/a.md", "-q"], "some words".as_bytes());
    assert_eq!(paths(&run), ["-", "docs/a.md"]);
    Ok(())
}

#[test]
fn what_is_left_out_is_named_and_the_code_is_3() -> io::Result<()> {
    let tree = tree()?;
    fs::write(tree.path().join("docs/c.bin"), b"\x00\x01")?;
    let run = run(tree.path(), &["files", "docs", "missing", "--report", "report.jsonl"]);
    assert_eq!(run.code, Some(3));
    assert_eq!(run.rows().len(), 2);
    assert!(
        run.stderr.contains("warning: skipped missing: cannot read: No such file or directory"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("warning: skipped docs/c.bin: binary file\n"), "{}", run.stderr);
    assert!(summary(&run).ends_with("2 inputs skipped"), "{}", run.stderr);
    let report = fs::read_to_string(tree.path().join("report.jsonl"))?;
    assert!(report.contains("{\"path\":\"docs/c.bin\",\"reason\":\"binary file\"}\n"), "{report}");
    Ok(())
}

#[test]
fn inputs_that_cannot_be_read_leave_the_old_output() -> io::Result<()> {
    let tree = tree()?;
    fs::write(tree.path().join("out.jsonl"), "old")?;
    let run = run(tree.path(), &["files", "typing-error", "-o", "out.jsonl"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.ends_with("error: none of the inputs could be read\n"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(tree.path().join("out.jsonl"))?, "old");
    check_names(tree.path(), &["docs", "out.jsonl"]);
    Ok(())
}

#[test]
fn an_output_that_is_named_as_an_input_is_refused_untouched() -> io::Result<()> {
    let tree = tree()?;
    for arguments in [
        &["files", "docs/a.md", "-o", "docs/a.md", "--format", "jsonl"][..],
        &["files", "docs/a.md", "--report", "docs/../docs/a.md"],
    ] {
        let message = "error: docs/a.md is both an input and an output\n";
        check(&run(tree.path(), arguments), 2, "", message);
        assert!(fs::read_to_string(tree.path().join("docs/a.md"))?.starts_with("# Title"));
    }
    Ok(())
}

#[test]
fn two_outputs_in_one_place_are_refused() -> io::Result<()> {
    let tree = tree()?;
    for arguments in [
        &["files", "docs", "-o", "x.jsonl", "--report", "./x.jsonl"][..],
        &["files", "docs", "-o", "x.npy", "--report", "x.ids.jsonl"],
    ] {
        let run = run(tree.path(), arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        assert!(
            run.stderr.starts_with("error: two outputs would be written to "),
            "{}",
            run.stderr
        );
    }
    check_names(tree.path(), &["docs"]);
    Ok(())
}

#[test]
fn a_dash_as_output_is_standard_output() -> io::Result<()> {
    let tree = tree()?;
    let run = run(tree.path(), &["files", "docs", "-o", "-", "-q"]);
    assert_eq!((run.code, run.rows().len()), (Some(0), 2));
    check_names(tree.path(), &["docs"]);
    Ok(())
}

#[test]
fn nothing_to_do_is_1() -> io::Result<()> {
    let tree = tempfile::tempdir()?;
    let run = run(tree.path(), &["files", "."]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    Ok(())
}

#[test]
fn invalid_bytes_are_replaced_and_reported() -> io::Result<()> {
    let tree = tempfile::tempdir()?;
    let run = run_with_input(tree.path(), &["files", "-"], b"some words \xFF here");
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.starts_with("warning: -: 1 sequence was not valid in its encoding and replaced, the first at byte 11\n"), "{}", run.stderr);
    Ok(())
}

#[test]
fn an_output_is_replaced_as_a_whole_and_never_read() -> io::Result<()> {
    let tree = tree()?;
    for _ in 0..2 {
        let run = run(tree.path(), &["files", "docs", "-o", "docs/out.jsonl", "-q"]);
        check(&run, 0, "", "");
        assert_eq!(fs::read_to_string(tree.path().join("docs/out.jsonl"))?.lines().count(), 2);
    }
    check_names(
        &tree.path().join("docs"),
        &[".gitignore", "a.md", "b.txt", "ignored.log", "out.jsonl"],
    );
    Ok(())
}

#[test]
fn npy_is_chosen_by_the_extension_and_needs_a_file() -> io::Result<()> {
    let tree = tree()?;
    check(&run(tree.path(), &["files", "docs", "-o", "v.npy", "-q"]), 0, "", "");
    check_names(tree.path(), &["docs", "v.ids.jsonl", "v.npy"]);
    assert_eq!(fs::metadata(tree.path().join("v.npy"))?.len(), 128 + 2 * 256 * 4);
    let message = "error: npy needs a file to write to: give one with --output FILE.npy\n";
    check(&run(tree.path(), &["files", "docs", "--format", "npy"]), 2, "", message);
    let message =
        "error: the extension .parquet names no format: expected .jsonl or .npy, or say --format\n";
    check(&run(tree.path(), &["files", "docs", "-o", "v.parquet"]), 2, "", message);
    Ok(())
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() -> io::Result<()> {
    let tree = tree()?;
    let missing = run(tree.path(), &["files", "docs", "-o", "no/folder/x.jsonl"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(2), ""));
    assert!(
        missing.stderr.starts_with("error: cannot write no/folder/x.jsonl: "),
        "{}",
        missing.stderr
    );
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// A file that takes the program some time.
    fn many_lines(folder: &Path) -> io::Result<()> {
        fs::write(folder.join("many.txt"), "a line of words, like many others\n".repeat(300_000))
    }

    #[test]
    fn a_full_disk_is_an_error() -> io::Result<()> {
        let tree = tree()?;
        if !Path::new("/dev/full").exists() {
            return Ok(());
        }
        let run = run(tree.path(), &["files", "docs", "-o", "/dev/full"]);
        let message = "error: cannot write /dev/full: No space left on device (os error 28)\n";
        check(&run, 2, "", message);
        Ok(())
    }

    #[test]
    fn standard_output_in_the_walked_folder_is_not_read() -> io::Result<()> {
        let tree = tree()?;
        fs::write(tree.path().join("docs/z.txt"), "rows of an earlier run")?;
        let out = fs::OpenOptions::new().append(true).open(tree.path().join("docs/z.txt"))?;
        let status = embed(tree.path()).args(["files", "docs", "-q"]).stdout(out).status()?;
        assert_eq!(status.code(), Some(0));
        let text = fs::read_to_string(tree.path().join("docs/z.txt"))?;
        assert_eq!(text.matches("\"path\"").count(), 2);
        assert!(!text.contains("\"docs/z.txt\""));
        Ok(())
    }

    #[test]
    fn a_standard_output_that_cannot_be_written_is_an_error() -> io::Result<()> {
        let tree = tree()?;
        let read_only = fs::File::open("/dev/null")?;
        let output = embed(tree.path()).args(["text", "x"]).stdout(read_only).output()?;
        assert_eq!(output.status.code(), Some(2));
        let message = "error: cannot write standard output: Bad file descriptor (os error 9)\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
        Ok(())
    }

    #[test]
    fn a_reader_that_goes_away_ends_it_quietly() -> io::Result<()> {
        let tree = tree()?;
        many_lines(tree.path())?;
        let mut child = embed(tree.path())
            .args(["files", "many.txt", "--chunk", "line", "-q"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line)?;
        assert!(line.starts_with("{\"path\":\"many.txt\",\"chunk\":0,"));
        let output = child.wait_with_output()?;
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]));
        Ok(())
    }

    #[test]
    fn an_interrupt_leaves_the_old_output_and_nothing_else() -> io::Result<()> {
        let tree = tree()?;
        fs::write(tree.path().join("out.jsonl"), "old")?;
        // It waits for standard input, with its temporary file open.
        let mut child = embed(tree.path())
            .args(["files", "-", "-o", "out.jsonl", "-v"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let temporary = || -> io::Result<bool> {
            let names = fs::read_dir(tree.path())?;
            Ok(names
                .flatten()
                .any(|entry| entry.file_name().display().to_string().starts_with(".embed-tmp-")))
        };
        while !temporary()? {
            assert!(child.try_wait()?.is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
        assert!(status.success());
        let status = child.wait()?;
        assert_eq!((status.code(), status.signal()), (Some(130), None));
        assert_eq!(fs::read_to_string(tree.path().join("out.jsonl"))?, "old");
        check_names(tree.path(), &["docs", "out.jsonl"]);
        Ok(())
    }

    #[test]
    fn a_named_pipe_is_written_through() -> io::Result<()> {
        let tree = tree()?;
        let pipe = tree.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
        let mut child = embed(tree.path()).args(["files", "docs", "-o", "pipe", "-q"]).spawn()?;
        let text = fs::read_to_string(&pipe)?;
        assert_eq!(child.wait()?.code(), Some(0));
        assert_eq!(text.lines().count(), 2);
        let refused = run(tree.path(), &["files", "docs", "-o", "pipe", "--format", "npy"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        Ok(())
    }
}
