//! The keys of callers.
//!
//! They come from a file or from an environment variable, never from arguments, which other processes
//! can read. They are never shown: not by `Debug`, not in an error, not in a log.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use subtle::{Choice, ConstantTimeEq as _};

use super::KEYS_VARIABLE;
use super::kind::items;

/// The keys that are accepted; none if nobody is asked for one.
#[derive(Clone, Default)]
pub struct Keys {
    keys: Vec<Box<[u8]>>,
}

/// Keys, and what should be said about where they were found.
#[derive(Debug)]
pub struct LoadedKeys {
    /// The keys.
    pub keys: Keys,
    /// What is not as it should be.
    pub warnings: Vec<KeysWarning>,
}

/// Something about keys that their owner should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeysWarning {
    /// Every user of the machine may read the file.
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

impl fmt::Display for KeysWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Readable { path, mode } => write!(
                f,
                "{} has mode {mode:04o}: every user of this machine can read the keys in it (chmod o-r)",
                path.display()
            ),
        }
    }
}

/// Why there are no keys where there should be some.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read the keys in {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// There is no key in it.
    #[error("{origin}: there is no key in it")]
    None {
        /// The file or the variable.
        origin: KeyOrigin,
    },
    /// A key that no request could carry.
    #[error(
        "{origin}: key {number} has a blank, or a character that is not ASCII: no request could carry it"
    )]
    Unusable {
        /// The file or the variable.
        origin: KeyOrigin,
        /// Which key it is, from 1.
        number: usize,
    },
}

/// Where keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// A file.
    File(PathBuf),
    /// The environment.
    Environment,
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Environment => f.write_str(KEYS_VARIABLE),
        }
    }
}

impl Keys {
    /// The keys of a file, one a line, and those of the environment variable `EMBED_API_KEYS`, separated by
    /// commas; both count. In the file blank lines and those that begin with `#` do not.
    ///
    /// An empty `env` is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, if there is a source without a key, or a key that cannot be one.
    pub fn load(file: Option<&Path>, env: Option<&str>) -> Result<LoadedKeys, KeysError> {
        let mut keys = Vec::new();
        let mut warnings = Vec::new();
        if let Some(path) = file {
            let read = |source| KeysError::Read { path: path.to_owned(), source };
            let bytes = fs::read(path).map_err(read)?;
            warnings.extend(readable(path).map_err(read)?);
            // What is not UTF-8 is no key either.
            let text = String::from_utf8_lossy(&bytes);
            let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            add(&mut keys, lines, &KeyOrigin::File(path.to_owned()))?;
        }
        if let Some(text) = env.filter(|text| !text.is_empty()) {
            add(&mut keys, items(text), &KeyOrigin::Environment)?;
        }
        Ok(LoadedKeys { keys: Self { keys }, warnings })
    }

    /// Whether there is none, and nobody is asked for one.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether `presented` is one of the keys.
    ///
    /// The time that it takes depends on the keys alone: every one of them is compared to its end,
    /// whatever was presented, and whether or not one was equal.
    pub fn accept(&self, presented: &[u8]) -> bool {
        let none = Choice::from(0);
        self.keys.iter().fold(none, |found, key| found | equal(key, presented)).into()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("count", &self.keys.len()).finish_non_exhaustive()
    }
}

fn equal(key: &[u8], presented: &[u8]) -> Choice {
    let same_length = (key.len() as u64).ct_eq(&(presented.len() as u64));
    key.iter().enumerate().fold(same_length, |equal, (index, byte)| {
        equal & byte.ct_eq(presented.get(index).unwrap_or(&0))
    })
}

/// Adds the keys of one source, of which there must be one.
fn add<'a>(
    keys: &mut Vec<Box<[u8]>>,
    texts: impl Iterator<Item = &'a str>,
    origin: &KeyOrigin,
) -> Result<(), KeysError> {
    let before = keys.len();
    for (index, text) in texts.enumerate() {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeysError::Unusable { origin: origin.clone(), number: index + 1 });
        }
        keys.push(text.as_bytes().into());
    }
    if keys.len() == before { Err(KeysError::None { origin: origin.clone() }) } else { Ok(()) }
}

