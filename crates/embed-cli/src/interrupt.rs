//! Ctrl-C, a closed terminal, a polite kill: leave nothing half written and end.

use anyhow::{Context as _, Result};
use embed_files::output::Temporaries;

use crate::exit_code::INTERRUPTED;

/// From now on a signal removes the temporary files of unfinished outputs and ends the process.
///
/// The handler runs on a thread of its own: it works while the main thread waits for input.
pub(crate) fn clean_up_on_signal() -> Result<Temporaries> {
    let temporaries = Temporaries::default();
    let handler_temporaries = temporaries.clone();
    ctrlc::set_handler(move || {
        handler_temporaries.remove_all();
        #[expect(clippy::exit, reason = "the main thread may be waiting for input for ever")]
        std::process::exit(INTERRUPTED);
    })
    .context("installing the handler of signals")?;
    Ok(temporaries)
}
