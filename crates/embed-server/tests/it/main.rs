//! The server over real sockets, as clients see it.

mod bodies;
