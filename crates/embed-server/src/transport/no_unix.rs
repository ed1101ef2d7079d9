//! Where there are no sockets in the file system: nothing of this is ever made.

use std::io;
use std::path::Path;

/// Stands for a connection.
pub(super) type Stream = tokio::net::TcpStream;

/// A socket that cannot be.
#[derive(Debug)]
pub(crate) enum Listener {}

impl Listener {
    #[expect(clippy::unused_async, reason = "the same signature as where there are such sockets")]
    pub(super) async fn bind(_: &Path) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "there are no such sockets on this system"))
    }

    pub(super) fn path(&self) -> &Path {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as where there are such sockets")]
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match *self {}
    }
}
