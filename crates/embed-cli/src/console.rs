//! Messages for people, on standard error. Data goes to standard output and nothing else does.

use std::io::{self, IsTerminal as _, Write as _};

use crate::cli::GlobalArgs;

/// Standard error at the chosen verbosity. A closed standard error is no reason to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    quiet: bool,
    verbose: bool,
}

impl Console {
    pub(crate) fn new(args: &GlobalArgs) -> Self {
        Self { quiet: args.quiet, verbose: args.verbose }
    }

    /// Prints errors only: for what is done once more.
    pub(crate) const SILENT: Self = Self { quiet: true, verbose: false };

    /// Something that the user should know about the result.
    pub(crate) fn warn(self, message: &str) {
        if !self.quiet {
            print(&format!("warning: {message}"));
        }
    }

    /// What was done.
    pub(crate) fn note(self, message: &str) {
        if !self.quiet {
            print(message);
        }
    }

    /// How it was done.
    pub(crate) fn detail(self, message: &str) {
        if self.verbose {
            print(message);
        }
    }

    /// Whether moving progress may be drawn.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// An error that ends the run: shown whatever the verbosity, with its causes.
pub(crate) fn error(error: &anyhow::Error) {
    print(&format!("error: {error:#}"));
}

/// Something that is wrong with this program and does not end it: shown whatever the verbosity.
pub(crate) fn fault(message: &str) {
    print(&format!("error: {message}"));
}

fn print(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// A number with its noun, in the singular where that fits.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A size in bytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
