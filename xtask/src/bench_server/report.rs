//! The document: how it was made, the targets, the tables, and how to read them.

use std::fmt::Write as _;

use crate::bench::machine;

use super::contenders::Contender;

/// A figure and what it has to be.
pub(super) struct Target {
    pub(super) what: String,
    pub(super) figure: String,
    pub(super) floor: String,
    pub(super) met: bool,
}

/// What was found so far.
pub(super) struct Report {
    command: String,
    machine: String,
    /// Where servers and generator ran.
    cores: String,
    targets: Vec<Target>,
    sections: Vec<String>,
}

const READING: &str = "\
## How to read it

- A figure is the median of the turns, with the least and the greatest in brackets where there is room. In each turn
  every contender, or every kind of request, is measured once, one after the other; ratios and differences are taken
  within a turn. The verdict goes by the median.
- All servers run during the whole comparison, with the same model, and must give the same rows (cosines above 0.999)
  before anything is measured. Requests are the same bytes but for the port in `Host`: texts of 5 to 20 words, 64
  requests in turn, none twice in a request.
- The generator is one process with blocking sockets and requests that were prepared before. Up to 8 connections have
  a thread each; of more, 8 threads serve equal parts in turn, which reads answers in the order of their requests.
  It parses heads, and reads bodies without a look at them.
- The server of axum and model2vec-rs embeds up to 32 texts where the request was read, and more on a thread that may
  block. That of FastAPI is one process with uvloop, httptools and orjson, which embeds where the request was read.
  Neither counts tokens, and neither has limits, a queue or metrics. embed runs with its default settings, which
  refuse with 429 what the queue has no room for: such a request comes again when the answer says, and counts when it
  is served.
";

impl Report {
    pub(super) fn new(command: String, cores: String) -> Self {
        // Later this process may use fewer cores.
        let machine = machine::describe();
        Self { command, machine, cores, targets: Vec::new(), sections: Vec::new() }
    }

    pub(super) fn target(&mut self, target: Target) {
        eprint!("{}", target.line());
        self.targets.push(target);
    }

    /// A part of the document below the table of targets, in Markdown.
    pub(super) fn section(&mut self, text: String) {
        self.sections.push(text);
    }

    pub(super) fn document(&self, contenders: &[Contender]) -> String {
        let mut text = format!(
            "# The server beside others\n\n```sh\n{}\n```\n\n\
             The tables are what the command writes, with the name of the model in place of its path. Measured on \
             {}. {}\n\n",
            self.command, self.machine, self.cores,
        );
        for contender in contenders {
            let _ = writeln!(text, "- {}: {}.", contender.name, contender.versions);
        }
        text += "\n## Targets\n\n| what | figure | floor | verdict |\n| --- | --- | --- | --- |\n";
        for target in &self.targets {
            text += &target.line();
        }
        for section in &self.sections {
            let _ = write!(text, "\n{section}");
        }
        let _ = write!(text, "\n{READING}");
        text
    }
}

impl Target {
    fn line(&self) -> String {
        let Self { what, figure, floor, met } = self;
        let verdict = if *met { "met" } else { "**missed**" };
        format!("| {what} | {figure} | {floor} | {verdict} |\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_seen() {
        let target = |met| Target {
            what: "this".to_owned(),
            figure: "1".to_owned(),
            floor: "2".to_owned(),
            met,
        };
        assert_eq!(target(true).line(), "| this | 1 | 2 | met |\n");
        assert_eq!(target(false).line(), "| this | 1 | 2 | **missed** |\n");
    }
}
