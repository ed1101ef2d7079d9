//! A batch on its way to a device: tokenized here, sent in pieces of bounded size.

use embed_core::{Error, Input, NormGuard, RowInfo};

use super::{PoolRows, Task};
use crate::StaticModel;
use crate::forward::push_input;
use crate::kernels::Bags;
use crate::limits::Limits;

/// Token ids that go to a device in one piece: 4 MiB. One text alone may have more, up to one for each
/// byte that [`ModelOptions::max_text_bytes`](crate::ModelOptions::max_text_bytes) allows.
pub const CHUNK_TOKENS: usize = 1 << 20;

/// Values of rows that come back in one piece: 16 MiB.
pub const CHUNK_VALUES: usize = 4 << 20;

/// How a batch is embedded, apart from the texts.
pub(crate) struct Settings<'m> {
    pub(crate) model: &'m StaticModel,
    pub(crate) limits: Limits,
    pub(crate) normalize: Option<NormGuard>,
    pub(crate) columns: usize,
}

/// Embeds a batch on a device; `out` and `info` have the right lengths.
pub(crate) fn embed_into(
    device: &dyn PoolRows,
    settings: &Settings<'_>,
    inputs: &[Input<'_>],
    out: &mut [f32],
    info: &mut [RowInfo],
) -> Result<(), Error> {
    let Settings { model, ref limits, normalize, columns } = *settings;
    let mut session = model.tokenizer().session();
    let mut bags = Bags::new();
    let mut rest = out;
    for (index, (input, info)) in inputs.iter().zip(info).enumerate() {
        *info = push_input(model, &mut session, limits, index, input, bags.open())?;
        bags.close();
        let full = bags.ids().len() >= CHUNK_TOKENS || (bags.len() + 1) * columns > CHUNK_VALUES;
        if full || index + 1 == inputs.len() {
            let (out, later) = rest.split_at_mut(bags.len() * columns);
            let task = Task { bags: &bags, columns, normalize, out };
            device.pool(task).map_err(Error::backend)?;
            bags.clear();
            rest = later;
        }
    }
    Ok(())
}
