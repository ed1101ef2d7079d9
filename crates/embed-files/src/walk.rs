//! Which files to read: arguments and folders to a sorted list without duplicates.
//!
//! Folders are walked with the rules of `.gitignore` and `.ignore` files, hidden files are left out,
//! and symbolic links are not followed. What is named by the caller is always taken: hidden, ignored
//! or behind a link. Sources are sorted by the bytes of their paths, whatever order the arguments and
//! the file system have.

use std::fs::{self, FileType};
use std::io;
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};

use crate::error::{Error, SkipReason, Skipped};
pub use crate::output_files::OutputFiles;

/// The name that stands for standard input.
pub const STDIN: &str = "-";

/// Names that the output's temporary files begin with: never read, whatever the options.
pub(crate) const TEMPORARY_PREFIX: &str = ".embed-tmp-";

/// What a walk takes besides the default.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// Take hidden files and folders too.
    pub hidden: bool,
    /// Take files that `.gitignore` and `.ignore` exclude.
    pub no_ignore: bool,
    /// Take only files that match, ignored and hidden ones too; a leading `!` excludes files or whole
    /// folders instead. The last matching glob decides. Globs with a slash are relative to the folder
    /// that is walked.
    pub globs: Vec<String>,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub struct Sources {
    /// Paths of readable files, and [`STDIN`], sorted by their bytes.
    pub paths: Vec<PathBuf>,
    /// What cannot be read, in the order in which it was found.
    pub skipped: Vec<Skipped>,
}

/// Finds the files that `arguments` name, and those below the folders that they name.
///
/// Files among `outputs` are never their own input: a walk leaves them out.
///
/// # Errors
///
/// [`Error::InputIsOutput`] if an output is named as an input, and [`Error::Glob`] if a glob is
/// malformed. Unreadable paths are no errors: they are in [`Sources::skipped`].
pub fn find(
    arguments: &[PathBuf],
    outputs: &OutputFiles,
    options: &WalkOptions,
) -> Result<Sources, Error> {
    // Malformed globs are refused also where no folder is walked.
    compile_globs(Path::new("."), &options.globs)?;
    let mut walk = Walk { outputs, options, paths: Vec::new(), skipped: Vec::new() };
    for argument in arguments {
        walk.argument(argument)?;
    }
    let Walk { mut paths, skipped, .. } = walk;
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    paths.dedup();
    Ok(Sources { paths, skipped })
}

/// Globs relative to a folder.
fn compile_globs(folder: &Path, globs: &[String]) -> Result<Override, Error> {
    let mut builder = OverrideBuilder::new(folder);
    for glob in globs {
        builder.add(glob).map_err(|source| Error::Glob { glob: glob.clone(), source })?;
    }
    let all = || globs.join(" ");
    builder.build().map_err(|source| Error::Glob { glob: all(), source })
}

struct Walk<'a> {
    outputs: &'a OutputFiles,
    options: &'a WalkOptions,
    paths: Vec<PathBuf>,
    skipped: Vec<Skipped>,
}

impl Walk<'_> {
    fn argument(&mut self, argument: &Path) -> Result<(), Error> {
        if argument == Path::new(STDIN) {
            self.paths.push(argument.to_owned());
            return Ok(());
        }
        let path = plain(argument);
        match fs::metadata(&path) {
            Err(error) => {
                let reason = unreadable(&path, error);
                self.skip(&path, reason);
            }
            Ok(metadata) if metadata.is_dir() => self.folder(&path)?,
            Ok(metadata) if self.outputs.contain(&path, &metadata) => {
                return Err(Error::InputIsOutput { path });
            }
            // A pipe that is named is read: `<(command)` of a shell is one.
            Ok(metadata) if metadata.is_file() || is_pipe(metadata.file_type()) => {
                self.paths.push(path);
            }
            Ok(metadata) => {
                let kind = SkipReason::NotRegular(kind_name(metadata.file_type()));
                self.skip(&path, kind);
            }
        }
        Ok(())
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        let respect = !self.options.no_ignore;
        let mut builder = WalkBuilder::new(folder);
        builder
            .overrides(compile_globs(folder, &self.options.globs)?)
            .hidden(!self.options.hidden)
            .ignore(respect)
            .git_ignore(respect)
            .git_exclude(respect)
            .parents(respect)
            // What a user has set for all repositories must not decide what an index holds.
            .git_global(false)
            .require_git(false)
            .follow_links(false);
        for entry in builder.build() {
            match entry {
                Ok(entry) => self.entry(&entry),
                Err(error) => {
                    let path = path_of(&error).unwrap_or_else(|| folder.to_owned());
                    self.skip(&plain(&path), SkipReason::Unwalkable(error));
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &ignore::DirEntry) {
        let Some(kind) = entry.file_type() else { return };
        let path = plain(entry.path());
        let temporary =
            entry.file_name().as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes());
        if kind.is_dir() || temporary {
            return;
        }
        if kind.is_symlink() {
            if fs::metadata(&path).is_err() {
                self.skip(&path, SkipReason::BrokenLink);
            }
        } else if !kind.is_file() {
            self.skip(&path, SkipReason::NotRegular(kind_name(kind)));
        } else if !entry.metadata().is_ok_and(|metadata| self.outputs.contain(&path, &metadata)) {
            self.paths.push(path);
        }
    }

    fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push(Skipped::new(path, reason));
    }
}

/// The path without `.` parts and trailing slashes, so that `d`, `d/` and `./d` are one.
fn plain(path: &Path) -> PathBuf {
    let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    match plain.as_os_str() {
        name if name.is_empty() => PathBuf::from("."),
        // A file of that name is not standard input.
        name if name == STDIN => Path::new(".").join(STDIN),
        _ => plain,
    }
}

