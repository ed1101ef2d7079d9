//! What the process says when it ends.
//!
//! | code | means |
//! | --- | --- |
//! | 0 | done |
//! | 1 | there was nothing to do |
//! | 2 | wrong usage, or an error that ended the run (clap uses the same code) |
//! | 3 | done, but some inputs were left out or cut |
//! | 130 | interrupted |

use std::process::ExitCode;

use anyhow::Result;

use crate::console;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    NothingToDo,
    Incomplete,
    /// A check of the user's found something wrong; it is printed already.
    Failed,
}

const FATAL: u8 = 2;

/// The code of an interrupted process: 128 + SIGINT.
pub(crate) const INTERRUPTED: i32 = 130;

/// The exit code of a result; prints the error, if it is one.
pub(crate) fn of(result: Result<Outcome>) -> ExitCode {
    ExitCode::from(match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::NothingToDo) => 1,
        Ok(Outcome::Incomplete) => 3,
        Ok(Outcome::Failed) => FATAL,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            console::error(&error);
            FATAL
        }
    })
}

/// Whoever read our output has read enough: `embed … | head` ends quietly.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<embed_files::Error>().is_some_and(embed_files::Error::is_broken_pipe)
}
