//! The one door to the network.

use std::error::Error as StdError;
use std::path::PathBuf;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
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
        api.repo(repository).download(file).map_err(|error| match error {
            ApiError::RequestError(request) if matches!(*request, ureq::Error::StatusCode(404)) => {
                DownloadError::NotFound
            }
            error => DownloadError::Failed(error.into()),
        })
    }
}
