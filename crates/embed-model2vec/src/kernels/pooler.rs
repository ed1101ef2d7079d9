//! Pooling ids as they come, in memory that does not grow with the text.
//!
//! Ids are collected in a block of fixed size. When a bag ends, its block is pooled straight into the
//! caller's row: that is what happens to nearly every text. When a block is full before the bag ends,
//! it is added to running sums, and the sums are continued by the next block of the bag. Blocks are
//! added in order, a column at a time in token order, so that the division into blocks cannot be seen
//! in the bits.

use std::ops::ControlFlow;

use super::block::{Block, MAX_IDS, Token, resolve};
use super::columns::Target;
use super::level::Level;
use super::scalar::Sums;
use crate::prefetch::prefetch_all;
use crate::tokenizer::IdSink;
use crate::weights::Weights;

/// Takes the ids of one bag after the other and gives their mean rows.
///
/// Ids must be below the vocabulary that the weights were loaded for: a larger one leads to a panic.
pub(crate) struct Pooler<'m> {
    weights: &'m Weights,
    file: &'m [u8],
    level: Level,
    columns: usize,
    /// The block; the first `filled` are of the current bag.
    ids: [u32; MAX_IDS],
    /// The rows and weights of these ids.
    tokens: [Token; MAX_IDS],
    /// The bytes of the table, and how many of them a row has and how many are wanted of it.
    table: &'m [u8],
    row_bytes: usize,
    wanted_bytes: usize,
    filled: usize,
    /// Tokens of this bag that are in `sums` and no longer in `ids`.
    spilled: usize,
    /// Made when a bag first needs more than one block.
    sums: Option<Sums>,
}

impl<'m> Pooler<'m> {
    /// A pooler for rows of `columns` values; `file` is the file that `weights` were loaded from.
    ///
    /// # Panics
    ///
    /// If the table has fewer columns.
    pub(crate) fn new(weights: &'m Weights, file: &'m [u8], level: Level, columns: usize) -> Self {
        assert!(columns > 0 && columns <= weights.dim, "columns are within the table");
        let table = weights.elements.bytes(file);
        let row_bytes = table.len() / weights.rows;
        Self {
            weights,
            file,
            level,
            columns,
            table,
            row_bytes,
            wanted_bytes: row_bytes / weights.dim * columns,
            ids: [0; MAX_IDS],
            tokens: [Token::default(); MAX_IDS],
            filled: 0,
            spilled: 0,
            sums: None,
        }
    }

    /// Writes the mean of the ids since the last call, zeros if there were none, and begins the next
    /// bag.
    ///
    /// # Panics
    ///
    /// If `row` has not as many values as the pooler has columns, or an id has no row.
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

    /// The ids that are not yet in the sums.
    fn block(&self) -> Block<'_> {
        let Self { weights, file, filled, .. } = *self;
        Block { weights, file, ids: &self.ids[..filled], tokens: &self.tokens[..filled] }
    }

    /// Adds the block to the running sums.
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
        self.push_all(&[id])
    }

    #[inline]
    fn push_all(&mut self, mut ids: &[u32]) -> ControlFlow<()> {
        while !ids.is_empty() {
            if self.filled == MAX_IDS {
                self.spill();
            }
            let (now, later) = ids.split_at(ids.len().min(MAX_IDS - self.filled));
            self.ids[self.filled..][..now.len()].copy_from_slice(now);
            let tokens = &mut self.tokens[self.filled..][..now.len()];
            resolve(self.weights, now, tokens);
            // Asked for now, needed when the whole text is tokenized.
            for token in tokens {
                let start = token.row as usize * self.row_bytes;
                if let Some(row) = self.table.get(start..start + self.wanted_bytes) {
                    prefetch_all(row);
                }
            }
            self.filled += now.len();
            ids = later;
        }
        ControlFlow::Continue(())
    }
}
