//! `embed text`: texts from the command line to JSON lines.

use anyhow::Result;
use embed_core::Embedder as _;
use embed_files::output::{Destination, write_text_row};

use super::warn_about;
use crate::cli::{GlobalArgs, TextArgs};
use crate::console::Console;
use crate::exit_code::Outcome;
use crate::model;

pub(crate) fn run(args: &TextArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let model = model::open(None, global, console)?;
    let texts: Vec<&str> = args.texts.iter().map(String::as_str).collect();
    let (rows, info) = model.embed_with_info(&texts, &global.encode_options())?;
    let mut out = Destination::stdout()?;
    for (index, (vector, info)) in rows.rows().zip(&info).enumerate() {
        write_text_row(&mut out, index, texts[index], model.model_id(), info, vector)?;
    }
    out.commit()?;
    warn_about(&info, console);
    Ok(Outcome::Done)
}
