//! Rows as JSON, one a line, always with the same fields in the same order.
//!
//! Values are written in the shortest decimal form that reads back as the same `f32`. SCHEMA.md at the
//! root of the repository describes the fields.

use std::path::{Path, PathBuf};

use embed_core::RowInfo;

use super::{Destination, Row, RowWriter};
use crate::error::{Error, Skipped};

/// Writes rows as JSONL.
#[derive(Debug)]
pub struct JsonlWriter {
    destination: Destination,
    model_id: String,
    line: Vec<u8>,
}

impl JsonlWriter {
    /// Writes to `destination`; every row names the model.
    pub fn new(destination: Destination, model_id: &str) -> Self {
        Self { destination, model_id: model_id.to_owned(), line: Vec::new() }
    }
}

impl RowWriter for JsonlWriter {
    fn write_row(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.line.clear();
        write_fields(&mut self.line, row, &self.model_id);
        self.line.extend_from_slice(b",\"vector\":");
        write_vector(&mut self.line, row.vector);
        self.line.extend_from_slice(b"}\n");
        self.destination.write(&self.line)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        self.destination.commit()
    }
}

/// Writes one text of a list as a JSON line.
///
/// # Errors
///
/// [`Error::NonFinite`] if the vector is not finite, [`Error::Write`].
pub fn write_text_row(
    destination: &mut Destination,
    index: usize,
    text: &str,
    model_id: &str,
    info: &RowInfo,
    vector: &[f32],
) -> Result<(), Error> {
    if !vector.iter().all(|value| value.is_finite()) {
        let path = PathBuf::from(format!("text {index}"));
        return Err(Error::NonFinite { path, chunk: 0 });
    }
    let zero = vector.iter().all(|&value| value == 0.0);
    let mut line = format!(
        "{{\"index\":{index},\"text_hash\":\"{}\",\"model\":\"{model_id}\",\
         \"tokens\":{},\"truncated\":{},\"zero\":{zero},\"vector\":",
        blake3::hash(text.as_bytes()).to_hex(),
        info.tokens,
        info.truncated,
    )
    .into_bytes();
    write_vector(&mut line, vector);
    line.extend_from_slice(b"}\n");
    destination.write(&line)
}

/// Writes an input that was left out as a JSON line.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_skipped(destination: &mut Destination, skipped: &Skipped) -> Result<(), Error> {
    let mut line = b"{\"path\":".to_vec();
    write_path(&mut line, &skipped.path);
    let reason = serde_json::Value::from(skipped.reason.to_string());
    line.extend_from_slice(format!(",\"reason\":{reason}}}\n").as_bytes());
    destination.write(&line)
}

/// Writes everything about a row but the vector, without the closing brace.
pub(super) fn write_fields(line: &mut Vec<u8>, row: &Row<'_>, model_id: &str) {
    use std::io::Write as _;
    const FITS: &str = "a Vec takes any bytes";
    line.extend_from_slice(b"{\"path\":");
    write_path(line, row.path);
    let chunk = row.chunk;
    write!(
        line,
        ",\"chunk\":{},\"bytes\":[{},{}],\"lines\":[{},{}],\"text_hash\":\"{}\",\"model\":\"{model_id}\",\
         \"tokens\":{},\"truncated\":{},\"zero\":{}",
        chunk.number,
        chunk.bytes.start,
        chunk.bytes.end,
        chunk.lines.0,
        chunk.lines.1,
        chunk.hash.to_hex(),
        row.tokens,
        row.truncated,
        row.zero,
    )
    .expect(FITS);
}

/// A path as a string, and the exact bytes in hexadecimal beside it if it is no UTF-8.
fn write_path(line: &mut Vec<u8>, path: &Path) {
    const FITS: &str = "a Vec takes any bytes and a string is always JSON";
    serde_json::to_writer(&mut *line, &path.to_string_lossy()).expect(FITS);
    if path.to_str().is_none() {
        line.extend_from_slice(b",\"path_bytes\":\"");
        for byte in path.as_os_str().as_encoded_bytes() {
            line.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        line.push(b'"');
    }
}

/// Writes a vector as a JSON array. The values must be finite.
fn write_vector(line: &mut Vec<u8>, vector: &[f32]) {
    debug_assert!(vector.iter().all(|value| value.is_finite()), "JSON has no NaN");
    embed_decimal::write_array(vector, line);
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;
    use crate::chunk::Chunk;

    fn line(path: &Path, vector: &[f32]) -> String {
        let chunk = Chunk {
            number: 3,
            text: "x".into(),
            bytes: 10..11,
            lines: (2, 2),
            hash: blake3::hash(b"x"),
            clipped: false,
        };
        let row = Row { path, chunk: &chunk, tokens: 1, truncated: false, zero: false, vector };
        let mut line = Vec::new();
        write_fields(&mut line, &row, "m");
        String::from_utf8(line).expect("JSON is UTF-8")
    }

    #[test]
    fn fields_have_a_fixed_order() {
        let hash = blake3::hash(b"x").to_hex();
        let expected = format!(
            "{{\"path\":\"a \\\"b\\\".txt\",\"chunk\":3,\"bytes\":[10,11],\"lines\":[2,2],\
             \"text_hash\":\"{hash}\",\"model\":\"m\",\"tokens\":1,\"truncated\":false,\"zero\":false"
        );
        assert_eq!(line(Path::new("a \"b\".txt"), &[]), expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_no_utf8_is_kept_in_bytes() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(OsStr::from_bytes(b"a\xFF"));
        assert!(
            line(path, &[])
                .starts_with("{\"path\":\"a\u{fffd}\",\"path_bytes\":\"61ff\",\"chunk\"")
        );
    }

    proptest! {
        #[test]
        fn values_read_back_as_the_same_bits(mut bits: [u32; 40], width in 0..40_usize) {
            bits.iter_mut().filter(|bits| !f32::from_bits(**bits).is_finite()).for_each(|bits| *bits = 0);
            let vector = &bits.map(f32::from_bits)[..width];
            let mut text = Vec::new();
            write_vector(&mut text, vector);
            let read: Vec<serde_json::Number> = serde_json::from_slice(&text).expect("JSON");
            let read = read.iter().map(|number| number.to_string().parse::<f32>().expect("a number"));
            prop_assert_eq!(read.map(f32::to_bits).collect::<Vec<_>>(), &bits[..width]);
        }
    }
}
