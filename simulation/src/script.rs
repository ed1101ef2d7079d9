//! A backend that does what it is told, and writes down how it was called.

use std::sync::{Arc, Mutex, PoisonError};

use embed_batcher::{Backend, Cost, DeviceGate, RowFault};

/// How a call of the backend ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// With the right rows.
    #[default]
    Rows,
    /// With an error.
    Fails,
    /// With a panic.
    Panics,
    /// With a row too few.
    OneRowMissing,
    /// With a row too many.
    OneRowMore,
    /// With a last row that is too short.
    ShortRow,
    /// With a last row that has a NaN.
    NotANumber,
}

/// The error of the scripted backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as the script says")]
pub struct ScriptError;

/// A row of the scripted backend.
pub type ScriptRow = Vec<f32>;

const WIDTH: usize = 3;

/// The one right row of a text under options.
pub fn row_of(text: &str, options: u8) -> ScriptRow {
    let sum = text.bytes().fold(7_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 65_521);
    vec![sum as f32, f32::from(options), text.len() as f32]
}

/// A call of the backend.
#[derive(Clone, Debug)]
pub struct Call {
    /// The texts.
    pub texts: Vec<String>,
    /// Their options.
    pub options: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// Holders of the gate during the call.
    pub holders: usize,
}

/// The backend.
#[derive(Clone, Debug, Default)]
pub struct ScriptedBackend {
    state: Arc<Mutex<State>>,
    /// The gate whose holders are counted.
    pub gate: DeviceGate,
}

#[derive(Debug, Default)]
struct State {
    next: Outcome,
    calls: Vec<Call>,
}

impl ScriptedBackend {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how the next calls end.
    pub fn set(&self, outcome: Outcome) {
        self.state().next = outcome;
    }

    /// Takes the calls since the last time.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }
}

/// The text whose cost function panics.
pub(crate) const PANICKING: &str = "panic/0";

impl Backend for ScriptedBackend {
    type Item = str;
    type Options = u8;
    type Row = ScriptRow;
    type Error = ScriptError;

    fn cost(&self, text: &str, _: &u8) -> Cost {
        assert_ne!(text, PANICKING, "the cost of this text panics");
        let (_, tokens) = text.split_once('/').unwrap_or(("", "1"));
        Cost { tokens: tokens.parse().unwrap_or(1), bytes: text.len() }
    }

    fn run(&self, texts: &[&str], options: &u8) -> Result<Vec<ScriptRow>, ScriptError> {
        let mut state = self.state();
        let outcome = state.next;
        state.calls.push(Call {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            options: *options,
            outcome,
            holders: self.gate.occupancy().holders,
        });
        drop(state);
        let mut rows: Vec<ScriptRow> = texts.iter().map(|text| row_of(text, *options)).collect();
        match outcome {
            Outcome::Rows => {}
            Outcome::Fails => return Err(ScriptError),
            Outcome::Panics => std::panic::panic_any("as the script says"),
            Outcome::OneRowMissing => drop(rows.pop()),
            Outcome::OneRowMore => rows.push(vec![0.0; WIDTH]),
            Outcome::ShortRow => drop(rows.last_mut().and_then(Vec::pop)),
            Outcome::NotANumber => rows.iter_mut().rev().take(1).for_each(|row| row[1] = f32::NAN),
        }
        Ok(rows)
    }

    fn check(&self, row: &ScriptRow, _: &u8) -> Result<(), RowFault> {
        if row.len() != WIDTH {
            return Err(RowFault::Width { expected: WIDTH, received: row.len() });
        }
        let column = row.iter().position(|value| !value.is_finite());
        column.map_or(Ok(()), |column| Err(RowFault::NotFinite { column }))
    }
}