/// A warning if everybody may read the file. That a group may is how a service is given a file.
#[cfg(unix)]
fn readable(path: &Path) -> io::Result<Option<KeysWarning>> {
    use std::os::unix::fs::PermissionsExt as _;

    // A pipe or a device has no contents that others could read.
    let metadata = fs::metadata(path)?;
    let mode = metadata.permissions().mode() & 0o7777;
    let is_open = metadata.is_file() && mode & 0o004 != 0;
    Ok(is_open.then(|| KeysWarning::Readable { path: path.to_owned(), mode }))
}

#[cfg(not(unix))]
fn readable(_: &Path) -> io::Result<Option<KeysWarning>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of a file that only its owner can read.
    fn load(contents: &[u8], env: Option<&str>) -> Result<LoadedKeys, KeysError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        fs::write(&path, contents).expect("a file");
        #[cfg(unix)]
        chmod(&path, 0o600);
        Keys::load(Some(&path), env)
    }

    #[cfg(unix)]
    fn chmod(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;

        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }

    #[test]
    fn without_a_source_there_is_no_key_and_nothing_is_accepted() -> Result<(), KeysError> {
        for env in [None, Some("")] {
            let LoadedKeys { keys, warnings } = Keys::load(None, env)?;
            assert!(keys.is_empty() && warnings.is_empty());
            assert!(!keys.accept(b"") && !keys.accept(b"x"));
        }
        Ok(())
    }

    #[test]
    fn keys_of_file_and_environment_are_accepted() -> Result<(), KeysError> {
        let file = b"\xef\xbb\xbf# of the team\nsk-one\n\n  sk-two \r\n";
        let LoadedKeys { keys, warnings } = load(file, Some("sk-three, sk-four,"))?;
        assert!(!keys.is_empty() && warnings.is_empty());
        for key in ["sk-one", "sk-two", "sk-three", "sk-four"] {
            assert!(keys.accept(key.as_bytes()), "{key}");
        }
        for wrong in ["", "sk-", "sk-onE", "sk-one ", "sk-one\0", "sk-onesk-two", "# of the team"] {
            assert!(!keys.accept(wrong.as_bytes()), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn a_source_without_a_key_is_an_error() {
        assert!(matches!(
            load(b"# nothing\n", None),
            Err(KeysError::None { origin: KeyOrigin::File(_) })
        ));
        let env = Keys::load(None, Some(" , "));
        assert!(matches!(env, Err(KeysError::None { origin: KeyOrigin::Environment })));
        let missing = Keys::load(Some(Path::new("/no/such/file")), None);
        assert!(matches!(missing, Err(KeysError::Read { .. })));
    }

    #[test]
    fn neither_errors_nor_debug_show_a_key() {
        let error = load("fine\nsecret word\n".as_bytes(), None).expect_err("a blank");
        assert!(matches!(error, KeysError::Unusable { number: 2, .. }));
        assert!(!format!("{error} {error:?}").contains("secret"));
        let error = Keys::load(None, Some("sécret")).expect_err("not ASCII");
        assert!(!format!("{error} {error:?}").contains("cret"));
        let loaded = Keys::load(None, Some("secret")).expect("a key");
        assert_eq!(format!("{:?}", loaded.keys), "Keys { count: 1, .. }");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_warned_of() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("keys");
        fs::write(&path, "key\n")?;
        for (mode, warns) in [(0o600, false), (0o400, false), (0o640, false), (0o604, true)] {
            chmod(&path, mode);
            let warnings = Keys::load(Some(&path), None)?.warnings;
            let expected = KeysWarning::Readable { path: path.clone(), mode };
            assert_eq!(warnings, if warns { vec![expected] } else { Vec::new() });
        }
        let warning = KeysWarning::Readable { path: "keys".into(), mode: 0o644 }.to_string();
        assert!(warning.starts_with("keys has mode 0644: "), "{warning}");
        Ok(())
    }
}
