//! From bytes on a socket to requests and back.
//!
//! | module | does |
//! | --- | --- |
//! | `listener` | a socket that listens, and how it is taken |
//! | `unix` | one in the file system |
//! | `doors` | who comes in, and how many at most |
//! | `connection` | one connection from its first byte to its last |
//! | `pace` | what a connection is doing and since when, hence how long it may go on |
//! | `stream` | the socket under hyper, which tells the pace |

mod connection;
pub(crate) mod doors;
pub(crate) mod listener;
mod pace;
mod stream;
#[cfg(not(unix))]
#[path = "no_unix.rs"]
mod unix;
#[cfg(unix)]
mod unix;
