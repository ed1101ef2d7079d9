//! `embed files`: files and folders to rows.

use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use embed_core::Embedder as _;
use embed_files::SkipReason;
use embed_files::output::{
    Destination, JsonlWriter, NpyWriter, RowWriter, Temporaries, write_skipped,
};
use embed_files::pipeline::{self, Job, Summary};
use embed_files::walk::{self, OutputFiles};
use embed_model2vec::{ModelOptions, StaticModel};
use indicatif::{ProgressBar, ProgressStyle};

use super::{warn_if_unknown, were};
use crate::cli::{FilesArgs, Format, GlobalArgs};
use crate::console::{Console, count, size};
use crate::exit_code::Outcome;
use crate::{interrupt, model};

/// Warnings of one kind that are shown on the terminal; the report names all skipped inputs.
const SHOWN_WARNINGS: usize = 20;

#[expect(clippy::disallowed_methods, reason = "the time is told to the user and decides nothing")]
pub(crate) fn run(args: &FilesArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let started = Instant::now();
    let temporaries = interrupt::clean_up_on_signal()?;
    let outputs = Outputs::of(args)?;
    let options = global.encode_options();

    let processors = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = args.threads.unwrap_or_else(processors);
    let model_options = ModelOptions::default()
        .with_max_text_bytes(args.max_text_bytes.get())
        .with_threads(threads);
    let model = model::open_with(None, model_options, global, console)?;

    let walk_options = walk::WalkOptions {
        hidden: args.hidden,
        no_ignore: args.no_ignore,
        globs: args.glob.clone(),
    };
    let sources = walk::find(&args.paths, &OutputFiles::new(outputs.files()), &walk_options)?;
    console.detail(&format!("{} found", count(sources.paths.len() as u64, "file")));
    if sources.paths.is_empty() && sources.skipped.is_empty() {
        console.warn(
            "no files found: ignored and hidden files are left out (--no-ignore, --hidden), and so are links",
        );
    }

    let job = Job {
        chunking: args.chunk,
        max_chars: model.max_chars(&options),
        max_text_bytes: args.max_text_bytes,
        options,
    };
    let mut writer = outputs.writer(&model, &temporaries)?;
    let create = |path: &PathBuf| Destination::create(path, &temporaries);
    let report = args.report.as_ref().map(create).transpose()?;
    let progress = Progress::start(&sources.paths, console);
    let mut summary = pipeline::run(&sources.paths, &job, &model, &mut *writer, &mut |so_far| {
        progress.show(so_far);
    })?;
    progress.end();
    summary.skipped.splice(0..0, sources.skipped);
    if let Some(mut report) = report {
        for skipped in &summary.skipped {
            write_skipped(&mut report, skipped)?;
        }
        report.commit()?;
    }
    // A typing error must not replace an earlier output by an empty one.
    let nothing_read = summary.rows == 0 && !summary.skipped.is_empty();
    if !nothing_read {
        writer.finish()?;
    }
    tell(&summary, args, started.elapsed(), console);
    ensure!(!nothing_read, "none of the inputs could be read");
    Ok(if !summary.skipped.is_empty() || summary.clipped_rows > 0 {
        Outcome::Incomplete
    } else if summary.rows == 0 {
        Outcome::NothingToDo
    } else {
        Outcome::Done
    })
}

/// Where rows go, and in which format.
struct Outputs {
    format: Format,
    /// `None` is standard output.
    rows: Option<PathBuf>,
    /// The file beside an array.
    ids: Option<PathBuf>,
    report: Option<PathBuf>,
}

impl Outputs {
    fn of(args: &FilesArgs) -> Result<Self> {
        let rows = args.output.clone().filter(|path| path != Path::new("-"));
        let format = format(args.format, rows.as_deref())?;
        let ids = match (&rows, format) {
            (Some(path), Format::Npy) => Some(NpyWriter::ids_path(path)),
            _ => None,
        };
        let outputs = Self { format, rows, ids, report: args.report.clone() };
        let mut places: Vec<PathBuf> = outputs.files().map(place).collect();
        places.sort();
        for pair in places.windows(2) {
            ensure!(pair[0] != pair[1], "two outputs would be written to {}", pair[0].display());
        }
        Ok(outputs)
    }

    /// All files that are written.
    fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.rows, &self.ids, &self.report].into_iter().flatten().map(PathBuf::as_path)
    }

    fn writer(&self, model: &StaticModel, temporaries: &Temporaries) -> Result<Box<dyn RowWriter>> {
        let id = model.model_id();
        Ok(match (&self.rows, self.format) {
            (Some(path), Format::Npy) => {
                Box::new(NpyWriter::create(path, model.dim(), id, temporaries)?)
            }
            (Some(path), Format::Jsonl) => {
                Box::new(JsonlWriter::new(Destination::create(path, temporaries)?, id))
            }
            (None, _) => Box::new(JsonlWriter::new(Destination::stdout()?, id)),
        })
    }
}

