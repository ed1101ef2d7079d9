//! `cargo xtask bench`: the embedder beside the libraries that do the same, against the targets.
//!
//! Each measurement is a process of its own (`benches/peers`). The contenders of a comparison take turns,
//! A B A B, because the speed of a shared machine changes from minute to minute: two processes that run
//! one after the other meet the same weather, and a ratio is taken within a turn, never between turns.
//! The table goes to standard output and, with how it was made, into a document.

mod bpe;
mod chains;
mod inputs;
mod instructions;
pub(crate) mod machine;
mod measurements;
mod peers;
mod report;
pub(crate) mod spread;
mod write;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::ci::{target_folder, workspace_folder};

use inputs::{Corpus, Inputs, Model};
use measurements::Measurements;
use peers::Peers;
use report::Report;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files of texts, one a line: English prose, and a multilingual one
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// Folders of models; rows of the table whose kind of model is not among them are left out
    #[arg(long, required = true, num_args = 1.., value_name = "DIR")]
    model: Vec<PathBuf>,
    /// Turns of each contender
    #[arg(long, value_name = "N", default_value = "7")]
    rounds: NonZeroUsize,
    /// Where the document goes, from the root of the repository
    #[arg(long, value_name = "FILE", default_value = "docs/bench-cpu.md")]
    out: PathBuf,
    /// Only these rows of the table of targets
    #[arg(long, value_name = "NUMBER", num_args = 1.., value_parser = clap::value_parser!(u8).range(1..=7))]
    only: Vec<u8>,
    /// Train a byte-level BPE of 30,000 pieces on the first corpus, give it a table of random numbers, and
    /// measure with it too
    #[arg(long)]
    train_bpe: bool,
    /// Leave the unkind texts out
    #[arg(long)]
    no_adversarial: bool,
    /// Count instructions too, under valgrind: repeatable, slow, and without AVX-512
    #[arg(long)]
    instructions: bool,
}

impl Args {
    fn wants(&self, number: u8) -> bool {
        self.only.is_empty() || self.only.contains(&number)
    }

    /// The command with names in place of paths.
    fn command(&self, inputs: &Inputs) -> String {
        let mut words = vec!["cargo xtask bench --rounds".to_owned(), self.rounds.to_string()];
        words.push("--corpus".to_owned());
        words.extend(inputs.corpora.iter().map(|corpus| corpus.name.clone()));
        words.push("--model".to_owned());
        words.extend(inputs.models.iter().take(self.model.len()).map(|model| model.name.clone()));
        if !self.only.is_empty() {
            words.push("--only".to_owned());
            words.extend(self.only.iter().map(u8::to_string));
        }
        if self.train_bpe {
            words.push("--train-bpe".to_owned());
        }
        if self.no_adversarial {
            words.push("--no-adversarial".to_owned());
        }
        if self.instructions {
            words.push("--instructions".to_owned());
        }
        words.join(" ")
    }
}

/// Measures and reports. A missed target is no failure of the task: the document says so.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut inputs = Inputs {
        models: args.model.iter().map(|folder| Model::read(folder)).collect::<Result<_>>()?,
        corpora: args.corpus.iter().map(|path| Corpus::read(path)).collect::<Result<_>>()?,
    };
    if args.train_bpe {
        let corpus = inputs.corpora.first().context("there is at least one corpus")?;
        inputs.models.push(bpe::train(corpus, &target_folder().join("bench"))?);
    }
    let peers = Peers::build()?;
    let mut report = Report::new(args.command(&inputs), args.rounds);
    let mut measurements = Measurements::new(&peers, &inputs, args.rounds, &mut report);
    if args.wants(1) {
        measurements.bulk()?;
    }
    if args.wants(2) {
        measurements.tokenizing()?;
        measurements.multilingual()?;
    }
    if args.wants(3) {
        measurements.query()?;
    }
    if args.wants(4) || args.wants(7) {
        measurements.loading(args.wants(4), args.wants(7))?;
    }
    if args.wants(5) {
        measurements.at_once()?;
    }
    if args.wants(6) {
        measurements.other_tokenizers()?;
    }
    if !args.no_adversarial {
        measurements.adversarial()?;
    }
    if args.instructions {
        instructions::count(&peers, &inputs, &mut report)?;
    }
    let document = report.document()?;
    println!("{document}");
    let out = workspace_folder().join(&args.out);
    fs::write(&out, document).with_context(|| format!("writing {}", out.display()))?;
    Ok(true)
}
