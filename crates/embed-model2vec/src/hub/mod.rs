//! Models by name: `ORG/NAME` or `ORG/NAME@REVISION`, from the Hugging Face cache or downloaded.
//!
//! The cache comes first: what is there is used without a word to the network, also for a branch that
//! has moved on since. Only what is missing is downloaded, into the same cache that Python uses, all
//! files of a model from one commit. Offline, nothing is ever asked of the network.
//!
//! | module | does |
//! | --- | --- |
//! | `settings` | environment variables to [`Settings`] |
//! | `cache` | where a cached revision lies; reads only |
//! | `download` | [`Download`], the one door to the network, and its hf-hub implementation |

mod cache;
mod download;
mod settings;

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::bundle::{Bundle, Layout, MODULES, find_layout};
use crate::error::{Attempt, LoadError};

pub use download::{Download, DownloadError, HfHub};
pub use settings::Settings;

/// A model on the hub: repository and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    repository: String,
    revision: String,
}

impl ModelName {
    /// `ORG/NAME`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Branch, tag or commit; `main` unless given.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The same repository at a commit.
    fn at(&self, commit: &str) -> Self {
        Self { repository: self.repository.clone(), revision: commit.to_owned() }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.revision)
    }
}

impl FromStr for ModelName {
    type Err = LoadError;

    fn from_str(name: &str) -> Result<Self, LoadError> {
        let fail = |reason| LoadError::HubName { name: name.to_owned(), reason };
        let (repository, revision) = name.split_once('@').unwrap_or((name, "main"));
        let Some((organization, model)) = repository.split_once('/') else {
            return Err(fail("there is no slash"));
        };
        for part in [organization, model] {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if part.is_empty() {
                return Err(fail("a part is empty"));
            }
            if !part.chars().all(allowed) {
                return Err(fail(
                    "only letters, digits, '-', '_' and '.' are allowed, and one slash",
                ));
            }
            if part.starts_with(['.', '-']) || part.contains("..") {
                return Err(fail("a part begins with '.' or '-', or contains '..'"));
            }
        }
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if !revision.chars().all(allowed) || !revision.split('/').all(plain) {
            return Err(fail("the revision is not a branch, tag or commit"));
        }
        Ok(Self { repository: repository.to_owned(), revision: revision.to_owned() })
    }
}

/// Opens a model by folder or by name: a folder of that name wins.
///
/// `subfolder` is a path within the folder or the repository.
///
/// # Errors
///
/// [`LoadError::NotFound`] that lists every place that was looked at, [`LoadError::Download`] if the
/// network failed, and the errors of [`Bundle::open`].
pub fn open(
    model: &str,
    subfolder: Option<&str>,
    settings: &Settings,
    download: &dyn Download,
) -> Result<Bundle, LoadError> {
    if Path::new(model).exists() {
        return Bundle::open(below(Path::new(model), subfolder));
    }
    let not_local =
        Attempt { place: model.to_owned(), reason: "there is no such folder".to_owned() };
    let name: ModelName = match model.parse() {
        Ok(name) => name,
        Err(error) => {
            let mut attempts = vec![not_local];
            // What is written as a path cannot be meant as a name.
            if !model.starts_with(['.', '/', '~', '\\']) {
                let place = "Hugging Face hub".to_owned();
                attempts.push(Attempt { place, reason: error.to_string() });
            }
            return Err(LoadError::NotFound { wanted: model.to_owned(), attempts });
        }
    };
    find(&name, subfolder, settings, download).map_err(|error| match error {
        LoadError::NotFound { mut attempts, .. } => {
            attempts.insert(0, not_local);
            LoadError::NotFound { wanted: model.to_owned(), attempts }
        }
        other => other,
    })
}

