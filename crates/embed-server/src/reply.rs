//! Bodies of answers, written without a tree of values and only as fast as they are read.
//!
//! A large answer is kept as rows of numbers and turned into text a piece at a time, when the connection
//! has room for the next piece: its text is three to ten times as large.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use base64_simd::{Out, STANDARD};
use embed_batcher::EmbeddedRow;

use crate::budget::Share;

/// How a row is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// An array of numbers, each in the shortest form that reads back as the same `f32`.
    #[default]
    Float,
    /// A string: base64 of the numbers as little-endian `f32`.
    Base64,
}

/// What stands around the rows.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// In front of the first row.
    pub(crate) start: Cow<'static, str>,
    /// In front of each row, with its position if there is a field for it.
    pub(crate) before_row: RowStart,
    /// Behind each row.
    pub(crate) after_row: &'static str,
    /// Behind the last row.
    pub(crate) end: Cow<'static, str>,
}

/// What stands in front of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowStart {
    Plain,
    /// OpenAI's object, with the position of the row in it.
    Indexed,
}

/// An answer of rows. Whatever is written before `share` is dropped counts as memory in use.
pub(crate) fn rows(
    rows: Vec<EmbeddedRow>,
    encoding: Encoding,
    frame: Frame,
    share: Share,
) -> Response {
    let zero_rows = rows.iter().filter(|row| row.info.kept == 0).count();
    let mut body = RowsBody { rows, encoding, frame, next: 0, is_done: false, _share: share };
    let mut piece = Vec::new();
    body.fill(&mut piece);
    let body = if body.is_done {
        Body::from(piece)
    } else {
        Body::new(Rest { piece, body, has_yielded: false })
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if zero_rows > 0 {
        headers.insert("x-embed-zero-rows", zero_rows.into());
    }
    response
}

/// An answer of JSON that is there already. It counts as memory in use until `share` is dropped.
pub(crate) fn page(page: String, share: Share) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let body = Page { rest: page.into(), _share: share };
    (headers, Body::new(body)).into_response()
}

/// A body that is handed over piece by piece, so that what is not sent yet stays counted.
struct Page {
    rest: Bytes,
    _share: Share,
}