fn unreadable(path: &Path, error: io::Error) -> SkipReason {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link && error.kind() == io::ErrorKind::NotFound {
        SkipReason::BrokenLink
    } else {
        SkipReason::Unreadable(error)
    }
}

/// The path that an error of the walk is about.
fn path_of(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
    }
}

#[cfg(unix)]
fn is_pipe(kind: FileType) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&kind)
}

#[cfg(not(unix))]
fn is_pipe(_: FileType) -> bool {
    false
}

#[cfg(unix)]
fn kind_name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn kind_name(_: FileType) -> &'static str {
    "something else"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with ignored, hidden and linked files.
    fn tree() -> io::Result<tempfile::TempDir> {
        let tree = tempfile::tempdir()?;
        let file = |name: &str, text: &str| fs::write(tree.path().join(name), text);
        fs::create_dir_all(tree.path().join("a/deep"))?;
        file(".gitignore", "*.log\n")?;
        file("a.txt", "1")?;
        file("a/b.txt", "2")?;
        file("a/deep/c.md", "3")?;
        file("a/noise.log", "4")?;
        file(".hidden", "5")?;
        file(".embed-tmp-x", "6")?;
        Ok(tree)
    }

    #[track_caller]
    fn check(tree: &Path, arguments: &[&str], options: &WalkOptions, expected: &[&str]) {
        let arguments: Vec<PathBuf> = arguments.iter().map(|name| tree.join(name)).collect();
        let sources = find(&arguments, &OutputFiles::default(), options).expect("a walk");
        let found: Vec<String> = sources
            .paths
            .iter()
            .map(|path| path.strip_prefix(tree).expect("inside").display().to_string())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn folders_obey_ignore_files_and_are_sorted_by_path_bytes() -> io::Result<()> {
        let tree = tree()?;
        let default = WalkOptions::default();
        check(tree.path(), &[""], &default, &["a.txt", "a/b.txt", "a/deep/c.md"]);
        let all = WalkOptions { hidden: true, no_ignore: true, ..WalkOptions::default() };
        let expected = [".gitignore", ".hidden", "a.txt", "a/b.txt", "a/deep/c.md", "a/noise.log"];
        check(tree.path(), &[""], &all, &expected);
        Ok(())
    }

    #[test]
    fn named_files_are_always_taken_and_duplicates_once() -> io::Result<()> {
        let tree = tree()?;
        let arguments = ["a/noise.log", ".hidden", "a", "a/", "./a/b.txt"];
        let expected = [".hidden", "a/b.txt", "a/deep/c.md", "a/noise.log"];
        check(tree.path(), &arguments, &WalkOptions::default(), &expected);
        Ok(())
    }

    #[test]
    fn globs_select_and_exclude() -> io::Result<()> {
        let tree = tree()?;
        let globs = |globs: &[&str]| WalkOptions {
            globs: globs.iter().map(|&glob| glob.to_owned()).collect(),
            ..WalkOptions::default()
        };
        check(tree.path(), &[""], &globs(&["*.txt"]), &["a.txt", "a/b.txt"]);
        check(tree.path(), &[""], &globs(&["!*.txt"]), &["a/deep/c.md"]);
        check(tree.path(), &[""], &globs(&["!deep"]), &["a.txt", "a/b.txt"]);
        check(tree.path(), &[""], &globs(&["a/*.txt"]), &["a/b.txt"]);
        assert!(
            matches!(find(&[], &OutputFiles::default(), &globs(&["a[b"])), Err(Error::Glob { glob, .. }) if glob == "a[b")
        );
        Ok(())
    }

    #[test]
    fn a_file_called_dash_is_not_standard_input() {
        assert_eq!(plain(Path::new("./-")), Path::new("./-"));
        assert_eq!(plain(Path::new("./a/./b/")), Path::new("a/b"));
        assert_eq!(plain(Path::new("./")), Path::new("."));
    }

    #[test]
    fn missing_paths_are_skipped_with_a_reason() -> Result<(), Error> {
        let sources = find(
            &[PathBuf::from("no/such/file")],
            &OutputFiles::default(),
            &WalkOptions::default(),
        )?;
        assert!(sources.paths.is_empty());
        assert!(matches!(sources.skipped[0].reason, SkipReason::Unreadable(_)));
        Ok(())
    }

    #[test]
    fn an_output_is_never_its_own_input() -> Result<(), Box<dyn std::error::Error>> {
        let tree = tree()?;
        let output = tree.path().join("a/b.txt");
        let outputs = OutputFiles::new([output.as_path(), Path::new("not/there/yet")]);
        let found = find(&[tree.path().to_owned()], &outputs, &WalkOptions::default())?;
        assert_eq!((found.paths.len(), found.skipped.len()), (2, 0));
        let named = find(&[output], &outputs, &WalkOptions::default());
        assert!(matches!(named, Err(Error::InputIsOutput { .. })));
        Ok(())
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_only_when_named() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::symlink;
        let tree = tree()?;
        symlink("a.txt", tree.path().join("z-link"))?;
        symlink("nowhere", tree.path().join("z-broken"))?;
        symlink(".", tree.path().join("z-loop"))?;
        check(
            tree.path(),
            &["", "z-link"],
            &WalkOptions::default(),
            &["a.txt", "a/b.txt", "a/deep/c.md", "z-link"],
        );
        let found =
            find(&[tree.path().to_owned()], &OutputFiles::default(), &WalkOptions::default())?;
        assert_eq!(found.skipped.len(), 1);
        assert!(matches!(found.skipped[0].reason, SkipReason::BrokenLink));
        Ok(())
    }
}
