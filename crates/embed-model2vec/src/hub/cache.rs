//! Reading the Hugging Face cache.
//!
//! `models--ORG--NAME/refs/REVISION` holds the commit of a branch or tag, and
//! `models--ORG--NAME/snapshots/COMMIT/` its files. A revision that is a commit has its snapshot
//! directly, with or without a ref: Python leaves none for it.

use std::fs;
use std::path::{Path, PathBuf};

use super::ModelName;
use crate::error::Attempt;

/// The folder of a cached revision, or why there is none.
pub(super) fn snapshot(cache: &Path, name: &ModelName) -> Result<PathBuf, Attempt> {
    let repository = repository_folder(cache, name);
    let fail =
        |place: &Path, reason: String| Attempt { place: place.display().to_string(), reason };
    let commit = if is_commit(name.revision()) {
        name.revision().to_owned()
    } else {
        let reference = repository.join("refs").join(name.revision());
        let commit = fs::read_to_string(&reference)
            .map_err(|error| fail(&reference, format!("not in the cache: {error}")))?;
        let commit = commit.trim();
        if !is_commit(commit) {
            return Err(fail(&reference, "does not hold a commit".to_owned()));
        }
        commit.to_owned()
    };
    let folder = repository.join("snapshots").join(commit);
    match fs::metadata(&folder) {
        Ok(_) => Ok(folder),
        Err(error) => Err(fail(&folder, format!("not in the cache: {error}"))),
    }
}

/// A cached file of a revision.
pub(super) fn file(cache: &Path, name: &ModelName, file: &str) -> Option<PathBuf> {
    let path = snapshot(cache, name).ok()?.join(file);
    path.is_file().then_some(path)
}

/// The commit whose snapshot a cached file belongs to.
pub(super) fn commit_of(cache: &Path, name: &ModelName, file: &Path) -> Option<String> {
    let snapshots = repository_folder(cache, name).join("snapshots");
    let commit = file.strip_prefix(snapshots).ok()?.components().next()?;
    Some(commit.as_os_str().to_str()?.to_owned())
}

/// An absolute path, as downloads have: a file is recognized by where it lies.
fn repository_folder(cache: &Path, name: &ModelName) -> PathBuf {
    let cache = std::path::absolute(cache).unwrap_or_else(|_| cache.to_owned());
    cache.join(format!("models--{}", name.repository().replace('/', "--")))
}

/// A full Git commit hash.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}
