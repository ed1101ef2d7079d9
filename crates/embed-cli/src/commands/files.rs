//! `embed files`: files and folders to rows.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use embed_core::Embedder as _;
use embed_files::output::{Destination, JsonlWriter, NpyWriter, RowWriter, Temporaries};
use embed_files::pipeline::{self, Job, Summary};
use embed_files::{SkipReason, Skipped, walk};
use embed_model2vec::{ModelOptions, StaticModel};
use indicatif::{ProgressBar, ProgressStyle};

use super::warn_if_unknown;
use crate::cli::{FilesArgs, Format, GlobalArgs};
use crate::console::{Console, count, size};
use crate::exit_code::Outcome;
use crate::{interrupt, model};

/// Skipped inputs that are named on the terminal; the report names all.
const SHOWN_SKIPPED: usize = 20;

#[expect(clippy::disallowed_methods, reason = "the time is told to the user and decides nothing")]
pub(crate) fn run(args: &FilesArgs, global: &GlobalArgs, console: Console) -> Result<Outcome> {
    let started = Instant::now();
    let temporaries = interrupt::clean_up_on_signal()?;
    let format = format(args)?;
    let options = global.encode_options();

    let mut model_options = ModelOptions::default();
    model_options.max_text_bytes = model_options.max_text_bytes.max(args.max_text_bytes.get());
    let model = model::open_with(None, model_options, global, console)?;

    let walk_options = walk::WalkOptions {
        hidden: args.hidden,
        no_ignore: args.no_ignore,
        globs: args.glob.clone(),
    };
    let sources = walk::find(&args.paths, &outputs(args, format), &walk_options)?;
    console.detail(&format!("{} found", count(sources.paths.len() as u64, "file")));

    let job = Job {
        chunking: args.chunk,
        max_chars: model.max_chars(&options),
        max_text_bytes: args.max_text_bytes,
        options,
    };
    let mut writer = writer(args, format, &model, &temporaries)?;
    let mut report = match &args.report {
        Some(path) => Some(Destination::create(path, &temporaries)?),
        None => None,
    };
    let progress = Progress::start(&sources.paths, console);
    let mut summary = pipeline::run(&sources.paths, &job, &model, &mut *writer, &mut |so_far| {
        progress.show(so_far);
    })?;
    progress.end();
    writer.finish()?;

    summary.skipped.splice(0..0, sources.skipped);
    if let Some(mut report) = report.take() {
        for skipped in &summary.skipped {
            report.write(report_line(skipped).as_bytes())?;
        }
        report.commit()?;
    }
    tell(&summary, args, started.elapsed(), console);
    Ok(if !summary.skipped.is_empty() || summary.clipped_rows > 0 {
        Outcome::Incomplete
    } else if summary.rows == 0 {
        Outcome::NothingToDo
    } else {
        Outcome::Done
    })
}

/// The format that is asked for, or that the output's extension names.
fn format(args: &FilesArgs) -> Result<Format> {
    let extension = args.output.as_deref().and_then(Path::extension).and_then(OsStr::to_str);
    match (args.format, extension) {
        (Some(Format::Npy), _) if args.output.is_none() => {
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

/// Files that are written and must not be read.
fn outputs(args: &FilesArgs, format: Format) -> Vec<PathBuf> {
    let ids = match (&args.output, format) {
        (Some(output), Format::Npy) => Some(NpyWriter::ids_path(output)),
        _ => None,
    };
    args.output.iter().cloned().chain(ids).chain(args.report.clone()).collect()
}

fn writer(
    args: &FilesArgs,
    format: Format,
    model: &StaticModel,
    temporaries: &Temporaries,
) -> Result<Box<dyn RowWriter>> {
    let id = model.model_id();
    Ok(match (&args.output, format) {
        (Some(path), Format::Npy) => {
            Box::new(NpyWriter::create(path, model.dim(), id, temporaries)?)
        }
        (Some(path), Format::Jsonl) => {
            Box::new(JsonlWriter::new(Destination::create(path, temporaries)?, id))
        }
        (None, _) => Box::new(JsonlWriter::new(Destination::stdout(), id)),
    })
}

fn report_line(skipped: &Skipped) -> String {
    let path = skipped.path.to_string_lossy();
    let line = serde_json::json!({ "path": path, "reason": skipped.reason.to_string() });
    format!("{line}\n")
}

/// Says what was done, what was left out, and what to mind.
fn tell(summary: &Summary, args: &FilesArgs, elapsed: Duration, console: Console) {
    for skipped in summary.skipped.iter().take(SHOWN_SKIPPED) {
        console.warn(&format!("skipped {skipped}"));
    }
    if let Some(more) = summary.skipped.len().checked_sub(SHOWN_SKIPPED + 1) {
        console.warn(&format!("skipped {} more: see --report", more + 1));
    }
    for (path, invalid) in &summary.invalid {
        console.warn(&format!(
            "{}: {} not valid in its encoding and replaced, the first at byte {}",
            path.display(),
            if invalid.count == 1 {
                "1 sequence was".to_owned()
            } else {
                format!("{} sequences were", invalid.count)
            },
            invalid.first_byte
        ));
    }
    if summary.clipped_rows > 0 {
        console.warn(&format!(
            "only the first {} of {} embedded: see --max-text-bytes and --chunk",
            size(args.max_text_bytes.get() as u64),
            if summary.clipped_rows == 1 {
                "1 text was".to_owned()
            } else {
                format!("{} texts were", summary.clipped_rows)
            },
        ));
    }
    warn_if_unknown(
        summary.rows,
        summary.zero_rows,
        summary.tokens,
        summary.unknown_tokens,
        console,
    );
    let skipped = match summary.skipped.len() {
        0 => String::new(),
        skipped => format!(", {} skipped", count(skipped as u64, "input")),
    };
    console.note(&format!(
        "{} of {} ({}, {}) in {elapsed:.1?}{skipped}",
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