/// Looks in the cache, then on the hub.
fn find(
    name: &ModelName,
    subfolder: Option<&str>,
    settings: &Settings,
    download: &dyn Download,
) -> Result<Bundle, LoadError> {
    // Within a repository only: the path becomes one below the cache.
    let is_inside = |subfolder: &str| {
        Path::new(subfolder).components().all(|part| matches!(part, Component::Normal(_)))
    };
    if let Some(outside) = subfolder.filter(|subfolder| !is_inside(subfolder)) {
        let reason = "a subfolder is a relative path without '..'";
        return Err(LoadError::HubName { name: format!("{}/{outside}", name.repository), reason });
    }
    let mut attempts = Vec::new();
    match cache::snapshot(&settings.cache, name) {
        Ok(snapshot) => {
            let folder = below(&snapshot, subfolder);
            match find_layout(&folder) {
                Ok(layout) => return Bundle::open_layout(&folder, layout, name.to_string()),
                Err(missing) => attempts.extend(missing),
            }
        }
        Err(attempt) => attempts.push(attempt),
    }
    if settings.offline {
        let reason =
            "not asked, because the network is off (--offline or HF_HUB_OFFLINE)".to_owned();
        attempts.push(Attempt { place: settings.endpoint.clone(), reason });
        return Err(LoadError::NotFound { wanted: name.to_string(), attempts });
    }
    match fetch(name, subfolder, settings, download)? {
        Ok((folder, layout)) => Bundle::open_layout(&folder, layout, name.to_string()),
        Err(missing) => {
            attempts.extend(missing);
            Err(LoadError::NotFound { wanted: name.to_string(), attempts })
        }
    }
}

fn below(folder: &Path, subfolder: Option<&str>) -> PathBuf {
    subfolder.map_or_else(|| folder.to_owned(), |subfolder| folder.join(subfolder))
}

type Fetched = Result<(PathBuf, Layout), Vec<Attempt>>;

/// Downloads the first complete layout. The inner error lists what the repository does not have.
fn fetch(
    name: &ModelName,
    subfolder: Option<&str>,
    settings: &Settings,
    download: &dyn Download,
) -> Result<Fetched, LoadError> {
    let in_repository = |file: &str| match subfolder {
        Some(sub) => format!("{}/{file}", sub.trim_matches('/')),
        None => file.to_owned(),
    };
    // The first file decides on the commit; the branch may move while we fetch the others.
    let mut pinned = name.clone();
    let mut get = |file: &str| -> Result<Option<PathBuf>, LoadError> {
        let file = in_repository(file);
        let path = cache::file(&settings.cache, &pinned, &file)
            .map_or_else(|| download.download(&pinned, &file), Ok);
        match path {
            Ok(path) => {
                if let Some(commit) = cache::commit_of(&settings.cache, name, &path) {
                    pinned = name.at(&commit);
                }
                Ok(Some(path))
            }
            Err(DownloadError::NotFound) => Ok(None),
            Err(DownloadError::Failed(source)) => Err(LoadError::Download {
                repository: name.repository.clone(),
                revision: pinned.revision.clone(),
                file,
                endpoint: settings.endpoint.clone(),
                source,
            }),
        }
    };

    let mut missing = Vec::new();
    'layouts: for layout in Layout::ALL {
        let mut folder = None;
        // The weights come last: they are large, the small files tell whether they are needed, and a
        // cache without them is not mistaken for a complete one.
        for file in [layout.config(), MODULES, layout.tokenizer(), layout.weights()] {
            match get(file)? {
                Some(path) if file == layout.config() => folder = path.parent().map(Path::to_owned),
                Some(_) => {}
                None if file == MODULES => {}
                None => {
                    missing.push(Attempt {
                        place: format!("{}/{}", settings.endpoint, in_repository(file)),
                        reason: format!("{name} has no such file ({layout} layout)"),
                    });
                    continue 'layouts;
                }
            }
        }
        let folder = folder.expect("the configuration was fetched and lies in a folder");
        return Ok(Ok((folder, layout)));
    }
    Ok(Err(missing))
}

#[cfg(test)]
mod tests;
