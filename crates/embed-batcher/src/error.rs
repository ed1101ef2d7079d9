//! What a caller of a batcher can get instead of rows.

use std::sync::Arc;
use std::time::Duration;

/// Why a request has no rows. `E` is the error of the backend.
///
/// It is `Clone`: where many callers wait for one batch, each gets the same error, and the backend's
/// own stands behind it unchanged, as `source()`, for downcasting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E: std::error::Error + 'static> {
    /// The backend failed the batch.
    #[error("the backend failed")]
    Backend(#[source] E),
    /// The backend returned another number of rows than it was given items.
    #[error("the backend returned {received} rows for {expected} items")]
    RowCount {
        /// Items in the batch.
        expected: usize,
        /// Rows that came back.
        received: usize,
    },
    /// The backend returned a row of the wrong width.
    #[error("row {row} has {received} values, expected {expected}")]
    RowWidth {
        /// Position of the row in its batch; of the item in the request, where it failed alone.
        row: usize,
        /// The width that was expected.
        expected: usize,
        /// The width that came back.
        received: usize,
    },
    /// The backend returned a value that is not a finite number.
    #[error("row {row} is not finite in column {column}")]
    NotFinite {
        /// Position of the row in its batch; of the item in the request, where it failed alone.
        row: usize,
        /// Position of the value in the row.
        column: usize,
    },
    /// The backend panicked.
    #[error("the backend panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: Arc<str>,
    },
    /// The queue has no room at the moment. Nothing of the request was kept.
    #[error(
        "the queue is full: {queued} {resource} wait and {requested} more exceed {limit}; try again in {retry_after:?}"
    )]
    Overloaded {
        /// What there is too much of.
        resource: Resource,
        /// How much of it waits.
        queued: usize,
        /// How much of it the request needs.
        requested: usize,
        /// How much of it may wait.
        limit: usize,
        /// When there should be room, at the present pace.
        retry_after: Duration,
    },
    /// The request exceeds what may ever wait. It can only succeed in smaller pieces.
    #[error("the request has {requested} {resource}, at most {limit} may wait")]
    TooLarge {
        /// What there is too much of.
        resource: Resource,
        /// How much of it the request needs.
        requested: usize,
        /// How much of it may wait.
        limit: usize,
    },
    /// The deadline of the request passed.
    #[error("the deadline passed before the rows were there")]
    Expired,
    /// The batcher drains: it finishes what it has and takes nothing new.
    #[error("the batcher drains and takes no new requests")]
    Draining,
    /// The batcher has ended.
    #[error("the batcher has ended")]
    Closed,
}

/// A resource of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Items that wait.
    Texts,
    /// The sum of their costs.
    Tokens,
    /// The memory that they take.
    Bytes,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Texts => "texts",
            Self::Tokens => "tokens",
            Self::Bytes => "bytes",
        })
    }
}
