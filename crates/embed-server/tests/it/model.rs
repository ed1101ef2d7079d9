//! A model that does as it is told: its rows are made of the bytes of a text, certain texts make it fail,
//! and it can be made to wait.

use std::sync::{Arc, Condvar, Mutex};

use embed_core::{Embedder, EncodeOptions, Error, Input, Overflow, RowInfo, Tokens};

/// The width of its rows.
pub(crate) const DIM: usize = 4;

/// Longer texts are cut to so many tokens, which are bytes.
pub(crate) const MAX_LENGTH: usize = 100;

/// Texts that contain this one wait until the door is opened.
pub(crate) const WAITS: &str = "wait";

/// The model.
#[derive(Default)]
pub(crate) struct Scripted {
    door: Arc<Door>,
}

/// What texts wait at.
#[derive(Default)]
pub(crate) struct Door {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Door {
    /// Lets all pass that wait, and all that come.
    pub(crate) fn open(&self) {
        *self.is_open.lock().expect("not poisoned") = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_open = self.is_open.lock().expect("not poisoned");
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).expect("not poisoned"));
    }
}

impl Scripted {
    pub(crate) fn door(&self) -> Arc<Door> {
        Arc::clone(&self.door)
    }
}

/// The row of a text, before cutting and normalizing, which this model does not do.
pub(crate) fn row(text: &str) -> [f32; DIM] {
    let sum: f32 = text.bytes().take(MAX_LENGTH).map(f32::from).sum();
    [sum, text.len() as f32, 0.1, -1.0]
}

impl Embedder for Scripted {
    fn dim(&self) -> usize {
        DIM
    }

    fn model_id(&self) -> &'static str {
        "scripted"
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), Error> {
        let dim = self.output_dim(options)?;
        let rows = out.chunks_exact_mut(dim);
        for (index, ((input, out), info)) in inputs.iter().zip(rows).zip(info).enumerate() {
            let (row, tokens) = match input {
                Input::Text(text) => {
                    assert!(!text.contains("panic!"), "told to");
                    if text.contains("fail!") {
                        return Err(Error::backend(std::io::Error::other("secret of the machine")));
                    }
                    if text.contains(WAITS) {
                        self.door.pass();
                    }
                    let mut row = row(text);
                    if text.contains("nan!") {
                        row[0] = f32::NAN;
                    }
                    (row, text.len())
                }
                Input::Ids(ids) => {
                    ([ids.iter().map(|&id| id as f32).sum(), 0.0, 0.0, 0.0], ids.len())
                }
            };
            if tokens > MAX_LENGTH && options.overflow == Overflow::Error {
                return Err(Error::TooLong { input: index, max_length: MAX_LENGTH });
            }
            out.copy_from_slice(&row[..dim]);
            let kept = if matches!(input, Input::Text(" ")) { 0 } else { tokens.min(MAX_LENGTH) };
            *info = RowInfo {
                tokens: tokens.min(MAX_LENGTH),
                kept,
                truncated: tokens > MAX_LENGTH,
                ..RowInfo::default()
            };
        }
        Ok(())
    }
}

impl Tokens for Scripted {
    fn token_ids(
        &self,
        text: &str,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<RowInfo, Error> {
        ids.extend(text.bytes().map(u32::from));
        self.count_tokens(text, options)
    }

    fn count_tokens(&self, text: &str, _: &EncodeOptions) -> Result<RowInfo, Error> {
        Ok(RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() })
    }

    fn vocabulary_size(&self) -> usize {
        256
    }

    fn token(&self, id: u32) -> Option<&str> {
        (id == u32::from(b'a')).then_some("a")
    }
}
