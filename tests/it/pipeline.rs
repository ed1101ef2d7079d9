//! Files to rows with the default model.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use embed_core::{Embedder, EncodeOptions, MaxLength};
use embed_files::output::{Destination, JsonlWriter, NpyWriter, RowWriter, Temporaries};
use embed_files::pipeline::{self, Job, Summary};
use embed_files::{Error, SkipReason};
use embed_model2vec::StaticModel;
use serde_json::Value;

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn job(chunking: &str, max_text_bytes: usize, model: &StaticModel, options: EncodeOptions) -> Job {
    Job {
        chunking: chunking.parse().expect("a chunking"),
        max_text_bytes: NonZeroUsize::new(max_text_bytes).expect("not zero"),
        max_chars: model.max_chars(&options),
        options,
    }
}

/// Embeds `sources` and returns the rows and the summary.
fn run(
    sources: &[PathBuf],
    job: &Job,
    model: &dyn Embedder,
) -> Result<(Vec<Value>, Summary), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.jsonl");
    let destination = Destination::create(&path, &Temporaries::default())?;
    let mut writer = Box::new(JsonlWriter::new(destination, model.model_id()));
    let summary = pipeline::run(sources, job, model, &mut *writer, &mut |_| {})?;
    writer.finish()?;
    let text = fs::read_to_string(path).expect("the output");
    let rows = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    Ok((rows, summary))
}

fn file(folder: &Path, name: &str, contents: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, contents).expect("a file");
    path
}

#[test]
fn ten_thousand_lines_give_ten_thousand_rows_in_order() -> TestResult {
    let model = StaticModel::default_embedded();
    let folder = tempfile::tempdir()?;
    let lines: Vec<String> = (0..10_000)
        .map(|i| if i % 10 == 3 { String::new() } else { format!("line number {i} of many") })
        .collect();
    let source = file(folder.path(), "lines.txt", (lines.join("\n") + "\n").as_bytes());
    let job = job("line", 1 << 20, &model, EncodeOptions::default());
    let (rows, summary) = run(&[source], &job, &model)?;
    assert_eq!((rows.len(), summary.rows, summary.zero_rows), (10_000, 10_000, 1_000));
    let bytes: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
    assert_eq!(summary.bytes, bytes);
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected = model.embed(&texts)?;
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["chunk"], number);
        assert_eq!(row["lines"], serde_json::json!([number + 1, number + 1]));
        assert_eq!(row["zero"], lines[number].is_empty());
        let vector: Vec<f32> = serde_json::from_value(row["vector"].clone())?;
        assert_eq!(vector, expected.row(number), "line {number}");
    }
    Ok(())
}

#[test]
fn two_runs_give_the_same_bytes() -> TestResult {
    let model = StaticModel::default_embedded();
    let sources = [PathBuf::from("it/main.rs"), PathBuf::from("it/golden/README.md")];
    let job = job("chars:200/40", 1 << 20, &model, EncodeOptions::default());
    assert_eq!(run(&sources, &job, &model)?.0, run(&sources, &job, &model)?.0);
    Ok(())
}

#[test]
fn a_bad_source_costs_only_itself() -> TestResult {
    let model = StaticModel::default_embedded();
    let folder = tempfile::tempdir()?;
    let sources = [
        file(folder.path(), "a.txt", b"first"),
        file(folder.path(), "b.bin", b"x\0y"),
        folder.path().join("c.missing"),
        file(folder.path(), "d.txt", b"ab\xFFcd"),
        file(folder.path(), "e.txt", b""),
    ];
    let job = job("none", 1 << 20, &model, EncodeOptions::default());
    let (rows, summary) = run(&sources, &job, &model)?;
    assert_eq!(rows.len(), 2);
    assert!(matches!(summary.skipped[0].reason, SkipReason::Binary));
    assert!(matches!(summary.skipped[1].reason, SkipReason::Unreadable(_)));
    assert_eq!(summary.skipped.len(), 2);
    let (path, invalid) = &summary.invalid[0];
    assert!(path.ends_with("d.txt") && (invalid.count, invalid.first_byte) == (1, 2));
    Ok(())
}

#[test]
fn a_clipped_text_loses_nothing_that_the_model_reads() -> TestResult {
    let model = StaticModel::default_embedded();
    let folder = tempfile::tempdir()?;
    let long = "the same words again and again ".repeat(5_000);
    let source = [file(folder.path(), "long.txt", long.as_bytes())];
    let expected = model.embed(&[&long])?;

    let cut = job("none", 10_000, &model, EncodeOptions::default());
    let (rows, summary) = run(&source, &cut, &model)?;
    let vector: Vec<f32> = serde_json::from_value(rows[0]["vector"].clone())?;
    assert_eq!(vector, expected.row(0));
    assert_eq!((rows[0]["truncated"].clone(), summary.clipped_rows), (Value::Bool(true), 0));

    let unlimited = EncodeOptions::default().with_max_length(MaxLength::Unlimited);
    let (_, summary) = run(&source, &job("none", 10_000, &model, unlimited), &model)?;
    assert_eq!(summary.clipped_rows, 1, "without a limit the model would have read on");
    Ok(())
}

#[test]
fn npy_holds_the_rows_and_the_ids_file_says_what_they_are() -> TestResult {
    let model = StaticModel::default_embedded();
    let folder = tempfile::tempdir()?;
    let source = file(folder.path(), "lines.txt", b"one\ntwo\nthree");
    let out = folder.path().join("v.npy");
    let mut writer =
        Box::new(NpyWriter::create(&out, model.dim(), model.model_id(), &Temporaries::default())?);
    let job = job("line", 1 << 20, &model, EncodeOptions::default());
    pipeline::run(&[source], &job, &model, &mut *writer, &mut |_| {})?;
    writer.finish()?;

    let bytes = fs::read(&out)?;
    assert!(String::from_utf8_lossy(&bytes[..128]).contains("'shape': (3, 256)"));
    let (values, _) = bytes[128..].as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    assert_eq!(values, model.embed(&["one", "two", "three"])?.as_slice());
    let ids = fs::read_to_string(folder.path().join("v.ids.jsonl"))?;
    let chunks: Vec<Value> = ids
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).map(|row| row["chunk"].clone()))
        .collect::<Result<_, _>>()?;
    assert_eq!(chunks, [0, 1, 2]);
    Ok(())
}
