//! A small HTTP/1.1 client over one blocking connection, which tells apart how a request can fail.
//!
//! It keeps the connection alive, reads answers of any framing into memory that is used again, and never
//! repeats a request: a request that was not answered is what these tasks look for.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::answer::{Chunks, Framing, Head, Malformed, field};
use super::now;

/// How much is read or written at once where nothing else says how much.
const PIECE: usize = 64 << 10;

/// How often a client that listens while it sends looks for an answer when it cannot send.
const GLANCE: Duration = Duration::from_millis(20);

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// Nobody listens.
    Refused,
    /// The other side threw the connection away.
    Reset,
    /// The other side closed the connection in good order, and did not answer.
    Unanswered,
    /// The other side closed the connection within an answer.
    CutShort,
    /// Nothing came in time.
    TimedOut,
    /// What came is no answer.
    Malformed(&'static str),
    /// Anything else.
    Other(ErrorKind),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Reset => f.write_str("reset"),
            Self::Unanswered => f.write_str("closed"),
            Self::CutShort => f.write_str("cut short"),
            Self::TimedOut => f.write_str("timeout"),
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Other(kind) => write!(f, "{kind}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Reset
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::TimedOut,
            kind => Self::Other(kind),
        }
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

/// An answer, in the memory of the client that read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
    /// Whether `100 Continue` came before it.
    pub(crate) continued: bool,
    pub(crate) body: &'a [u8],
    head: &'a [u8],
}

impl Answer<'_> {
    /// The value of a field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        field(self.head, name)
    }
}

/// What became of a request that was sent by a client that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// There was something to read before it was sent as a whole.
    Interrupted,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    /// What was read: `buffer[start..end]` was not used yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The body of an answer in chunks.
    joined: Vec<u8>,
    timeout: Duration,
}

impl Client {
    /// Connects. `timeout` bounds each wait: for the connection, for room to send, for the next bytes.
    pub(crate) fn connect(address: SocketAddr, timeout: Duration) -> Result<Self, Failure> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let buffer = vec![0; PIECE];
        Ok(Self { stream, buffer, start: 0, end: 0, joined: Vec::new(), timeout })
    }

    /// Changes how long each wait may take.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) -> Result<(), Failure> {
        // Zero would be no limit.
        self.timeout = timeout.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(self.timeout))?;
        Ok(self.stream.set_write_timeout(Some(self.timeout))?)
    }

    /// Sends a request and reads its answer. An answer counts too if the request could not be sent to its
    /// end.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>, Failure> {
        match self.send(request) {
            Ok(()) | Err(Failure::Reset) => self.receive(),
            Err(failure) => Err(failure),
        }
    }

    /// Sends bytes, without a look at what comes back.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends bytes and stops as soon as there is something to read.
    pub(crate) fn send_listening(&mut self, mut bytes: &[u8]) -> Result<Sent, Failure> {
        self.stream.set_write_timeout(Some(GLANCE))?;
        let mut waiting = now();
        let sent = loop {
            if bytes.is_empty() {
                break Ok(Sent::Whole);
            }
            match self.has_news() {
                Ok(true) => break Ok(Sent::Interrupted),
                Ok(false) => {}
                Err(failure) => break Err(failure),
            }
            match self.stream.write(&bytes[..bytes.len().min(PIECE)]) {
                Ok(written) => {
                    bytes = &bytes[written..];
                    waiting = now();
                }
                Err(error) => match Failure::from(error) {
                    Failure::TimedOut if waiting.elapsed() < self.timeout => {}
                    failure => break Err(failure),
                },
            }
        };
        self.stream.set_write_timeout(Some(self.timeout))?;
        sent
    }

    /// Whether there are bytes to read, or the other side has closed.
    pub(crate) fn has_news(&self) -> Result<bool, Failure> {
        if self.start < self.end {
            return Ok(true);
        }
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match peeked.map_err(Failure::from) {
            Ok(_) => Ok(true),
            Err(Failure::TimedOut) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&mut self) -> Result<(), Failure> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Reads the next answer.
    pub(crate) fn receive(&mut self) -> Result<Answer<'_>, Failure> {
        let mut continued = false;
        let head = loop {
            if let Some(head) = Head::parse(&self.buffer[self.start..self.end])? {
                if head.status >= 200 {
                    break head;
                }
                continued |= head.status == 100;
                self.start += head.bytes;
            } else {
                self.fill(0).map_err(|failure| match failure {
                    Failure::Unanswered if self.start < self.end => Failure::CutShort,
                    failure => failure,
                })?;
            }
        };
        let head_start = self.start;
        let body_start = head_start + head.bytes;
        match head.framing {
            Framing::Length(length) => {
                // The head moves to the front when room is made, and the body with it.
                while self.end - self.start < head.bytes + length {
                    self.fill(head.bytes + length).map_err(cut_short)?;
                }
                let body = self.start + head.bytes;
                let (from, to) = (self.start, body + length);
                self.start = to;
                let head_bytes = &self.buffer[from..body];
                Ok(Answer {
                    status: head.status,
                    close: head.close,
                    continued,
                    body: &self.buffer[body..to],
                    head: head_bytes,
                })
            }
            Framing::Chunked => {
                let head_bytes = self.buffer[head_start..body_start].to_vec();
                self.start = body_start;
                self.joined.clear();
                let mut chunks = Chunks::default();
                loop {
                    let fresh = &self.buffer[self.start..self.end];
                    self.start += chunks.read(fresh, &mut self.joined)?;
                    if chunks.done() {
                        break;
                    }
                    self.fill(0).map_err(cut_short)?;
                }
                // The head goes behind the body, so that both live in the client's memory.
                let length = self.joined.len();
                self.joined.extend_from_slice(&head_bytes);
                let (body, head_bytes) = self.joined.split_at(length);
                let (status, close) = (head.status, head.close);
                Ok(Answer { status, close, continued, body, head: head_bytes })
            }
            Framing::UntilClose => {
                loop {
                    match self.fill(0) {
                        Ok(()) => {}
                        Err(Failure::Unanswered) => break,
                        Err(failure) => return Err(failure),
                    }
                }
                let (from, to) = (self.start, self.end);
                self.start = to;
                let (head_bytes, body) = self.buffer[from..to].split_at(head.bytes);
                let (status, close) = (head.status, true);
                Ok(Answer { status, close, continued, body, head: head_bytes })
            }
        }
    }

    /// Reads what comes next, with room for `room` bytes from `start` on if that is more than there is.
    fn fill(&mut self, room: usize) -> Result<(), Failure> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let full = self.end == self.buffer.len();
        if self.start > 0 && (full || self.start + room > self.buffer.len()) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() || room > self.buffer.len() {
            let length = room.max(2 * self.buffer.len());
            self.buffer.resize(length, 0);
        }
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Failure::Unanswered),
            Ok(bytes) => {
                self.end += bytes;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The end of a connection within a body.
fn cut_short(failure: Failure) -> Failure {
    if failure == Failure::Unanswered { Failure::CutShort } else { failure }
}

/// One request on a connection of its own; status and body.
pub(crate) fn once(
    address: SocketAddr,
    request: &[u8],
    timeout: Duration,
) -> Result<(u16, Vec<u8>), Failure> {
    let mut client = Client::connect(address, timeout)?;
    let answer = client.exchange(request)?;
    Ok((answer.status, answer.body.to_vec()))
}

#[cfg(test)]
mod tests;
