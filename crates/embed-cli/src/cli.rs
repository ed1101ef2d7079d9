//! What can be asked for on the command line.

mod serve;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use embed_core::{EncodeOptions, MaxLength, Normalize};
use embed_files::Chunking;
use embed_model2vec::device::Device;

pub(crate) use serve::ServeArgs;

/// Turns texts and files into embedding vectors, on this machine.
///
/// The built-in model needs no network. It is English, 256 dimensions: text in other scripts is mostly
/// unknown to it, or spelled out letter by letter. Only `--model ORG/NAME` downloads, once.
///
/// Exit codes: 0 done; 1 nothing to do; 2 wrong usage or a fatal error; 3 done, but some inputs were
/// skipped, or cut at --max-text-bytes; 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "embed", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// What the program is asked for. Ends it if that is wrong usage, or a request for help.
    pub(crate) fn of_this_program() -> Self {
        Self::of(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn of(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let cli = Self::try_parse_from(&arguments)?;
        // Of an option that stands in front of the command and behind it, clap keeps what stands behind. That
        // is as it should be where the last one counts, but each of the models does.
        let options = arguments.iter().take_while(|argument| *argument != "--");
        let given = options.filter(|argument| {
            let argument = argument.as_encoded_bytes();
            argument == b"--model" || argument.starts_with(b"--model=")
        });
        if given.count() > cli.global.model.len() {
            let message =
                "--model stands in front of the command and behind it: put all in one place";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, message));
        }
        Ok(cli)
    }
}

/// Options of every command.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Args, Debug)]
pub(crate) struct GlobalArgs {
    /// Model: a folder, or `ORG/NAME` or `ORG/NAME@REVISION` on the Hugging Face hub [default: built in].
    /// `embed serve` takes several, each also as `NAME=MODEL`
    #[arg(long, global = true, value_name = "MODEL", help_heading = "Model")]
    pub(crate) model: Vec<String>,
    /// Folder of the model within the model folder or repository
    #[arg(long, global = true, value_name = "PATH", help_heading = "Model")]
    pub(crate) subfolder: Option<String>,
    /// Never use the network, not even for a model that is missing
    #[arg(long, global = true, help_heading = "Model")]
    pub(crate) offline: bool,
    /// Where rows are computed: `cpu`, `auto` (the first GPU that can, or `cpu`), `metal`, `cuda`, `cuda:N`.
    /// For a GPU one thread tokenizes, whatever --threads says
    #[arg(long, global = true, value_name = "DEVICE", default_value_t, help_heading = "Model")]
    pub(crate) device: Device,
    /// Rules for long and unknown text and for normalizing
    #[arg(long, global = true, value_enum, default_value_t, help_heading = "Encoding")]
    pub(crate) profile: Profile,
    /// Tokens of a text that count: a number, or `none` [default: as the profile says]
    #[arg(long, global = true, value_name = "N", value_parser = parse_max_length, help_heading = "Encoding")]
    pub(crate) max_length: Option<MaxLength>,
    /// Scale vectors to length 1 [default: what the model says]
    #[arg(long, global = true, overrides_with = "no_normalize", help_heading = "Encoding")]
    pub(crate) normalize: bool,
    /// Leave vectors as they are: the plain means
    #[arg(long, global = true, overrides_with = "normalize", help_heading = "Encoding")]
    pub(crate) no_normalize: bool,
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print how things were done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

impl GlobalArgs {
    /// The model of a command that takes one; `None` is the built-in one.
    pub(crate) fn one_model(&self) -> Result<Option<&str>> {
        match &self.model[..] {
            [] => Ok(None),
            [model] => Ok(Some(model)),
            several => bail!("this command takes one --model, not {}", several.len()),
        }
    }

    /// The options of encoding that the arguments ask for.
    pub(crate) fn encode_options(&self) -> EncodeOptions {
        let profile = match self.profile {
            Profile::Model2vec => EncodeOptions::model2vec(),
            Profile::Osaurus => EncodeOptions::osaurus(),
            Profile::SentenceTransformers => EncodeOptions::sentence_transformers(),
        };
        let max_length = self.max_length.unwrap_or(profile.max_length);
        let normalize = match (self.normalize, self.no_normalize) {
            (true, _) => Normalize::Yes,
            (_, true) => Normalize::No,
            (false, false) => profile.normalize,
        };
        profile.with_max_length(max_length).with_normalize(normalize)
    }
}

/// Presets of encoding.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Profile {
    /// As Python model2vec: 512 tokens unless the model says otherwise, unknown tokens left out
    #[default]
    Model2vec,
    /// No limit on the length
    Osaurus,
    /// As sentence-transformers: unknown tokens count, a limit only if the tokenizer file has one
    SentenceTransformers,
}

fn parse_max_length(text: &str) -> Result<MaxLength, String> {
    if text == "none" {
        return Ok(MaxLength::Unlimited);
    }
    let limit = text.parse().map_err(|_| "expected a number of tokens (1 or more) or `none`")?;
    Ok(MaxLength::Tokens(limit))
}

/// More threads than any machine of today has processors would only be a slip of the finger.
const MOST_THREADS: usize = 1024;

fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= MOST_THREADS);
    threads.ok_or_else(|| format!("expected a number of threads from 1 to {MOST_THREADS}"))
}

/// More passes than this over any corpus would only be a slip of the finger.
const MOST_ROUNDS: usize = 1000;

fn parse_rounds(text: &str) -> Result<NonZeroUsize, String> {
    let rounds = text.parse().ok().filter(|rounds: &NonZeroUsize| rounds.get() <= MOST_ROUNDS);
    rounds.ok_or_else(|| format!("expected a number of passes from 1 to {MOST_ROUNDS}"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Embed texts: one JSON line for each
    Text(TextArgs),
    /// Embed files and folders, cut into chunks: one JSON line for each chunk
    Files(FilesArgs),
    /// Cosine similarity of two texts, or a matrix of more
    Similarity(SimilarityArgs),
    /// What a model is, and whether it is sound
    #[command(subcommand)]
    Model(ModelCommand),
    /// Measure speed, latency, load time and memory on this machine, with a file of yours
    Bench(BenchArgs),
    /// Answer requests over HTTP, as clients of OpenAI, Ollama and TEI send them
    Serve(ServeArgs),
    /// Print what this program can do on this machine: instructions, devices, where models are kept
    Doctor,
}

#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// The texts, as they are; after `--` also those that begin with a hyphen. For standard input:
    /// `embed files - --chunk none`
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SimilarityArgs {
    /// The texts, as they are
    #[arg(required = true, num_args = 2.., value_name = "TEXT")]
    pub(crate) texts: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Print what a model is
    Info(ModelArgs),
    /// Check a model: files, identity, rows, and the batched forward against the reference
    Verify(ModelArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    /// The model, in place of --model [default: built in]
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    pub(crate) place: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// File of texts in UTF-8, one a line. It is held in memory: 1 GiB at most
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// Passes over the corpus, and loads of the model, after the first one
    #[arg(long, value_name = "N", default_value = "5", value_parser = parse_rounds)]
    pub(crate) rounds: NonZeroUsize,
    /// Threads that embed the lines together; tokenizing and queries are measured on one
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_threads)]
    pub(crate) threads: NonZeroUsize,
    /// Print one JSON object in place of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FilesArgs {
    /// Files, folders (with the rules of .gitignore and .ignore files), or `-` for standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Write to this file, complete or not at all; `-` is standard output, the default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the output [default: by the extension of FILE, else jsonl]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// How files are cut: `none`, `line` (each line, blank ones too), `chars:N/OVERLAP`
    #[arg(long, default_value = "chars:1500/200", value_name = "HOW")]
    pub(crate) chunk: Chunking,
    /// Of a text larger than this, embed only the beginning
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    pub(crate) max_text_bytes: NonZeroUsize,
    /// Threads that embed; the output is the same for any number [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Take hidden files too
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Take files that .gitignore and .ignore exclude
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Take only files in folders that match GLOB, ignored ones too; `!GLOB` leaves out files or folders
    #[arg(short, long, value_name = "GLOB")]
    pub(crate) glob: Vec<String>,
    /// Write what was left out, and why, to this file as JSON lines
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line
    Jsonl,
    /// A NumPy array; what the rows of NAME.npy are is in NAME.ids.jsonl
    Npy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_override_the_profile() {
        let options = |arguments: &[&str]| {
            let all = ["embed", "text", "x"].iter().chain(arguments);
            Cli::try_parse_from(all).expect("valid arguments").global.encode_options()
        };
        assert_eq!(options(&[]), EncodeOptions::model2vec());
        assert_eq!(options(&["--profile", "osaurus"]), EncodeOptions::osaurus());
        let limited = options(&["--profile", "osaurus", "--max-length", "3", "--normalize"]);
        assert_eq!(limited.max_length, MaxLength::Tokens(NonZeroUsize::new(3).expect("not zero")));
        assert_eq!(
            (limited.normalize, limited.norm_guard),
            (Normalize::Yes, EncodeOptions::osaurus().norm_guard)
        );
        assert_eq!(options(&["--max-length=none", "--no-normalize"]).normalize, Normalize::No);
    }

    #[test]
    fn no_model_is_lost_between_two_places() {
        let models = |line: &str| {
            let cli = Cli::of(line.split(' ').map(OsString::from));
            cli.map(|cli| cli.global.model).map_err(|error| error.kind())
        };
        assert_eq!(models("embed --model a serve"), Ok(vec!["a".into()]));
        assert_eq!(models("embed --model a --model=b serve"), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(models("embed serve --model a --model b"), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(models("embed text --model a -- --model"), Ok(vec!["a".into()]));
        for line in ["embed --model a serve --model b", "embed --model=a text --model b x"] {
            assert_eq!(models(line), Err(ErrorKind::ArgumentConflict), "{line}");
        }
    }

    #[test]
    fn threads_are_a_number_that_a_machine_can_have() {
        assert_eq!(parse_threads("1024").map(NonZeroUsize::get), Ok(1024));
        for wrong in ["0", "1025", "-1", "two", ""] {
            assert!(parse_threads(wrong).is_err(), "{wrong:?}");
        }
    }
}
