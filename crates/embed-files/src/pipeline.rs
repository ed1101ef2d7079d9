//! Sources to rows: read, cut, embed in batches, hand over in order.
//!
//! Rows come in the order of the sources and, within one, of its chunks. Chunks of several small files
//! share a batch; a batch is bounded in rows and in bytes of text, so that memory stays flat.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use embed_core::{Embedder, EncodeOptions, Input, RowInfo};

use crate::chunk::{Chunk, Chunker, Chunking};
use crate::error::{Error, SkipReason, Skipped};
use crate::output::{Row, RowWriter};
use crate::stream::{Invalid, TextStream};
use crate::walk::STDIN;

/// Rows of one call of the embedder.
const BATCH_ROWS: usize = 1024;

/// Text of one call of the embedder, unless a single text is larger.
const BATCH_BYTES: usize = 1 << 20;

/// How sources become rows.
#[derive(Clone, Debug)]
pub struct Job {
    /// How files are cut.
    pub chunking: Chunking,
    /// How texts are embedded.
    pub options: EncodeOptions,
    /// The largest text in bytes; of a larger one only the beginning is embedded.
    pub max_text_bytes: NonZeroUsize,
    /// How many characters of a text the model looks at, if it does not look at all of them: a text
    /// that is clipped behind them loses nothing.
    pub max_chars: Option<usize>,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Summary {
    /// Sources that gave at least one row or were read to their end.
    pub sources: u64,
    /// Rows written.
    pub rows: u64,
    /// Tokens of all texts, unknown ones included.
    pub tokens: u64,
    /// Tokens that the vocabulary does not know.
    pub unknown_tokens: u64,
    /// Rows of zeros.
    pub zero_rows: u64,
    /// Rows of texts of which the model saw only a part.
    pub truncated_rows: u64,
    /// Rows of texts that were larger than the limit for one text, and that the model would have read
    /// beyond it.
    pub clipped_rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Inputs that were left out.
    pub skipped: Vec<Skipped>,
    /// Sources with bytes that are not text, which were replaced.
    pub invalid: Vec<(PathBuf, Invalid)>,
}

/// Embeds `sources` into `writer`. `progress` is called after every batch and source.
///
/// A source that cannot be read, or only in part, is noted in the summary and does not end the run.
///
/// # Errors
///
/// [`Error`] if the output cannot be written or the embedder fails.
pub fn run(
    sources: &[PathBuf],
    job: &Job,
    embedder: &dyn Embedder,
    writer: &mut dyn RowWriter,
    progress: &mut dyn FnMut(&Summary),
) -> Result<Summary, Error> {
    let mut batch = Batch::new(job, embedder)?;
    let mut summary = Summary::default();
    for path in sources {
        let opened: io::Result<Box<dyn Read>> = if path == Path::new(STDIN) {
            Ok(Box::new(io::stdin().lock()))
        } else {
            File::open(path).map(|file| Box::new(file) as Box<dyn Read>)
        };
        match opened {
            Ok(reader) => source(path, reader, &mut batch, writer, &mut summary, progress)?,
            Err(error) => skip(path, SkipReason::Unreadable(error), &mut summary),
        }
        progress(&summary);
    }
    batch.flush(writer, &mut summary)?;
    progress(&summary);
    Ok(summary)
}

fn skip(path: &Path, reason: SkipReason, summary: &mut Summary) {
    summary.skipped.push(Skipped::new(path, reason));
}

/// Reads one source to its end.
fn source(
    path: &Path,
    reader: Box<dyn Read>,
    batch: &mut Batch<'_>,
    writer: &mut dyn RowWriter,
    summary: &mut Summary,
    progress: &mut dyn FnMut(&Summary),
) -> Result<(), Error> {
    let stream = match TextStream::open(reader) {
        Ok(Some(stream)) => stream,
        Ok(None) => {
            skip(path, SkipReason::Binary, summary);
            return Ok(());
        }
        Err(error) => {
            skip(path, SkipReason::Unreadable(error), summary);
            return Ok(());
        }
    };
    let path: Rc<Path> = Rc::from(path);
    let bytes_before = summary.bytes;
    let mut chunker = Chunker::new(stream, batch.job.chunking, batch.job.max_text_bytes);
    loop {
        let chunk = chunker.next_chunk();
        summary.bytes = bytes_before + chunker.stream().position().byte;
        match chunk {
            Ok(Some(chunk)) => {
                batch.push(Rc::clone(&path), chunk);
                if batch.is_full() {
                    batch.flush(writer, summary)?;
                    progress(summary);
                }
            }
            Ok(None) => break,
            Err(error) => {
                skip(&path, SkipReason::Unreadable(error), summary);
                break;
            }
        }
    }
    let invalid = chunker.stream().invalid();
    if invalid.count > 0 {
        summary.invalid.push((path.to_path_buf(), invalid));
    }
    summary.sources += 1;
    Ok(())
}

/// Chunks that wait to be embedded together.
struct Batch<'a> {
    job: &'a Job,
    embedder: &'a dyn Embedder,
    dim: usize,
    chunks: Vec<(Rc<Path>, Chunk)>,
    bytes: usize,
    /// Buffers of the embedder, used again for every batch.
    values: Vec<f32>,
    info: Vec<RowInfo>,
}

