//! The batched forward: a batch of inputs to finished rows, without padding.
//!
//! All inputs of a batch are tokenized into one flat buffer of ids with bag boundaries, and that
//! buffer is pooled by **one** call of the kernel. Nothing is padded, so that a long text costs its
//! own tokens and never its neighbors'.
//!
//! Memory: the ids of a batch are bounded by [`ModelOptions::max_batch_tokens`]. When they exceed it,
//! the bags so far are pooled and the buffer is used again; a batch then takes more than one kernel
//! call. What one text can add is bounded by [`ModelOptions::max_text_bytes`].
//!
//! [`ModelOptions::max_batch_tokens`]: crate::ModelOptions::max_batch_tokens
//! [`ModelOptions::max_text_bytes`]: crate::ModelOptions::max_text_bytes

use embed_core::{Embedder as _, EncodeOptions, Error, Input, RowInfo};

use crate::kernels::{self, Bags, norm};
use crate::limits::Limits;
use crate::model::StaticModel;
use crate::tokenizer::{IdSink, Session};

pub(crate) fn embed_into(
    model: &StaticModel,
    inputs: &[Input<'_>],
    options: &EncodeOptions,
    out: &mut [f32],
    info: &mut [RowInfo],
) -> Result<(), Error> {
    let columns = model.output_dim(options)?;
    let expected = inputs.len().saturating_mul(columns);
    if out.len() != expected {
        return Err(Error::OutputLength { expected, found: out.len() });
    }
    if info.len() != inputs.len() {
        return Err(Error::InfoLength { expected: inputs.len(), found: info.len() });
    }

    let limits = model.limits(options);
    let mut session = model.tokenizer().session();
    let mut bags = Bags::new();
    let mut unfinished = out;
    for (index, (input, info)) in inputs.iter().zip(info).enumerate() {
        *info = push_input(model, &mut session, &limits, index, input, bags.open())?;
        bags.close();
        if bags.tokens() >= model.options().max_batch_tokens.get() {
            let (rows, rest) = unfinished.split_at_mut(bags.len() * columns);
            finish_rows(model, options, &bags, columns, rows);
            unfinished = rest;
            bags.clear();
        }
    }
    if bags.len() > 0 {
        finish_rows(model, options, &bags, columns, unfinished);
    }
    Ok(())
}

/// Appends the ids of one input that go into its mean; `index` is its number, for messages.
pub(crate) fn push_input(
    model: &StaticModel,
    session: &mut Session<'_>,
    limits: &Limits,
    index: usize,
    input: &Input<'_>,
    sink: &mut impl IdSink,
) -> Result<RowInfo, Error> {
    let info = match *input {
        Input::Text(text) => {
            let (text, cut) = limits.precut(text);
            let limit = model.options().max_text_bytes;
            if text.len() > limit {
                return Err(Error::TextTooLarge { input: index, bytes: text.len(), limit });
            }
            let mut filter = limits.filter(sink, cut);
            session.tokenize(text, &mut filter)?;
            filter.info()
        }
        Input::Ids(ids) => {
            let vocabulary = model.tokenizer().vocabulary().size;
            if let Some(position) = ids.iter().position(|&id| id as usize >= vocabulary) {
                return Err(Error::IdOutOfRange {
                    input: index,
                    position,
                    id: ids[position],
                    vocabulary,
                });
            }
            let mut filter = limits.filter(sink, false);
            // A break means that the limit was reached: the rest does not count.
            let _ = ids.iter().try_for_each(|&id| filter.push(id));
            filter.info()
        }
    };
    match limits.violation(&info) {
        Some(max_length) => Err(Error::TooLong { input: index, max_length }),
        None => Ok(info),
    }
}

/// Pools the bags into `rows` and normalizes them if asked.
fn finish_rows(
    model: &StaticModel,
    options: &EncodeOptions,
    bags: &Bags,
    columns: usize,
    rows: &mut [f32],
) {
    model.count_forward();
    kernels::pool(model.weights(), model.weights_file(), bags, columns, rows);
    if model.normalizes(options) {
        for row in rows.chunks_exact_mut(columns) {
            norm::normalize(row, options.norm_guard);
        }
    }
}
