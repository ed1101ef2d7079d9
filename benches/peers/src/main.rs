//! One measurement a process: `peers CONTENDER TASK --model DIR --corpus FILE` prints one line of JSON.
//!
//! A process measures one contender at one task, so that no contender runs in the heap, the caches or the
//! thread pools of another. `cargo xtask bench` starts the processes, lets the contenders take turns, and
//! compares. Speed is never judged here.

mod contenders;
mod corpus;
#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
mod tasks;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};

use contenders::Contender;

/// Measures one contender at one task.
#[derive(Parser)]
struct Args {
    contender: ContenderName,
    task: Task,
    /// Folder of the model; without it, `embed` measures its built-in model
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// File of texts, one a line; `load` needs none
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Read only so many lines of the corpus
    #[arg(long, value_name = "N")]
    lines: Option<NonZeroUsize>,
    /// Threads that the contender may use
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// Passes after the first one; fewer where they take longer than --seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// When no further pass is begun; at least one follows the first
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Texts in one call
    #[arg(long, value_name = "N", default_value = "1024")]
    batch: NonZeroUsize,
    /// After the first pass print `ready` and wait for a line on standard input: for several
    /// processes that are to be measured at once
    #[arg(long)]
    wait: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ContenderName {
    /// Ours
    Embed,
    /// model2vec-rs, `encode_flat` over batches
    #[value(name = "model2vec-rs-flat")]
    Model2vecRsFlat,
    /// model2vec-rs, a loop of `encode_single`
    #[value(name = "model2vec-rs-single")]
    Model2vecRsSingle,
    /// tokie: tokenizing alone
    Tokie,
    /// Hugging Face tokenizers: tokenizing alone
    Tokenizers,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Task {
    /// All texts to rows
    Bulk,
    /// All texts to ids, none cut and none left out
    Tokenize,
    /// One query after the other
    Query,
    /// From nothing to the first row
    Load,
    /// Each text to a row, whole and alone
    Unlimited,
    /// Long texts of an unkind form
    Adversarial,
}

impl ContenderName {
    fn load(self, args: &Args) -> Result<Box<dyn Contender>> {
        if let Self::Embed = self {
            return contenders::embed(args.model.as_deref(), args.threads, args.batch.get());
        }
        let model = args.model.as_deref().context("this contender needs --model")?;
        contenders::limit_rayon(args.threads.get())?;
        match self {
            Self::Embed => unreachable!("handled above"),
            Self::Model2vecRsFlat => contenders::model2vec_rs_flat(model, args.batch.get()),
            Self::Model2vecRsSingle => contenders::model2vec_rs_single(model),
            Self::Tokie => contenders::tokie(model),
            Self::Tokenizers => contenders::tokenizers(model),
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let load = || args.contender.load(&args);
    let mut result = match args.task {
        Task::Load => tasks::load(load)?,
        task => {
            let corpus = args.corpus.as_deref().context("this task needs --corpus")?;
            let texts = corpus::read(corpus, args.lines)?;
            let mut contender = load()?;
            let plan = tasks::Plan { rounds: args.rounds, seconds: args.seconds, wait: args.wait };
            match task {
                Task::Bulk => tasks::bulk(&mut *contender, &texts, &plan)?,
                Task::Tokenize => tasks::tokenize(&mut *contender, &texts, &plan)?,
                Task::Query => tasks::query(&mut *contender, &texts, &plan)?,
                Task::Unlimited => tasks::unlimited(&mut *contender, &texts, &plan)?,
                Task::Adversarial => tasks::adversarial(&mut *contender, &texts, &plan)?,
                Task::Load => unreachable!("handled above"),
            }
        }
    };
    for (name, value) in
        [("contender", args.contender.to_possible_value()), ("task", args.task.to_possible_value())]
    {
        let value = value.context("a name")?.get_name().to_owned();
        result[name] = value.into();
    }
    println!("{result}");
    Ok(())
}
