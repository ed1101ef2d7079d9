//! The rows of one request, as they come in.

use crate::backend::Backend;
use crate::planner::Few;

/// The rows of a request.
pub(crate) type Rows<B> = Few<<B as Backend>::Row>;

/// One place for each item of a request, some of them filled from the cache already.
pub(crate) struct Assembly<B: Backend> {
    rows: Few<Option<B::Row>>,
    /// Where the items that are computed stand among all items of the request, if not at their own place.
    positions: Option<Vec<usize>>,
    missing: usize,
}

impl<B: Backend> Assembly<B> {
    /// Places for so many rows.
    pub(crate) fn empty(len: usize) -> Self {
        let rows = std::iter::repeat_with(|| None).take(len).collect();
        Self { rows, positions: None, missing: len }
    }

    /// Places for `rows`, of which the empty ones are to be filled.
    pub(crate) fn partial(rows: Few<Option<B::Row>>) -> Self {
        let empty = rows.iter().enumerate().filter(|(_, row)| row.is_none());
        let positions: Vec<usize> = empty.map(|(position, _)| position).collect();
        Self { rows, missing: positions.len(), positions: Some(positions) }
    }

    /// Items to compute.
    pub(crate) fn len(&self) -> usize {
        self.positions.as_ref().map_or(self.rows.len(), Vec::len)
    }

    /// Items that have no row yet.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Where the computed item `index` stands in the request.
    pub(crate) fn position(&self, index: usize) -> usize {
        self.positions.as_ref().map_or(index, |positions| positions[index])
    }

    /// Puts the row of the computed item `index` in its place.
    pub(crate) fn put(&mut self, index: usize, row: B::Row) {
        let position = self.position(index);
        if self.rows[position].replace(row).is_none() {
            self.missing -= 1;
        }
    }

    /// The rows, once none is missing.
    pub(crate) fn into_rows(self) -> Rows<B> {
        self.rows.into_iter().flatten().collect()
    }
}
