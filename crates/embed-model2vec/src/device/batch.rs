//! A batch on its way to a device: tokenized here, sent in pieces of bounded size.

use embed_core::{Error, Input, RowInfo};

use super::{DeviceError, PoolRows, Task};
use crate::forward::{Forward, push_input};
use crate::kernels::Bags;

/// Token ids after which a piece goes to a device: 4 MiB. The text that reaches this number belongs to the
/// piece, with up to one token for each byte that
/// [`ModelOptions::max_text_bytes`](crate::ModelOptions::max_text_bytes) allows.
pub const CHUNK_TOKENS: usize = 1 << 20;

/// Values of rows that come back in one piece: 16 MiB.
pub const CHUNK_VALUES: usize = 4 << 20;

/// Tokens that kernels can count in one piece.
const MOST_TOKENS: usize = 1 << 31;

/// When a piece of a batch is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// With so many tokens.
    pub(crate) tokens: usize,
    /// Before its rows have more values.
    pub(crate) values: usize,
}

impl Default for Piece {
    fn default() -> Self {
        Self { tokens: CHUNK_TOKENS, values: CHUNK_VALUES }
    }
}

/// Embeds a batch on a device; `out` and `info` have the right lengths.
pub(crate) fn embed_into(
    device: &dyn PoolRows,
    forward: &Forward<'_>,
    piece: Piece,
    inputs: &[Input<'_>],
    out: &mut [f32],
    info: &mut [RowInfo],
) -> Result<(), Error> {
    let Forward { model, ref limits, normalize, columns } = *forward;
    let mut session = model.tokenizer().session();
    let mut bags = Bags::new();
    let mut rest = out;
    for (index, (input, info)) in inputs.iter().zip(info).enumerate() {
        *info = push_input(model, &mut session, limits, index, input, bags.open())?;
        let found = bags.ids().len();
        if found > MOST_TOKENS {
            let limit = MOST_TOKENS;
            return Err(Error::backend(DeviceError::TooManyTokens { input: index, found, limit }));
        }
        bags.close();
        // As many bags as tokens at most: blank texts have none.
        let full =
            found.max(bags.len()) >= piece.tokens || (bags.len() + 1) * columns > piece.values;
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use embed_core::EncodeOptions;
    use serde_json::json;

    use super::*;
    use crate::device::{Counts, DeviceError};
    use crate::{Bundle, ModelOptions, StaticModel};

    /// Writes the number of ids and their sum into each row, and remembers the pieces.
    #[derive(Debug, Default)]
    struct Recorder {
        /// Bags and ids of each piece.
        pieces: Mutex<Vec<(usize, usize)>>,
        /// Which piece fails.
        fails_at: Option<usize>,
    }

    impl PoolRows for Recorder {
        fn pool(&self, task: Task<'_>) -> Result<(), DeviceError> {
            let Task { bags, columns, out, .. } = task;
            let mut pieces = self.pieces.lock().expect("no panic");
            if self.fails_at == Some(pieces.len()) {
                return Err(DeviceError::TooManyTokens { input: 0, found: 0, limit: 0 });
            }
            pieces.push((bags.len(), bags.ids().len()));
            for (ids, row) in bags.iter().zip(out.chunks_exact_mut(columns)) {
                row[0] = ids.len() as f32;
                row[1] = ids.iter().map(|&id| id as f32).sum();
            }
            Ok(())
        }

        fn name(&self) -> &'static str {
            "a recorder"
        }

        fn counts(&self) -> Counts {
            Counts::default()
        }
    }

    /// Words `a` to `c` with the ids 1 to 3; two columns.
    fn model() -> StaticModel {
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "unk_token": "[UNK]"},
        });
        let header = r#"{"embeddings":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}"#;
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header.as_bytes());
        weights.extend([0; 32]);
        let tokenizer = tokenizer.to_string().into_bytes();
        let bundle = Bundle::from_bytes("m", b"{}".to_vec(), tokenizer, weights);
        StaticModel::from_bundle(bundle, ModelOptions::default()).expect("a model")
    }

    fn embed(
        recorder: &Recorder,
        inputs: &[Input<'_>],
        (tokens, values): (usize, usize),
    ) -> Result<(Vec<f32>, Vec<RowInfo>), Error> {
        let model = model();
        let limits = model.limits(&EncodeOptions::default());
        let forward = Forward { model: &model, limits, normalize: None, columns: 2 };
        let piece = Piece { tokens, values };
        let mut out = vec![f32::NAN; inputs.len() * 2];
        let mut info = vec![RowInfo::default(); inputs.len()];
        embed_into(recorder, &forward, piece, inputs, &mut out, &mut info)?;
        Ok((out, info))
    }

    #[test]
    fn pieces_change_no_row_and_end_at_the_limits() {
        let texts = ["a b", "", "c c c c c", "x", "b", "a a", "", "c"];
        let inputs = texts.map(Input::Text);
        let whole = Recorder::default();
        let expected = embed(&whole, &inputs, (100, 100)).expect("rows");
        assert_eq!(*whole.pieces.lock().expect("no panic"), [(8, 11)]);
        let rows =
            [2.0, 3.0, 0.0, 0.0, 5.0, 15.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 1.0, 3.0];
        assert_eq!(expected.0, rows);
        assert_eq!(expected.1.iter().map(|info| info.tokens).sum::<usize>(), 12);
        // By tokens: a text that alone has more; by rows: two a piece; and one row a piece.
        for (piece, pieces) in [
            ((3, 100), vec![(3, 7), (3, 3), (2, 1)]),
            ((100, 4), vec![(2, 2), (2, 5), (2, 3), (2, 1)]),
            ((1, 1), vec![(1, 2), (1, 0), (1, 5), (1, 0), (1, 1), (1, 2), (1, 0), (1, 1)]),
        ] {
            let recorder = Recorder::default();
            assert_eq!(embed(&recorder, &inputs, piece).expect("rows"), expected, "{piece:?}");
            assert_eq!(*recorder.pieces.lock().expect("no panic"), pieces, "{piece:?}");
        }
    }

    #[test]
    fn errors_of_texts_and_of_pieces_end_the_batch() {
        let inputs = [Input::Text("a"), Input::Text("b"), Input::Ids(&[9])];
        let recorder = Recorder::default();
        let error = embed(&recorder, &inputs, (1, 100)).expect_err("an id that is none");
        assert!(matches!(error, Error::IdOutOfRange { input: 2, id: 9, .. }), "{error}");
        let failing = Recorder { fails_at: Some(1), ..Recorder::default() };
        let error = embed(&failing, &inputs[..2], (1, 100)).expect_err("the second piece");
        assert!(matches!(error, Error::Backend(_)), "{error}");
    }
}
