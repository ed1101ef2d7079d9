//! The rows of one request, as they come in.

use crate::backend::Backend;

/// One place for each item of a request, some of them filled from the cache already.
pub(crate) struct Assembly<B: Backend> {
    rows: Vec<Option<B::Row>>,
    /// Where the items that are computed stand among all items of the request.
    positions: Vec<usize>,
    missing: usize,
}

impl<B: Backend> Assembly<B> {
    /// Places for `rows`, of which the empty ones are to be filled.
    pub(crate) fn new(rows: Vec<Option<B::Row>>) -> Self {
        let empty = rows.iter().enumerate().filter(|(_, row)| row.is_none());
        let positions: Vec<usize> = empty.map(|(position, _)| position).collect();
        Self { rows, missing: positions.len(), positions }
    }

    /// Items to compute.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Items that have no row yet.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Where the computed item `index` stands in the request.
    pub(crate) fn position(&self, index: usize) -> usize {
        self.positions[index]
    }

    /// Puts the row of the computed item `index` in its place.
    pub(crate) fn put(&mut self, index: usize, row: B::Row) {
        if self.rows[self.positions[index]].replace(row).is_none() {
            self.missing -= 1;
        }
    }

    /// The rows, once none is missing.
    pub(crate) fn into_rows(self) -> Vec<B::Row> {
        self.rows.into_iter().flatten().collect()
    }
}
