//! Rows as a NumPy array, with a file beside it that says what each row is.
//!
//! `OUT` is an `.npy` file of version 1.0: a 128-byte header and then `[rows, dim]` little-endian `f32`,
//! row-major. Line `i` of the ids file describes row `i` with the fields of the JSONL format, less the
//! vector. The format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::path::{Path, PathBuf};

use super::jsonl::write_fields;
use super::{Destination, Row, RowWriter, Temporaries};
use crate::error::Error;

/// Room for the number of rows, which is known only at the end.
const HEADER_BYTES: usize = 128;

/// Writes rows as `.npy` with ids beside it.
#[derive(Debug)]
pub struct NpyWriter {
    array: Destination,
    ids: Destination,
    model_id: String,
    dim: usize,
    rows: u64,
    buffer: Vec<u8>,
}

impl NpyWriter {
    /// Writes rows of `dim` values to `path`, and what they are to [`ids_path`](Self::ids_path).
    ///
    /// # Errors
    ///
    /// [`Error::NotSeekable`] if `path` is a pipe or a device, [`Error::Write`] if one of the files
    /// cannot be created.
    pub fn create(
        path: &Path,
        dim: usize,
        model_id: &str,
        temporaries: &Temporaries,
    ) -> Result<Self, Error> {
        if Destination::is_written_through(path) {
            return Err(Error::NotSeekable { path: path.to_owned() });
        }
        let mut array = Destination::create(path, temporaries)?;
        let ids = Destination::create(&Self::ids_path(path), temporaries)?;
        array.write(&header(0, dim))?;
        Ok(Self { array, ids, model_id: model_id.to_owned(), dim, rows: 0, buffer: Vec::new() })
    }

    /// `vectors.npy` has its ids in `vectors.ids.jsonl`; another extension stays: `v.1` has `v.1.ids.jsonl`.
    pub fn ids_path(path: &Path) -> PathBuf {
        let is_npy =
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        let stem = if is_npy { path.with_extension("") } else { path.to_owned() };
        let mut name = stem.into_os_string();
        name.push(".ids.jsonl");
        name.into()
    }
}

impl RowWriter for NpyWriter {
    fn write_row(&mut self, row: &Row<'_>) -> Result<(), Error> {
        debug_assert_eq!(row.vector.len(), self.dim, "all rows have one width");
        self.buffer.clear();
        self.buffer.extend(row.vector.iter().flat_map(|value| value.to_le_bytes()));
        self.array.write(&self.buffer)?;

        self.buffer.clear();
        write_fields(&mut self.buffer, row, &self.model_id);
        self.buffer.extend_from_slice(b"}\n");
        self.ids.write(&self.buffer)?;
        self.rows += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.array.overwrite_start(&header(self.rows, self.dim))?;
        // Whatever can fail for want of space happens before the first of the two is renamed.
        self.array.sync()?;
        self.ids.sync()?;
        self.ids.commit()?;
        self.array.commit()
    }
}

fn header(rows: u64, dim: usize) -> Vec<u8> {
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(HEADER_BYTES - header.len() - 2).expect("a small number");
    header.extend(length.to_le_bytes());
    header.extend(
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dim}), }}").bytes(),
    );
    // 20 digits of rows and 20 of dim would still fit.
    header.resize(HEADER_BYTES - 1, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_its_size_whatever_the_shape() {
        for (rows, dim) in [(0, 1), (7, 256), (u64::MAX, usize::MAX)] {
            let header = header(rows, dim);
            assert_eq!((header.len(), header.last()), (128, Some(&b'\n')));
            let text = String::from_utf8_lossy(&header);
            assert!(text.contains(&format!("'shape': ({rows}, {dim}), }}")));
        }
    }

    #[test]
    fn ids_lie_beside_the_array() {
        assert_eq!(NpyWriter::ids_path(Path::new("d/v.npy")), Path::new("d/v.ids.jsonl"));
        assert_eq!(NpyWriter::ids_path(Path::new("v.1")), Path::new("v.1.ids.jsonl"));
    }
}
