//! A socket in the file system, for the same user alone.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A connection.
pub(super) type Stream = UnixStream;

/// A socket that listens. Its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    file: SocketFile,
}

impl Listener {
    /// Takes a path, also where a server that ended without cleaning up had it.
    pub(super) async fn bind(path: &Path) -> io::Result<Self> {
        remove_if_stale(path).await?;
        let (socket, file) = bind_private(path)?;
        Ok(Self { socket, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        self.socket.accept().await.map(|(stream, _)| stream)
    }
}

/// Makes room where a server ended without cleaning up.
async fn remove_if_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if !is_socket {
        // Binding says what is wrong with anything else that is there.
        return Ok(());
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
    }
}

/// Binds to a path that only this user may open, from the first moment on.
///
/// The socket is made in a folder closed to others, and moved to its place when it has its mode: the mask
/// for new files, which would be the other way, belongs to all threads of the process.
fn bind_private(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is another file"));
    }
    // Names of sockets have an end, so this one is short.
    let folder = path.with_file_name(format!(".{}", std::process::id()));
    let inside = folder.join("s");
    // A process of the same number that was killed right here would have left these.
    let _ = fs::remove_file(&inside);
    let _ = fs::remove_dir(&folder);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
        let file = SocketFile::new(path, &fs::symlink_metadata(&inside)?);
        fs::rename(&inside, path)?;
        Ok((listener, file))
    });
    // It is gone by now if all went well.
    let _ = fs::remove_file(&inside);
    let removed = fs::remove_dir(&folder);
    let bound = bound?;
    removed.map(|()| bound)
}

/// The file of a socket, removed when dropped, unless another one has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path, data: &fs::Metadata) -> Self {
        Self { path: path.to_owned(), identity: (data.dev(), data.ino()) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let data = fs::symlink_metadata(&self.path);
        if data.is_ok_and(|data| (data.dev(), data.ino()) == self.identity) {
            // Somebody else may have removed it at this moment.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_unix_socket_is_for_the_same_user_alone_and_cleaned_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.sock");
        let listener = Listener::bind(&path).await.expect("free");
        assert_eq!(listener.path(), path);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = Listener::bind(&path).await.expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
    }

    #[tokio::test]
    async fn a_socket_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.sock");
        let first = Listener::bind(&path).await.expect("free");
        fs::remove_file(&path).expect("there");
        let second = Listener::bind(&path).await.expect("free again");
        drop(first);
        assert!(path.exists(), "it belongs to the second one");
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_dead_server_left_is_replaced_and_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("free"));
        assert!(path.exists());
        assert!(Listener::bind(&path).await.is_ok());
        fs::write(&path, "a file").expect("written");
        let error = Listener::bind(&path).await.expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"a file");
    }
}
