//! The one door to the network.

use std::error::Error as StdError;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, Metadata};
use hf_hub::{Cache, Repo, RepoType};

use super::{ModelName, Settings};

/// Fetches files of models into the cache.
pub trait Download {
    /// Fetches `file` of `name` and returns where it lies in the cache.
    ///
    /// # Errors
    ///
    /// [`DownloadError`].
    fn download(&self, name: &ModelName, file: &str) -> Result<PathBuf, DownloadError>;
}

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The repository does not have it.
    #[error("not found")]
    NotFound,
    /// Anything else: no connection, no permission, no space.
    #[error("failed")]
    Failed(#[source] Box<dyn StdError + Send + Sync>),
}

/// Downloads through the hf-hub crate. No connection is made before the first download.
///
/// The answer's commit and ETag become parts of paths in the cache, and hf-hub takes them as they are:
/// they are looked at before anything is written, and the size of the file after.
#[derive(Clone, Debug)]
pub struct HfHub {
    settings: Settings,
    progress: bool,
}

impl HfHub {
    /// Attempts after a failed one.
    const RETRIES: usize = 3;

    /// A client with the given settings; `progress` draws a bar on standard error.
    pub fn new(settings: &Settings, progress: bool) -> Self {
        Self { settings: settings.clone(), progress }
    }

    fn api(&self) -> Result<Api, Box<dyn StdError + Send + Sync>> {
        // hf-hub makes relative links between absolute paths only.
        let cache = Cache::new(std::path::absolute(&self.settings.cache)?);
        let builder = ApiBuilder::from_cache(cache)
            .with_endpoint(self.settings.endpoint.clone())
            .with_token(self.settings.token.clone())
            .with_retries(Self::RETRIES)
            .with_progress(self.progress);
        Ok(builder.build()?)
    }
}

impl Download for HfHub {
    fn download(&self, name: &ModelName, file: &str) -> Result<PathBuf, DownloadError> {
        let api = self.api().map_err(DownloadError::Failed)?;
        let repository = Repo::with_revision(
            name.repository().to_owned(),
            RepoType::Model,
            name.revision().to_owned(),
        );
        let repository = api.repo(repository);
        // hf-hub asserts where an answer can be wrong: a wrong answer must not end the process.
        let fetch = AssertUnwindSafe(|| {
            let metadata = api.metadata(&repository.url(file)).map_err(failure)?;
            check_names(&metadata)?;
            let path = repository.download(file).map_err(failure)?;
            check_size(&path, metadata.size())?;
            Ok(path)
        });
        catch_unwind(fetch)
            .unwrap_or_else(|_| Err(failed("the client failed on the server's answer")))
    }
}

fn failed(message: impl Into<String>) -> DownloadError {
    DownloadError::Failed(message.into().into())
}

fn failure(error: ApiError) -> DownloadError {
    match error {
        ApiError::RequestError(request) if matches!(*request, ureq::Error::StatusCode(404)) => {
            DownloadError::NotFound
        }
        error => DownloadError::Failed(error.into()),
    }
}

/// A commit is 40 hexadecimal digits, and an ETag a name without anything that a path understands.
fn check_names(metadata: &Metadata) -> Result<(), DownloadError> {
    let (commit, etag) = (metadata.commit_hash(), metadata.etag());
    if !super::cache::is_commit(commit) {
        return Err(failed(format!("the server names the commit {commit:?}: expected 40 digits")));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if etag.is_empty() || !etag.chars().all(plain) {
        return Err(failed(format!(
            "the server names the file {etag:?}: expected letters and digits"
        )));
    }
    Ok(())
}

/// A file that came short is taken out of the cache again.
fn check_size(path: &PathBuf, expected: usize) -> Result<(), DownloadError> {
    let found = fs::metadata(path).map_or(0, |metadata| metadata.len());
    if found == expected as u64 {
        return Ok(());
    }
    for file in [fs::canonicalize(path).ok(), Some(path.clone())].into_iter().flatten() {
        // What cannot be removed is found to be damaged when it is loaded.
        let _ = fs::remove_file(file);
    }
    Err(failed(format!("{found} bytes came of {expected}")))
}
