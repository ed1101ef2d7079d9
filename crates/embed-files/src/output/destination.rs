//! Where output goes, and how it gets there whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::NamedTempFile;

use crate::error::Error;
use crate::walk::TEMPORARY_PREFIX;

const BUFFER_BYTES: usize = 256 << 10;

/// Names of temporary files that exist right now, for whoever has to end the process.
#[derive(Clone, Debug, Default)]
pub struct Temporaries(Arc<Mutex<Vec<PathBuf>>>);

impl Temporaries {
    /// Removes them. Meant for a handler of signals, after which the process ends.
    pub fn remove_all(&self) {
        for path in self.lock().drain(..) {
            // It may have been renamed or removed meanwhile; there is nobody left to tell.
            let _ = fs::remove_file(path);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open output.
#[derive(Debug)]
pub struct Destination {
    /// For messages, and the place to rename to.
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// Standard output, a pipe or a device.
    Through(BufWriter<File>),
    Replace {
        file: BufWriter<NamedTempFile>,
        temporaries: Temporaries,
    },
}

impl Destination {
    /// Standard output.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if there is none.
    pub fn stdout() -> Result<Self, Error> {
        let path = PathBuf::from("standard output");
        match stdout_file() {
            Ok(file) => {
                let target = Target::Through(BufWriter::with_capacity(BUFFER_BYTES, file));
                Ok(Self { path, target })
            }
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// A file that is replaced when the output is complete, or a pipe or device that is written through.
    ///
    /// # Errors
    ///
    /// [`Error::Write`] if neither can be opened.
    pub fn create(path: &Path, temporaries: &Temporaries) -> Result<Self, Error> {
        let fail = |source| Error::Write { path: path.to_owned(), source };
        if Self::is_written_through(path) {
            // Appending: behind a descriptor may stand a file that holds something already.
            let file = OpenOptions::new().append(true).open(path).map_err(fail)?;
            let target = Target::Through(BufWriter::with_capacity(BUFFER_BYTES, file));
            return Ok(Self { path: path.to_owned(), target });
        }
        let place = behind_links(path);
        let existing = fs::metadata(&place).ok();
        if existing.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY_PREFIX);
        // As an ordinary new file, or as the file that is replaced.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        if !folder.is_dir() {
            let message = format!("there is no folder {}", folder.display());
            return Err(fail(io::Error::new(io::ErrorKind::NotFound, message)));
        }
        // Only the kind of the error: its text would name the temporary file.
        let file = builder.tempfile_in(folder).map_err(|error| fail(error.kind().into()))?;
        temporaries.lock().push(file.path().to_owned());
        if let Some(metadata) = existing {
            file.as_file().set_permissions(metadata.permissions()).map_err(fail)?;
        }
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let target = Target::Replace { file, temporaries: temporaries.clone() };
        Ok(Self { path: place, target })
    }

    /// The path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `path` is a pipe, a device or an open descriptor: [`create`](Self::create) writes it
    /// through, and opening a pipe waits for a reader.
    pub fn is_written_through(path: &Path) -> bool {
        let descriptors = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
        if descriptors.iter().any(|descriptor| path.starts_with(descriptor)) {
            return true;
        }
        fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
    }

    /// Writes bytes at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let result = match &mut self.target {
            Target::Through(file) => file.write_all(bytes),
            Target::Replace { file, .. } => file.write_all(bytes),
        };
        result.map_err(|source| self.fail(source))
    }

    /// Writes bytes over the beginning of the file.
    ///
    /// # Errors
    ///
    /// [`Error::Write`], also if the output is not a regular file.
    pub fn overwrite_start(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let result = match &mut self.target {
            Target::Replace { file, .. } => file
                .seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(bytes))
                .and_then(|()| file.seek(SeekFrom::End(0)).map(drop)),
            Target::Through(_) => Err(io::ErrorKind::NotSeekable.into()),
        };
        result.map_err(|source| self.fail(source))
    }

    /// Makes what was written so far durable, still beside its place.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn sync(&mut self) -> Result<(), Error> {
        let result = match &mut self.target {
            Target::Replace { file, .. } => {
                file.flush().and_then(|()| file.get_ref().as_file().sync_all())
            }
            Target::Through(file) => file.flush(),
        };
        result.map_err(|source| self.fail(source))
    }

    /// Makes the output durable and puts it into its place.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; the file that was there before is then untouched.
    pub fn commit(self) -> Result<(), Error> {
        let Self { path, target } = self;
        let result = match target {
            Target::Through(mut file) => file.flush(),
            Target::Replace { file, temporaries } => replace(&path, file, &temporaries),
        };
        result.map_err(|source| Error::Write { path, source })
    }

    fn fail(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

fn replace(
    path: &Path,
    file: BufWriter<NamedTempFile>,
    temporaries: &Temporaries,
) -> io::Result<()> {
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    let temporary = file.path().to_owned();
    file.persist(path).map_err(|error| error.error)?;
    temporaries.lock().retain(|path| *path != temporary);
    // The rename itself is durable once the folder is.
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // The new file is in place: a folder that may not be read is no reason to call it a failure.
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
    }
    Ok(())
}

/// Standard output as a plain file: the standard library would take a closed one for a success.
#[cfg(unix)]
fn stdout_file() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Standard output as a plain file.
#[cfg(windows)]
fn stdout_file() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// The place that `path` leads to: behind symbolic links, also where nothing is there yet.
fn behind_links(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&place) else { break };
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect()
    }

    #[test]
    fn a_file_is_replaced_only_when_committed() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        fs::write(&path, "old")?;
        let temporaries = Temporaries::default();

        let mut abandoned = Destination::create(&path, &temporaries)?;
        abandoned.write(b"new")?;
        drop(abandoned);
        assert_eq!(fs::read_to_string(&path)?, "old");

        let mut kept = Destination::create(&path, &temporaries)?;
        kept.write(b"new and longer")?;
        kept.overwrite_start(b"NEW")?;
        kept.write(b"!")?;
        kept.commit()?;
        assert_eq!(fs::read_to_string(&path)?, "NEW and longer!");
        assert_eq!(names(folder.path()), ["out"]);
        Ok(())
    }

    #[test]
    fn temporaries_can_be_removed_by_somebody_else() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let temporaries = Temporaries::default();
        let unfinished = Destination::create(&folder.path().join("out"), &temporaries)?;
        assert_eq!(names(folder.path()).len(), 1);
        temporaries.remove_all();
        assert_eq!(names(folder.path()).len(), 0);
        drop(unfinished);
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_permissions_are_kept() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir()?;
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640))?;
        symlink("file", &link)?;
        let mut destination = Destination::create(&link, &Temporaries::default())?;
        destination.write(b"new")?;
        destination.commit()?;
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        assert_eq!(fs::read_to_string(&file)?, "new");
        assert_eq!(fs::metadata(&file)?.permissions().mode() & 0o777, 0o640);

        let dangling = folder.path().join("dangling");
        symlink("not-yet", &dangling)?;
        Destination::create(&dangling, &Temporaries::default())?.commit()?;
        assert!(fs::symlink_metadata(&dangling)?.is_symlink());
        assert!(folder.path().join("not-yet").is_file());
        Ok(())
    }

    #[test]
    fn a_folder_is_no_output() {
        let error =
            Destination::create(Path::new("."), &Temporaries::default()).expect_err("a folder");
        assert!(error.to_string().starts_with("cannot write"));
    }
}
