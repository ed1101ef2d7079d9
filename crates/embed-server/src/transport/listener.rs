//! A socket that listens: TCP, or one in the file system.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::unix;
use crate::settings::Listen;

/// Where connections come from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(unix::Listener),
}

/// A new connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(unix::Stream),
}

impl Listener {
    /// Takes the place where `listen` says to.
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => listen_at(*address).map(Self::Tcp),
            Listen::Unix(path) => unix::Listener::bind(path).await.map(Self::Unix),
        }
    }

    /// Where that is, for people and for clients.
    pub(crate) fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("http://{}", listener.local_addr()?)),
            Self::Unix(listener) => Ok(format!("unix:{}", listener.path().display())),
        }
    }

    /// Whether it is a port that only this machine can reach, a browser on it included.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            Self::Unix(_) => false,
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
            Self::Unix(listener) => listener.accept().await.map(Socket::Unix),
        }
    }
}

/// So many connections may wait to be accepted; the system may allow fewer. With less, a client that
/// comes in a burst would wait a second until it tries again.
const BACKLOG: u32 = 1024;

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that was ended a moment ago may be started again. On Windows this would let two listen.
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Of an answer that its client does not read yet the system takes so much, and the rest stays here, where
/// it is counted.
///
/// By itself the system takes megabytes, and takes no more until a third of them was read: a client that
/// reads slowly and steadily would seem to read nothing for a long time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn keep_the_system_short(stream: &TcpStream) {
    const UNSENT: u32 = 1 << 17;
    // Without it things are as they were.
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn keep_the_system_short(_: &TcpStream) {}
