//! Pooling ids as they come.

use std::ops::ControlFlow;

use super::block::{Block, MAX_IDS};
use super::columns::Target;
use super::level::Level;
use super::scalar::Sums;
use crate::tokenizer::IdSink;
use crate::weights::Weights;

/// Takes the ids of one bag after the other and gives their mean rows.
pub(crate) struct Pooler<'m> {
    weights: &'m Weights,
    file: &'m [u8],
    level: Level,
    columns: usize,
    ids: [u32; MAX_IDS],
    filled: usize,
    /// Tokens of this bag that are in `sums` and no longer in `ids`.
    spilled: usize,
    /// Made when a bag first needs more than one block.
    sums: Option<Sums>,
}

impl<'m> Pooler<'m> {
    pub(crate) fn new(weights: &'m Weights, file: &'m [u8], level: Level, columns: usize) -> Self {
        assert!(columns > 0 && columns <= weights.dim, "columns are within the table");
        let ids = [0; MAX_IDS];
        Self { weights, file, level, columns, ids, filled: 0, spilled: 0, sums: None }
    }

    /// Writes the mean of the bag and begins the next one.
    pub(crate) fn finish(&mut self, row: &mut [f32]) {
        assert_eq!(row.len(), self.columns, "a row has a value for each column");
        if self.spilled > 0 {
            let count = self.spilled + self.filled;
            if self.filled > 0 {
                self.spill();
            }
            if let Some(sums) = &mut self.sums {
                sums.mean(count, row);
                sums.clear();
            }
            self.spilled = 0;
        } else if self.filled > 0 {
            self.level.pool(&self.block(), Target::Mean(row));
            self.filled = 0;
        } else {
            row.fill(0.0);
        }
    }

    fn block(&self) -> Block<'_> {
        Block { weights: self.weights, file: self.file, ids: &self.ids[..self.filled] }
    }

    #[cold]
    fn spill(&mut self) {
        let mut sums = self.sums.take().unwrap_or_else(|| Sums::new(self.weights, self.columns));
        self.level.pool(&self.block(), Target::Sums(&mut sums));
        self.sums = Some(sums);
        self.spilled += self.filled;
        self.filled = 0;
    }
}

impl IdSink for Pooler<'_> {
    #[inline]
    fn push(&mut self, id: u32) -> ControlFlow<()> {
        if self.filled == MAX_IDS {
            self.spill();
        }
        self.ids[self.filled] = id;
        self.filled += 1;
        ControlFlow::Continue(())
    }
}
