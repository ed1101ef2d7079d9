//! `embed text` and `embed similarity`, and wrong usage.

use std::path::Path;

use crate::command::{check, run};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_text_gives_a_line_with_fields_in_order() {
    let run = run(here(), &["text", "hello world", "two"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let rows = run.rows();
    assert_eq!(rows.len(), 2);
    let start = "{\"index\":0,\"text_hash\":\"d74981efa70a0c880b8d8c1985d075dbcbf679b99a5f9914e5aaf96b831a9e24\",\"model\":\"";
    assert!(run.stdout.starts_with(start), "{}", run.stdout);
    assert_eq!(rows[1]["index"], 1);
    assert_eq!((rows[0]["tokens"].clone(), rows[0]["zero"].clone()), (2.into(), false.into()));
    assert_eq!(rows[0]["vector"].as_array().map(Vec::len), Some(256));
}

#[test]
fn an_empty_text_gives_a_zero_row_and_a_warning() {
    let run = run(here(), &["text", ""]);
    let warning = "warning: 1 of 1 vectors are zero and 0 of 0 tokens are unknown: the model knows little of \
                   this text, unless it is blank. The built-in model is English; choose a multilingual one \
                   with --model\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), warning));
    assert_eq!(run.rows()[0]["zero"], true);
}

#[test]
fn a_word_of_101_letters_is_one_unknown_token() {
    let run = run(here(), &["-q", "text", &"a".repeat(101)]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        (run.rows()[0]["tokens"].clone(), run.rows()[0]["zero"].clone()),
        (1.into(), true.into())
    );
}

#[test]
fn options_of_encoding_reach_the_rows() {
    let length = |arguments: &[&str]| {
        let run = run(here(), arguments);
        let vector: Vec<f64> =
            serde_json::from_value(run.rows()[0]["vector"].clone()).expect("a vector");
        let truncated = run.rows()[0]["truncated"] == true;
        (vector.iter().map(|value| value * value).sum::<f64>().sqrt(), truncated)
    };
    let (default, truncated) = length(&["text", "a few words"]);
    assert!((default - 1.0).abs() < 1e-5 && !truncated);
    let (raw, truncated) = length(&["text", "a few words", "--no-normalize", "--max-length", "2"]);
    assert!((raw - 1.0).abs() > 1e-3 && truncated);
}

#[test]
fn similarity_prints_a_number_or_a_matrix() {
    check(&run(here(), &["similarity", "same", "same"]), 0, "1.000000\n", "");
    let matrix = run(here(), &["similarity", "cat", "kitten", "the theory of relativity"]);
    let rows: Vec<Vec<f64>> = matrix
        .stdout
        .lines()
        .map(|line| line.split('\t').map(|cell| cell.parse().expect("a number")).collect())
        .collect();
    assert_eq!((rows.len(), rows[0].len()), (3, 3));
    assert!(rows[0][1] > rows[0][2], "a cat is closer to a kitten: {}", matrix.stdout);
    let zero = run(here(), &["similarity", "", "x"]);
    assert_eq!((zero.code, zero.stdout.as_str()), (Some(0), "0.000000\n"));
    let warning = "warning: the model knows nothing of \"\": its similarity to anything is 0\n";
    assert!(zero.stderr.starts_with(warning), "{}", zero.stderr);
}

#[test]
fn a_text_that_was_cut_is_mentioned() {
    let run = run(here(), &["text", "one two three", "--max-length", "2"]);
    let warning = "warning: 1 text was cut to the token limit: see --max-length\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), warning));
}

#[test]
fn wrong_usage_is_2_with_advice() {
    for arguments in [
        &[][..],
        &["text"],
        &["similarity", "one"],
        &["text", "x", "--max-length", "0"],
        &["text", "x", "--profile", "none"],
        &["text", "x", "--normalize=no"],
        &["model", "info", "a", "--model", "b"],
        &["files", "x", "--chunk", "chars:5/9"],
        &["-q", "-v", "text", "x"],
        &["no-such-command"],
    ] {
        let run = run(here(), arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(run.stderr.contains("Usage:") || run.stderr.contains("--help"), "{}", run.stderr);
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = run(here(), &["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("Exit codes"));
    check(&run(here(), &["--version"]), 0, concat!("embed ", env!("CARGO_PKG_VERSION"), "\n"), "");
}
