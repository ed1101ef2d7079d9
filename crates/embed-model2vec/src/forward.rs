//! The batched forward: a batch of inputs to finished rows, without padding.
//!
//! One [`Pooler`] serves a batch: the ids of an input go into it as the tokenizer finds them, and its
//! mean is written straight into the caller's buffer before the next input begins. Nothing is padded,
//! so that a long text costs its own tokens and never its neighbors'.
//!
//! A model with more than one thread cuts a large batch into parts of about [`PART_BYTES`] of text and
//! shares them out. Each row is computed as it would be alone, so that nobody can tell from the rows.
//!
//! A model on a device takes another way: see `device/`.
//!
//! Memory: a pooler's own, some KiB and one row, and a tokenizer's working memory of at most 5 MiB, for
//! each thread, whatever the batch and however long its texts. What tokenizing one text can claim
//! beyond that is bounded by [`ModelOptions::max_text_bytes`].
//!
//! [`Pooler`]: crate::kernels::Pooler
//! [`ModelOptions::max_text_bytes`]: crate::ModelOptions::max_text_bytes

use embed_core::{Embedder as _, EncodeOptions, Error, Input, NormGuard, RowInfo};

use crate::device::{self, Piece};
use crate::kernels::Pooler;
use crate::limits::Limits;
use crate::model::StaticModel;
use crate::parallel::Supply;
use crate::tokenizer::{IdSink, Session};

/// Text that is worth waking up another thread for, which takes some ten microseconds: a batch below
/// it stays on the caller's thread.
const PARALLEL_BYTES: usize = 64 << 10;

/// Text of one part of a batch that is shared out: about a tenth of a millisecond of work.
const PART_BYTES: usize = 16 << 10;

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
    let normalize = model.normalizes(options).then_some(options.norm_guard);
    let forward = Forward { model, limits, normalize, columns };
    if let Some(device) = model.device() {
        return device::embed_into(device, &forward, Piece::default(), inputs, out, info);
    }
    let cost = forward.cost(inputs);
    model.count_text(cost);
    let batch = Part { first: 0, inputs, out, info };
    match model.workers() {
        Some(workers) if cost >= PARALLEL_BYTES => {
            workers.share(forward.divide(batch), |supply| forward.work_off(supply))
        }
        _ => forward.desk().work(batch),
    }
}

/// What is the same for all inputs of a batch.
pub(crate) struct Forward<'m> {
    pub(crate) model: &'m StaticModel,
    pub(crate) limits: Limits,
    /// How rows are normalized, if they are.
    pub(crate) normalize: Option<NormGuard>,
    pub(crate) columns: usize,
}

/// Some neighboring inputs of a batch, and the places for their results.
struct Part<'b, 'i> {
    /// The number of the first input.
    first: usize,
    inputs: &'b [Input<'i>],
    out: &'b mut [f32],
    info: &'b mut [RowInfo],
}

impl Forward<'_> {
    /// Bytes of text that have to be read, or as much as ids cost.
    fn cost(&self, inputs: &[Input<'_>]) -> usize {
        // A character has one byte at least, and hardly ever more than three.
        let limit = self.limits.max_chars().map_or(usize::MAX, |chars| chars.saturating_mul(3));
        let cost = |input: &Input<'_>| match input {
            Input::Text(text) => text.len().min(limit),
            Input::Ids(ids) => size_of_val(*ids),
        };
        inputs.iter().map(cost).fold(0, usize::saturating_add)
    }

    /// Cuts a batch into parts of about [`PART_BYTES`], in order.
    fn divide<'b, 'i>(&self, batch: Part<'b, 'i>) -> Vec<Part<'b, 'i>> {
        let Part { mut first, mut inputs, mut out, mut info } = batch;
        let mut parts = Vec::new();
        while !inputs.is_empty() {
            let mut count = 0;
            let mut cost = 0;
            while count < inputs.len() && cost < PART_BYTES {
                cost += self.cost(&inputs[count..=count]);
                count += 1;
            }
            let (mine, rest) = inputs.split_at(count);
            let (my_out, rest_out) = out.split_at_mut(count * self.columns);
            let (my_info, rest_info) = info.split_at_mut(count);
            parts.push(Part { first, inputs: mine, out: my_out, info: my_info });
            (first, inputs, out, info) = (first + count, rest, rest_out, rest_info);
        }
        parts
    }

    /// Works on parts until none is left; an error comes with the number of the part's first input.
    fn work_off(&self, supply: &Supply<Part<'_, '_>>) -> Result<(), (usize, Error)> {
        // Who comes too late for a part needs no desk.
        let mut desk = None;
        while let Some(part) = supply.next() {
            let first = part.first;
            desk.get_or_insert_with(|| self.desk()).work(part).map_err(|error| (first, error))?;
        }
        Ok(())
    }

    fn desk(&self) -> Desk<'_> {
        let Self { model, columns, .. } = *self;
        Desk { forward: self, session: model.tokenizer().session(), pooler: model.pooler(columns) }
    }
}

/// What one thread needs for its work.
struct Desk<'f> {
    forward: &'f Forward<'f>,
    session: Session<'f>,
    pooler: Pooler<'f>,
}

impl Desk<'_> {
    fn work(&mut self, part: Part<'_, '_>) -> Result<(), Error> {
        let Self { forward, session, pooler } = self;
        let Forward { model, ref limits, normalize, columns } = **forward;
        let rows = part.out.chunks_exact_mut(columns);
        for (index, ((input, info), row)) in part.inputs.iter().zip(part.info).zip(rows).enumerate()
        {
            *info = push_input(model, session, limits, part.first + index, input, pooler)?;
            pooler.finish(row);
            if let Some(guard) = normalize {
                model.level().normalize(row, guard);
            }
        }
        Ok(())
    }
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
            let _ = filter.push_all(ids);
            filter.info()
        }
    };
    match limits.violation(&info) {
        Some(max_length) => Err(Error::TooLong { input: index, max_length }),
        None => Ok(info),
    }
}