impl HttpBody for Page {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let len = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(len);
        Poll::Ready((len > 0).then(|| Ok(hyper::body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// A piece is handed over once it has so many bytes.
pub(crate) const PIECE: usize = 1 << 15;

struct RowsBody {
    rows: Vec<EmbeddedRow>,
    encoding: Encoding,
    frame: Frame,
    next: usize,
    is_done: bool,
    _share: Share,
}

impl RowsBody {
    /// Appends rows until there is enough for a piece, or nothing left.
    fn fill(&mut self, out: &mut Vec<u8>) {
        let width = self.rows.first().map_or(0, |row| row.values.len());
        let bytes_of_row = match self.encoding {
            Encoding::Float => 13 * width + 80,
            Encoding::Base64 => width.div_ceil(3) * 16 + 64,
        };
        // Nearly always enough; where it is not, the piece moves once.
        let rows = (bytes_of_row * (self.rows.len() - self.next)).min(PIECE + bytes_of_row);
        let around = self.frame.start.len() + self.frame.end.len();
        out.reserve(around + rows + embed_decimal::HEADROOM);
        if self.next == 0 {
            out.extend_from_slice(self.frame.start.as_bytes());
        }
        while self.next < self.rows.len() && out.len() < PIECE {
            if self.next > 0 {
                out.push(b',');
            }
            if let RowStart::Indexed = self.frame.before_row {
                out.extend_from_slice(br#"{"object":"embedding","index":"#);
                out.extend_from_slice(itoa::Buffer::new().format(self.next).as_bytes());
                out.extend_from_slice(br#","embedding":"#);
            }
            write_row(&self.rows[self.next].values, self.encoding, out);
            out.extend_from_slice(self.frame.after_row.as_bytes());
            self.next += 1;
        }
        if self.next == self.rows.len() {
            out.extend_from_slice(self.frame.end.as_bytes());
            self.is_done = true;
        }
    }
}

/// Appends one row.
fn write_row(values: &[f32], encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Float => embed_decimal::write_array(values, out),
        Encoding::Base64 => write_base64(values, out),
    }
}

/// Appends a row as a string of base64.
fn write_base64(values: &[f32], out: &mut Vec<u8>) {
    // So many values make whole groups of three bytes: only the last block is padded.
    const BLOCK: usize = 48;
    let mut bytes = [0; BLOCK * size_of::<f32>()];
    out.push(b'"');
    for block in values.chunks(BLOCK) {
        let bytes = &mut bytes[..size_of_val(block)];
        for (place, value) in bytes.chunks_exact_mut(size_of::<f32>()).zip(block) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let start = out.len();
        out.resize(start + STANDARD.encoded_length(bytes.len()), 0);
        let _ = STANDARD.encode(bytes, Out::from_slice(&mut out[start..]));
    }
    out.push(b'"');
}

/// A body whose first piece is written and whose others follow when they are asked for.
///
/// Between two pieces it lets others go first: turning a thousand rows into text takes milliseconds, and
/// somebody may be waiting for one row on the same thread.
struct Rest {
    piece: Vec<u8>,
    body: RowsBody,
    has_yielded: bool,
}

impl HttpBody for Rest {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.piece.is_empty() {
            if this.body.is_done {
                return Poll::Ready(None);
            }
            this.has_yielded = !this.has_yielded;
            if this.has_yielded {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            this.body.fill(&mut this.piece);
        }
        let piece = std::mem::take(&mut this.piece);
        Poll::Ready(Some(Ok(hyper::body::Frame::data(piece.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use base64::Engine as _;
    use embed_core::RowInfo;
    use http_body_util::BodyExt as _;

    fn row(values: &[f32]) -> EmbeddedRow {
        EmbeddedRow { values: values.into(), info: RowInfo { kept: 1, ..RowInfo::default() } }
    }

    async fn written(input: Vec<EmbeddedRow>, encoding: Encoding) -> serde_json::Value {
        let frame = Frame {
            start: "[".into(),
            before_row: RowStart::Indexed,
            after_row: "}",
            end: "]".into(),
        };
        let share = Budget::new(1).nothing();
        let response = rows(input, encoding, frame, share);
        let body = response.into_body().collect().await.expect("no error").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    #[tokio::test]
    async fn numbers_read_back_in_every_bit() {
        let values = [
            0.0,
            -0.0,
            1.0,
            -1.5e-39,
            f32::MIN_POSITIVE,
            f32::MAX,
            0.1,
            0.012_345_679,
            -1.234_567_9e-30,
            1e7,
            -123_456.79,
            f32::from_bits(1),
        ];
        let written = written(vec![row(&values)], Encoding::Float).await;
        let read: Vec<u32> = written[0]["embedding"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|number| number.to_string().parse::<f32>().expect("a number").to_bits())
            .collect();
        assert_eq!(read, values.map(f32::to_bits));
    }

    #[tokio::test]
    async fn base64_is_of_little_endian_floats() {
        let written = written(vec![row(&[1.0, -2.0])], Encoding::Base64).await;
        assert_eq!(written[0]["embedding"], "AACAPwAAAMA=");
    }

    #[test]
    fn rows_of_any_width_are_the_base64_of_their_bytes() {
        for width in 0..=150_u16 {
            let values: Vec<f32> = (0..width).map(|n| 0.1 - f32::from(n)).collect();
            let bytes: Vec<u8> = values.iter().copied().flat_map(f32::to_le_bytes).collect();
            let mut text = b"in front ".to_vec();
            write_base64(&values, &mut text);
            let expected = base64::engine::general_purpose::STANDARD.encode(bytes);
            assert_eq!(text, format!("in front \"{expected}\"").as_bytes(), "{width} values");
        }
    }

    #[tokio::test]
    async fn large_answers_come_in_pieces_and_whole() {
        for encoding in [Encoding::Float, Encoding::Base64] {
            let many: Vec<_> = (0..3000_u16).map(|n| row(&[f32::from(n); 20])).collect();
            let written = written(many, encoding).await;
            let rows = written.as_array().expect("an array");
            assert_eq!(rows.len(), 3000);
            assert!(rows.iter().enumerate().all(|(index, row)| row["index"] == index));
        }
    }
}
