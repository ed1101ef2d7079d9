//! What a batcher needs to know of the thing that it feeds: nearly nothing.

use std::hash::Hash;

use crate::Error;

/// A function from a batch of items to a batch of rows, with its costs and its checks.
///
/// The batcher never looks inside an item or a row. [`EmbedderBackend`](crate::EmbedderBackend)
/// makes a backend of any [`embed_core::Embedder`].
///
/// Every method is called under `catch_unwind`. A panic in [`cost`](Self::cost), [`run`](Self::run) or
/// [`check`](Self::check) fails the request or the batch at hand with [`Error::Panicked`] and nothing
/// else; in the other methods it counts as their default. Hashing, comparing and cloning of items, options
/// and rows happens outside of that, and must not panic.
pub trait Backend: Send + Sync + 'static {
    /// What one row is made of, for example `str`. Equal items under equal options may share a row.
    type Item: ?Sized + Eq + Hash + Send + Sync + 'static;
    /// What a caller may choose for a request. Items of different options never share a batch.
    type Options: Clone + Eq + Hash + Send + Sync + 'static;
    /// What a caller gets. It is cloned where callers share one, so make that cheap.
    type Row: Clone + Send + Sync + 'static;
    /// Why a batch failed. It is cloned to every waiter of the batch.
    type Error: std::error::Error + Clone + Send + Sync + 'static;

    /// What an item costs at most, from a glance at it. Called on the caller's thread, once an item.
    ///
    /// Where tokens mean nothing, any measure of work will do; one for each item makes budgets and fairness
    /// count items.
    fn cost(&self, item: &Self::Item, options: &Self::Options) -> Cost;

    /// Computes one row for each item, in order. `items` is never empty.
    ///
    /// It runs on a thread that may block, except for small requests that find the batcher idle: those run
    /// on the caller's own thread. A backend that waits for a device or a network must not, so set
    /// [`inline_bytes`](crate::BatchConfig::inline_bytes) to zero for it, as
    /// [`BatchConfig::device`](crate::BatchConfig::device) does.
    ///
    /// # Errors
    ///
    /// Whatever can go wrong with the batch as a whole.
    fn run(
        &self,
        items: &[&Self::Item],
        options: &Self::Options,
    ) -> Result<Vec<Self::Row>, Self::Error>;

    /// Checks one row. The number of rows is checked by the batcher itself.
    ///
    /// # Errors
    ///
    /// What is wrong with the row; the whole batch then fails with the matching [`Error`].
    fn check(&self, row: &Self::Row, options: &Self::Options) -> Result<(), RowFault> {
        let _ = (row, options);
        Ok(())
    }

    /// The exact number of tokens behind a row, where the backend knows it.
    fn tokens(&self, row: &Self::Row) -> Option<usize> {
        let _ = row;
        None
    }

    /// Whether a failure is the fault of single items, so that a failed batch is worth splitting.
    ///
    /// Where it is, the batch is run again in halves, in the same slot and under the same hold of the
    /// gate, until the items at fault fail alone. The default isolates nothing.
    fn is_data_dependent(&self, error: &Error<Self::Error>) -> bool {
        let _ = error;
        false
    }

    /// The error of an item that failed alone, as seen by a caller whose item `position` it was.
    ///
    /// Only for errors that carry a position; the default returns the error as it is.
    fn relocate(&self, error: Self::Error, position: usize) -> Self::Error {
        let _ = position;
        error
    }
}

/// What one item costs at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens that the backend will process for it: the unit of the batch budget and of fairness.
    pub tokens: usize,
    /// Memory that the item takes while it waits.
    pub bytes: usize,
}

/// What can be wrong with one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFault {
    /// The row has the wrong number of values.
    Width {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        received: usize,
    },
    /// A value is not a finite number.
    NotFinite {
        /// Where it stands in the row.
        column: usize,
    },
}
