//! `embed text`: texts from the command line to JSON lines.

use anyhow::Result;
use embed_core::{Embedder as _, Input, RowInfo};
use embed_files::output::{Destination, write_text_row};

use super::warn_if_unknown;
use crate::cli::{GlobalArgs, TextArgs};
use crate::console::Console;
use crate::exit_code::Outcome;
use crate::model;

pub(crate) fn run(args: &TextArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let model = model::open(None, global, console)?;
    let options = global.encode_options();
    let inputs: Vec<Input<'_>> = args.texts.iter().map(|text| Input::Text(text)).collect();
    let mut vectors = vec![0.0; inputs.len() * model.dim()];
    let mut info = vec![RowInfo::default(); inputs.len()];
    model.embed_into(&inputs, &options, &mut vectors, &mut info)?;

    let mut out = Destination::stdout();
    let mut zero_rows = 0;
    let rows = vectors.chunks_exact(model.dim()).zip(&info).zip(&args.texts);
    for (index, ((vector, info), text)) in rows.enumerate() {
        write_text_row(&mut out, index, text, model.model_id(), info, vector)?;
        zero_rows += u64::from(info.kept == 0);
    }
    out.commit()?;
    let sum =
        |count: fn(&RowInfo) -> usize| info.iter().map(|info| count(info) as u64).sum::<u64>();
    let (tokens, unknown) = (sum(|info| info.tokens), sum(|info| info.unknown));
    warn_if_unknown(info.len() as u64, zero_rows, tokens, unknown, console);
    Ok(Outcome::Done)
}