/// The format that is asked for, or that the output's extension names.
fn format(asked: Option<Format>, rows: Option<&Path>) -> Result<Format> {
    let extension = rows.and_then(Path::extension).and_then(OsStr::to_str).map(str::to_lowercase);
    match (asked, extension.as_deref()) {
        (Some(Format::Npy), _) if rows.is_none() => {
            bail!("npy needs a file to write to: give one with --output FILE.npy")
        }
        (Some(format), _) => Ok(format),
        (None, Some("npy")) => Ok(Format::Npy),
        (None, None | Some("jsonl" | "ndjson" | "json")) => Ok(Format::Jsonl),
        (None, Some(other)) => {
            bail!(
                "the extension .{other} names no format: expected .jsonl or .npy, or say --format"
            )
        }
    }
}

/// One name for the place of a file that need not exist.
fn place(path: &Path) -> PathBuf {
    let canonical = fs::canonicalize(path).ok();
    canonical.or_else(|| std::path::absolute(path).ok()).unwrap_or_else(|| path.to_owned())
}

/// Says what was done, what was left out, and what to mind.
fn tell(summary: &Summary, args: &FilesArgs, elapsed: Duration, console: Console) {
    let skipped = summary.skipped.iter().map(|skipped| format!("skipped {skipped}"));
    warn_of_each(skipped, |more| format!("skipped {more} more: see --report"), console);
    let invalid = summary.invalid.iter().map(|(path, invalid)| {
        format!(
            "{}: {} not valid in its encoding and replaced, the first at byte {}",
            path.display(),
            were(invalid.count, "sequence"),
            invalid.first_byte
        )
    });
    let more_files = |more| format!("invalid bytes were replaced in {}", count(more, "more file"));
    warn_of_each(invalid, more_files, console);
    if summary.clipped_rows > 0 {
        console.warn(&format!(
            "{} larger than {}, and only that much embedded: see --max-text-bytes and --chunk",
            were(summary.clipped_rows, "text"),
            size(args.max_text_bytes.get() as u64),
        ));
    }
    warn_if_unknown(
        summary.rows,
        summary.zero_rows,
        summary.tokens,
        summary.unknown_tokens,
        console,
    );
    let if_any = |number: u64, noun: &str, what: &str| match number {
        0 => String::new(),
        number => format!(", {} {what}", count(number, noun)),
    };
    let truncated = if_any(summary.truncated_rows, "text", "cut to the token limit");
    let skipped = if_any(summary.skipped.len() as u64, "input", "skipped");
    console.note(&format!(
        "{} of {} ({}, {}) in {elapsed:.1?}{truncated}{skipped}",
        count(summary.rows, "vector"),
        count(summary.sources, "file"),
        size(summary.bytes),
        count(summary.tokens, "token"),
    ));
    console.detail(&format!(
        "{} truncated, {} zero, {} unknown",
        count(summary.truncated_rows, "vector"),
        summary.zero_rows,
        count(summary.unknown_tokens, "token"),
    ));
    if summary.skipped.iter().any(|skipped| matches!(skipped.reason, SkipReason::Binary)) {
        console.detail("binary files can be left out with -g '!*.EXTENSION' or an .ignore file");
    }
}

/// The first few warnings, and one that counts the others.
fn warn_of_each(
    mut messages: impl ExactSizeIterator<Item = String>,
    others: impl Fn(u64) -> String,
    console: Console,
) {
    for message in messages.by_ref().take(SHOWN_WARNINGS) {
        console.warn(&message);
    }
    if messages.len() > 0 {
        console.warn(&others(messages.len() as u64));
    }
}

/// A bar on a terminal, nothing elsewhere.
struct Progress(ProgressBar);

impl Progress {
    fn start(sources: &[PathBuf], console: Console) -> Self {
        if !console.shows_progress() {
            return Self(ProgressBar::hidden());
        }
        let bytes =
            sources.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
        let bar = ProgressBar::new(bytes);
        let template = "{bar:30} {bytes}/{total_bytes} ({bytes_per_sec}) {msg}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is valid"));
        Self(bar)
    }

    fn show(&self, so_far: &Summary) {
        if self.0.is_hidden() {
            return;
        }
        let rate = so_far.rows as f64 / self.0.elapsed().as_secs_f64().max(1e-3);
        self.0.set_message(format!("{} ({rate:.0}/s)", count(so_far.rows, "vector")));
        self.0.set_position(so_far.bytes);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
