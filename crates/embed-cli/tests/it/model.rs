//! `embed model` and the choice of a model.

use std::path::Path;

use crate::command::{check, run};

/// The folder of the built-in model, which is a model folder like any other.
const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../embed-default-model/model");

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn info_says_what_the_model_is() {
    let run = run(here(), &["model", "info"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    for line in [
        "model: default-en-256\n",
        "table: I8 [29525, 256], tensor `embeddings`\n",
        "token weights: F32\n",
        "max length: 512 tokens\n",
        "tokenizer: WordPiece, built in\n",
        "kernel: ",
    ] {
        assert!(run.stdout.contains(line), "{line:?} is missing in {}", run.stdout);
    }
}

#[test]
fn a_model_can_be_named_in_every_place() {
    let info = |arguments: &[&str]| {
        let run = run(here(), arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        run.stdout
    };
    let expected = info(&["model", "info", DEFAULT]);
    assert!(expected.starts_with(&format!("model: {DEFAULT}\n")));
    assert_eq!(info(&["model", "info", "--model", DEFAULT]), expected);
    assert_eq!(info(&["--model", DEFAULT, "model", "info"]), expected);
    assert_eq!(
        info(&["model", "info", "--model", DEFAULT, "--subfolder", "."]).lines().nth(1),
        expected.lines().nth(1)
    );
}

#[test]
fn verify_checks_a_folder_and_the_built_in_model_alike() {
    let lines = |origin: &str| {
        format!(
            "ok: {origin} loads: files, shapes, types and indices fit together\n\
             ok: identity bc42f1d9713ae2c6069745cea5b8fab55bd3e14d72c77c91831be2cc6f095e78\n\
             ok: every token's row is finite\n\
             ok: 0 tokens with a row of zeros\n\
             ok: 12 of 12 probe rows equal the reference in every bit\n"
        )
    };
    check(&run(here(), &["model", "verify"]), 0, &lines("default-en-256"), "");
    check(&run(here(), &["model", "verify", DEFAULT]), 0, &lines(DEFAULT), "");
}

#[test]
fn a_damaged_model_fails_the_check_and_cannot_embed_files() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    for file in ["config.json", "tokenizer.json"] {
        std::fs::copy(format!("{DEFAULT}/{file}"), folder.path().join(file))?;
    }
    // The weights of the default model, with a NaN in place of one token's weight ("the" in English).
    let mut weights = std::fs::read(format!("{DEFAULT}/model.safetensors"))?;
    let header = u64::from_le_bytes(weights[..8].try_into().expect("eight bytes"));
    let header: serde_json::Value =
        serde_json::from_slice(&weights[8..8 + usize::try_from(header).expect("small")])?;
    let data = weights.len() - 29525 * 256 - 29525 * 4;
    let start = data
        + usize::try_from(header["weights"]["data_offsets"][0].as_u64().expect("a number"))
            .expect("small");
    weights[start..start + 29525 * 4].copy_from_slice(&f32::NAN.to_le_bytes().repeat(29525));
    std::fs::write(folder.path().join("model.safetensors"), weights)?;

    let verify = run(folder.path(), &["model", "verify", "."]);
    assert_eq!(verify.code, Some(2));
    assert!(
        verify.stdout.contains("FAILED: 29525 tokens with NaN or infinity, the first is 0\n"),
        "{}",
        verify.stdout
    );

    let text = run(folder.path(), &["--model", ".", "text", "hello"]);
    let message = "error: text 0, chunk 0: the vector is not finite: the model has damaged rows\n";
    check(&text, 2, "", message);
    let similarity = run(folder.path(), &["--model", ".", "similarity", "hello", "x"]);
    let message = "error: the vector of \"hello\" is not finite: the model has damaged rows\n";
    check(&similarity, 2, "", message);

    std::fs::write(folder.path().join("a.txt"), "some text")?;
    let files = run(folder.path(), &["--model", ".", "files", "a.txt", "-o", "out.jsonl"]);
    let message = "error: a.txt, chunk 0: the vector is not finite: the model has damaged rows\n";
    check(&files, 2, "", message);
    assert!(!folder.path().join("out.jsonl").exists(), "nothing half done");
    Ok(())
}

#[test]
fn a_model_that_is_not_there_names_every_place() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    check(
        &run(folder.path(), &["text", "x", "--model", "nope"]),
        2,
        "",
        "error: no model found for \"nope\"; looked for:\n  \
         nope: there is no such folder\n  \
         Hugging Face hub: \"nope\" is not a model name: expected ORG/NAME or ORG/NAME@REVISION (there is no slash)\n",
    );
    let cache = folder.path().join(".cache/huggingface/hub/models--org--name/refs/main");
    check(
        &run(folder.path(), &["text", "x", "--model", "org/name", "--offline"]),
        2,
        "",
        &format!(
            "error: no model found for \"org/name\"; looked for:\n  \
             org/name: there is no such folder\n  \
             {}: not in the cache: No such file or directory (os error 2)\n  \
             https://huggingface.co: not asked, because the network is off (--offline or HF_HUB_OFFLINE)\n",
            cache.display()
        ),
    );
    std::fs::write(folder.path().join("config.json"), "{}")?;
    std::fs::write(folder.path().join("tokenizer.json"), "{}")?;
    let incomplete = run(folder.path(), &["text", "x", "--model", "."]);
    assert_eq!(incomplete.code, Some(2));
    assert!(
        incomplete.stderr.contains("./model.safetensors: no such file (model2vec layout)"),
        "{}",
        incomplete.stderr
    );
    Ok(())
}
