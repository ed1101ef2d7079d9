//! Long work in turns with the threads of connections.
//!
//! A batch of a thousand texts keeps a processor for a millisecond, and where there are no more processors
//! than threads with such work, a question that comes over a socket meanwhile waits for all of it: the
//! thread that would see it is not let in before. So batches are computed in pieces of a tenth of that, and
//! between two pieces whoever else wants the processor gets it. Where nobody does, that costs less than a
//! microsecond. One text is never divided: a long one keeps the processor for as long as it takes.

use std::sync::Arc;
use std::thread;

use embed_core::{Embedder, EncodeOptions, Error, Input, RowInfo};

/// An embedder that computes in pieces.
pub(crate) struct InTurns(pub(crate) Arc<dyn Embedder>);

/// A piece ends with the input that makes it so many bytes, or so many inputs: a hundred microseconds or two,
/// if none of them is long.
const PIECE_BYTES: usize = 1 << 13;
const PIECE_INPUTS: usize = 128;

impl Embedder for InTurns {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), Error> {
        let dim = self.output_dim(options)?;
        let fit = inputs.len().checked_mul(dim) == Some(out.len()) && inputs.len() == info.len();
        if !fit {
            // It says what is wrong about the buffers.
            return self.0.embed_into(inputs, options, out, info);
        }
        let (mut inputs, mut out, mut info, mut done) = (inputs, out, info, 0);
        loop {
            let piece = piece(inputs);
            if piece == inputs.len() {
                let last = self.0.embed_into(inputs, options, out, info);
                return last.map_err(|error| moved(error, done));
            }
            let (now, later) = inputs.split_at(piece);
            let (values, rest) = out.split_at_mut(piece * dim);
            let (infos, others) = info.split_at_mut(piece);
            self.0.embed_into(now, options, values, infos).map_err(|error| moved(error, done))?;
            (inputs, out, info, done) = (later, rest, others, done + piece);
            thread::yield_now();
        }
    }

    fn output_dim(&self, options: &EncodeOptions) -> Result<usize, Error> {
        self.0.output_dim(options)
    }
}

/// How many of `inputs` are computed in one go.
fn piece(inputs: &[Input<'_>]) -> usize {
    let mut bytes = 0;
    let full = inputs.iter().take(PIECE_INPUTS).position(|input| {
        bytes += match input {
            Input::Text(text) => text.len(),
            Input::Ids(ids) => size_of_val(*ids),
        };
        bytes >= PIECE_BYTES
    });
    full.map_or(inputs.len().min(PIECE_INPUTS), |last| last + 1)
}

/// The error of a piece in front of which there were `before` inputs.
fn moved(error: Error, before: usize) -> Error {
    match error.input() {
        Some(input) => error.with_input(before + input),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use embed_core::Embeddings;

    use super::*;

    /// Row = number of the bytes; refuses texts with an x, and keeps the sizes of its calls.
    #[derive(Default)]
    struct Lengths {
        calls: std::sync::Mutex<Vec<usize>>,
    }

    impl Embedder for Lengths {
        fn dim(&self) -> usize {
            2
        }

        fn model_id(&self) -> &'static str {
            "lengths"
        }

        fn embed_into(
            &self,
            inputs: &[Input<'_>],
            _: &EncodeOptions,
            out: &mut [f32],
            info: &mut [RowInfo],
        ) -> Result<(), Error> {
            self.calls.lock().expect("no panic").push(inputs.len());
            let expected = 2 * inputs.len();
            if out.len() != expected {
                return Err(Error::OutputLength { expected, found: out.len() });
            }
            if info.len() != inputs.len() {
                return Err(Error::InfoLength { expected: inputs.len(), found: info.len() });
            }
            for (index, input) in inputs.iter().enumerate() {
                let Input::Text(text) = input else { unreachable!("texts only") };
                if text.contains('x') {
                    return Err(Error::TooLong { input: index, max_length: 1 });
                }
                out[2 * index..2 * index + 2].fill(text.len() as f32);
                info[index].tokens = text.len();
            }
            Ok(())
        }
    }

    type Answer = Result<(Embeddings, Vec<RowInfo>), Error>;

    #[track_caller]
    fn check(texts: &[&str], calls: &[usize]) -> Answer {
        let inner = Arc::new(Lengths::default());
        let embedder = InTurns(Arc::clone(&inner) as Arc<dyn Embedder>);
        let answer = embedder.embed_with_info(texts, &EncodeOptions::default());
        assert_eq!(*inner.calls.lock().expect("no panic"), calls);
        let whole = Lengths::default().embed_with_info(texts, &EncodeOptions::default());
        assert_eq!(answer.as_ref().ok(), whole.as_ref().ok());
        answer
    }

    #[test]
    fn a_batch_in_pieces_gives_the_rows_of_the_batch() {
        let long = "y".repeat(PIECE_BYTES);
        let half = "y".repeat(PIECE_BYTES / 2);
        let short: Vec<String> = (0..300).map(|length| "z".repeat(length % 7)).collect();
        let short: Vec<&str> = short.iter().map(String::as_str).collect();
        assert!(check(&[], &[0]).is_ok());
        assert!(check(&["a"], &[1]).is_ok());
        assert!(check(&[&long, "b", &half, &half, "c"], &[1, 3, 1]).is_ok());
        assert!(check(&short[..128], &[128]).is_ok());
        assert!(check(&short, &[128, 128, 44]).is_ok());
    }

    #[test]
    fn buffers_that_do_not_fit_are_told_of_as_a_whole() {
        let embedder = InTurns(Arc::new(Lengths::default()));
        let inputs = vec![Input::Text("a"); 300];
        for (values, infos) in [(599, 300), (601, 300), (600, 299), (600, 301)] {
            let (mut out, mut info) = (vec![0.0; values], vec![RowInfo::default(); infos]);
            let options = EncodeOptions::default();
            let error = embedder.embed_into(&inputs, &options, &mut out, &mut info);
            let expected = if infos == 300 {
                Error::OutputLength { expected: 600, found: values }
            } else {
                Error::InfoLength { expected: 300, found: infos }
            };
            assert_eq!(error.expect_err("wrong").to_string(), expected.to_string());
        }
    }

    #[test]
    fn an_error_names_the_place_in_the_batch() {
        let mut texts = vec!["a"; 300];
        texts[200] = "x";
        let error = check(&texts, &[128, 128]).expect_err("an x");
        assert_eq!(error.input(), Some(200));
    }
}
