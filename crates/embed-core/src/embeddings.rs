//! The result of a batch: one flat buffer, looked at row by row.

use std::slice::ChunksExact;

use crate::Error;

/// Embedding vectors of a batch: `[rows, dim]`, row-major, `f32`, in one allocation.
///
/// Row `i` belongs to input `i`. The width is at least 1; there may be no rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    values: Vec<f32>,
    dim: usize,
}

impl Embeddings {
    /// Takes a flat row-major buffer of `rows * dim` values.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if `dim` is zero or does not divide the length of `values`.
    pub fn new(values: Vec<f32>, dim: usize) -> Result<Self, Error> {
        if dim == 0 || !values.len().is_multiple_of(dim) {
            return Err(Error::Shape { values: values.len(), dim });
        }
        Ok(Self { values, dim })
    }

    /// The number of values in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Row `index`, `dim` values long.
    ///
    /// # Panics
    ///
    /// If `index >= self.len()`, as slices do.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.dim..(index + 1) * self.dim]
    }

    /// The rows in order.
    pub fn rows(&self) -> ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dim)
    }

    /// The whole buffer, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// The whole buffer, without a copy.
    pub fn into_vec(self) -> Vec<f32> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_views_into_the_flat_buffer() -> Result<(), Error> {
        let embeddings = Embeddings::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3)?;
        assert_eq!((embeddings.len(), embeddings.dim()), (2, 3));
        assert_eq!(embeddings.row(1), [4.0, 5.0, 6.0]);
        assert_eq!(embeddings.rows().count(), 2);
        Ok(())
    }

    #[test]
    fn no_rows_keep_their_width() -> Result<(), Error> {
        let embeddings = Embeddings::new(Vec::new(), 256)?;
        assert!(embeddings.is_empty());
        assert_eq!((embeddings.len(), embeddings.dim(), embeddings.rows().count()), (0, 256, 0));
        Ok(())
    }

    #[test]
    fn a_ragged_buffer_is_refused() {
        assert!(matches!(
            Embeddings::new(vec![0.0; 7], 3),
            Err(Error::Shape { values: 7, dim: 3 })
        ));
        assert!(matches!(Embeddings::new(Vec::new(), 0), Err(Error::Shape { values: 0, dim: 0 })));
    }
}