impl<'a> Batch<'a> {
    fn new(job: &'a Job, embedder: &'a dyn Embedder) -> Result<Self, Error> {
        let dim = embedder.output_dim(&job.options).map_err(Error::Options)?;
        let (chunks, values, info) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { job, embedder, dim, chunks, bytes: 0, values, info })
    }

    fn push(&mut self, path: Rc<Path>, chunk: Chunk) {
        self.bytes += chunk.text.len();
        self.chunks.push((path, chunk));
    }

    fn is_full(&self) -> bool {
        self.chunks.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// Embeds and writes what is there.
    fn flush(&mut self, writer: &mut dyn RowWriter, summary: &mut Summary) -> Result<(), Error> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let inputs: Vec<Input<'_>> =
            self.chunks.iter().map(|(_, chunk)| Input::Text(&chunk.text)).collect();
        self.values.resize(inputs.len() * self.dim, 0.0);
        self.info.resize(inputs.len(), RowInfo::default());
        self.embedder
            .embed_into(&inputs, &self.job.options, &mut self.values, &mut self.info)
            .map_err(|source| {
                let (path, chunk) = &self.chunks[source.input().unwrap_or(0)];
                Error::Embed { path: path.to_path_buf(), chunk: chunk.number, source }
            })?;

        let rows = self.values.chunks_exact(self.dim).zip(&self.info);
        for ((path, chunk), (vector, info)) in self.chunks.drain(..).zip(rows) {
            if !vector.iter().all(|value| value.is_finite()) {
                return Err(Error::NonFinite { path: path.to_path_buf(), chunk: chunk.number });
            }
            let row = Row {
                path: &path,
                chunk: &chunk,
                tokens: info.tokens,
                truncated: info.truncated || chunk.clipped,
                zero: vector.iter().all(|&value| value == 0.0),
                vector,
            };
            writer.write_row(&row)?;
            summary.rows += 1;
            summary.tokens += info.tokens as u64;
            summary.unknown_tokens += info.unknown as u64;
            summary.zero_rows += u64::from(row.zero);
            summary.truncated_rows += u64::from(row.truncated);
            summary.clipped_rows += u64::from(chunk.clipped && self.job.reads_beyond(&chunk.text));
        }
        self.bytes = 0;
        Ok(())
    }
}

impl Job {
    /// Whether the model would have looked at more of a text than this beginning of it.
    fn reads_beyond(&self, beginning: &str) -> bool {
        self.max_chars.is_none_or(|max_chars| beginning.chars().nth(max_chars).is_none())
    }
}
