//! `embed similarity`: how close texts are.

use anyhow::{Result, ensure};
use embed_core::{Embedder as _, cosine};
use embed_files::output::Destination;

use super::warn_about;
use crate::cli::{GlobalArgs, SimilarityArgs};
use crate::console::Console;
use crate::exit_code::Outcome;
use crate::model;

/// Prints one number for two texts, and for more a matrix with tabs between columns.
pub(crate) fn run(args: &SimilarityArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let model = model::open(None, global, console)?;
    let texts: Vec<&str> = args.texts.iter().map(String::as_str).collect();
    let (rows, info) = model.embed_with_info(&texts, &global.encode_options())?;
    for (row, text) in rows.rows().zip(&texts) {
        ensure!(
            row.iter().all(|value| value.is_finite()),
            "the vector of {text:?} is not finite: the model has damaged rows"
        );
        if row.iter().all(|&value| value == 0.0) {
            console.warn(&format!(
                "the model knows nothing of {text:?}: its similarity to anything is 0"
            ));
        }
    }
    warn_about(&info, console);
    let mut out = Destination::stdout()?;
    if let [_, _] = texts.as_slice() {
        out.write(format!("{:.6}\n", cosine(rows.row(0), rows.row(1))).as_bytes())?;
    } else {
        for a in rows.rows() {
            let line: Vec<String> = rows.rows().map(|b| format!("{:.6}", cosine(a, b))).collect();
            out.write((line.join("\t") + "\n").as_bytes())?;
        }
    }
    out.commit()?;
    Ok(Outcome::Done)
}
