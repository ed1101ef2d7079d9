//! A socket that listens: TCP, or a Unix socket for the same user alone.

use std::fs;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use crate::settings::Listen;

/// Where connections come from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A new connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Takes the place where `listen` says to.
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => listen_at(*address).map(Self::Tcp),
            Listen::Unix(path) => {
                remove_if_stale(path).await?;
                let (listener, file) = bind_private(path)?;
                Ok(Self::Unix(listener, file))
            }
        }
    }

    /// Where that is, for people and for clients.
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Unix(_, file) => Ok(format!("unix:{}", file.path.display())),
        }
    }

    /// Whether it is a port that only this machine can reach, a browser on it included.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            Self::Unix(..) => false,
        }
    }

    /// The next connection that is there already, if one is.
    pub(crate) async fn accept_now(&self) -> Option<Socket> {
        let mut accepting = pin!(self.accept());
        match poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx))).await {
            Poll::Ready(socket) => socket.ok(),
            Poll::Pending => None,
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole and wait for nothing; a refusal is no harm.
                let _ = stream.set_nodelay(true);
                keep_the_system_short(&stream);
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener, _) => {
                listener.accept().await.map(|(stream, _)| Socket::Unix(stream))
            }
        }
    }
}

/// So many connections may wait to be accepted; the system may allow fewer. With less, a client that
/// comes in a burst would wait a second until it tries again.
const BACKLOG: u32 = 1024;

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that was ended a moment ago may be started again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Of an answer that its client does not read yet the system takes so much, and the rest stays here, where
/// it is counted.
///
/// By itself the system takes megabytes, and takes no more until a third of them was read: a client that reads
/// slowly and steadily would seem to read nothing for a long time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn keep_the_system_short(stream: &TcpStream) {
    const UNSENT: u32 = 1 << 17;
    // Without it things are as they were.
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn keep_the_system_short(_: &TcpStream) {}

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
pub(crate) struct SocketFile {
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
        let listen = Listen::Unix(path.clone());
        let listener = Listener::bind(&listen).await.expect("free");
        assert_eq!(listener.address().expect("known"), format!("unix:{}", path.display()));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = Listener::bind(&listen).await.expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
    }

    #[tokio::test]
    async fn a_socket_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.sock");
        let listen = Listen::Unix(path.clone());
        let first = Listener::bind(&listen).await.expect("free");
        fs::remove_file(&path).expect("there");
        let second = Listener::bind(&listen).await.expect("free again");
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
        assert!(Listener::bind(&Listen::Unix(path.clone())).await.is_ok());
        fs::write(&path, "a file").expect("written");
        let error = Listener::bind(&Listen::Unix(path.clone())).await.expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("there"), b"a file");
    }
}
