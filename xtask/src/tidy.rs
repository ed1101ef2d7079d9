//! x
use anyhow::Result;
pub(crate) fn run() -> Result<bool> {
    Ok(true)
}
