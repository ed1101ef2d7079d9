//! The files that a run writes to, recognized under whatever name a walk finds them.

#[cfg(unix)]
use std::fs::File;
use std::fs::{self, Metadata};
#[cfg(unix)]
use std::io;
use std::path::Path;

/// The files that a run writes to.
#[derive(Clone, Debug, Default)]
pub struct OutputFiles(Vec<FileIdentity>);

impl OutputFiles {
    /// Those of `paths` that exist already, and the file behind standard output if it is one.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let named =
            paths.into_iter().filter_map(|path| Some(identity(path, &fs::metadata(path).ok()?)));
        Self(named.chain(standard_output()).collect())
    }

    pub(crate) fn contain(&self, path: &Path, metadata: &Metadata) -> bool {
        !self.0.is_empty() && self.0.contains(&identity(path, metadata))
    }
}

/// Device and number of a file.
#[cfg(unix)]
type FileIdentity = (u64, u64);

#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// `embed files . > out.jsonl` would otherwise read what it writes, for ever.
#[cfg(unix)]
fn standard_output() -> Option<FileIdentity> {
    use std::os::fd::AsFd as _;
    let file = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    metadata.is_file().then(|| identity(Path::new(""), &metadata))
}

/// Canonical path of a file.
#[cfg(not(unix))]
type FileIdentity = std::path::PathBuf;

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> FileIdentity {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(not(unix))]
fn standard_output() -> Option<FileIdentity> {
    None
}
