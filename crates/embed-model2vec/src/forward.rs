//! The batched forward: a batch of inputs to finished rows, without padding.
//!
//! One [`Pooler`] serves a batch: the ids of an input go into it as the tokenizer finds them, and its
//! mean is written straight into the caller's buffer before the next input begins. Nothing is padded,
//! so that a long text costs its own tokens and never its neighbors'.
//!
//! Memory: the pooler's own, about 2 KiB and one row, whatever the batch and however long its texts.
//! What tokenizing one text can claim is bounded by [`ModelOptions::max_text_bytes`].
//!
//! [`Pooler`]: crate::kernels::Pooler
//! [`ModelOptions::max_text_bytes`]: crate::ModelOptions::max_text_bytes

use embed_core::{Embedder as _, EncodeOptions, Error, Input, RowInfo};

use crate::kernels::norm;
use crate::limits::Limits;
use crate::model::StaticModel;
use crate::tokenizer::IdSink;

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

    if inputs.is_empty() {
        return Ok(());
    }

    model.count_forward();
    let limits = model.limits(options);
    let normalizes = model.normalizes(options);
    let mut pooler = model.pooler(columns);
    let rows = out.chunks_exact_mut(columns);
    for (index, ((input, info), row)) in inputs.iter().zip(info).zip(rows).enumerate() {
        *info = push_input(model, &limits, index, input, &mut pooler)?;
        pooler.finish(row);
        if normalizes {
            norm::normalize(row, options.norm_guard);
        }
    }
    Ok(())
}

/// Appends the ids of one input that go into its mean; `index` is its number, for messages.
pub(crate) fn push_input(
    model: &StaticModel,
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
            model.tokenizer().tokenize(text, &mut filter)?;
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
