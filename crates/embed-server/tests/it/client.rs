//! A client that sends what it is told and reads one answer.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer takes no longer, or the server hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a request and reads its answer. `Host`, and the length of a body, are added unless said.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let says = |name: &str| headers.iter().any(|(said, _)| said.eq_ignore_ascii_case(name));
        if !says("host") {
            head.push_str("host: localhost\r\n");
        }
        if !body.is_empty() && !says("content-length") && !says("transfer-encoding") {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes());
        self.write(body.as_bytes());
        self.answer()
    }

    /// Posts JSON.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body)
    }

    /// Sends bytes. A server that reads no further is no fault here.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Ends the sending side.
    pub(crate) fn end_sending(&mut self) {
        self.stream.get_mut().shutdown(Shutdown::Write).expect("open");
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer")
    }

    /// Reads one answer; `None` if the connection ends in front of it, in order.
    pub(crate) fn try_answer(&mut self) -> Option<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).expect("no reset and no hang") == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.unwrap_or_else(|| panic!("not an answer: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a line");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if status == 100 {
            return self.try_answer();
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.chunks();
        } else {
            let length =
                answer.header("content-length").map_or(0, |n| n.parse().expect("a number"));
            answer.body = vec![0; length];
            self.stream.read_exact(&mut answer.body).expect("the whole body");
        }
        Some(answer)
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("the size of a chunk");
            let size = usize::from_str_radix(line.trim_end(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).expect("a chunk");
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    /// Whether the server ends the connection without another byte.
    pub(crate) fn is_ended(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(said, _)| said == name).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The body of a good answer.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The `error` object of an answer with this status, which has all its keys.
    #[track_caller]
    pub(crate) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let body: Value = serde_json::from_slice(&self.body).expect("JSON");
        let error = &body["error"];
        let keys: Vec<&str> =
            error.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "message", "param", "type"], "{body}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        error.clone()
    }
}
