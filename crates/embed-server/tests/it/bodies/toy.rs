//! A server of a model that costs nothing, and a client that reads whatever it answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use embed_core::{Embedder, EncodeOptions, Input, RowInfo, Tokens};
use embed_server::{Keys, Listen, Place, ServedModel, Server, Settings};
use serde_json::Value;
use tokio::sync::oneshot;

/// A row is the number of bytes of its text, or of its ids, and a token is a byte.
struct Toy;

/// Dimensions of a row.
pub(super) const DIM: usize = 8;

impl Embedder for Toy {
    fn dim(&self) -> usize {
        DIM
    }

    fn model_id(&self) -> &'static str {
        "toy"
    }

    fn embed_into(
        &self,
        inputs: &[Input<'_>],
        options: &EncodeOptions,
        out: &mut [f32],
        info: &mut [RowInfo],
    ) -> Result<(), embed_core::Error> {
        let dim = self.output_dim(options)?;
        for ((input, row), info) in inputs.iter().zip(out.chunks_exact_mut(dim)).zip(info) {
            let tokens = match input {
                Input::Text(text) => text.len(),
                Input::Ids(ids) => ids.len(),
            };
            row.fill(tokens as f32);
            *info = RowInfo { tokens, kept: tokens, ..RowInfo::default() };
        }
        Ok(())
    }
}

impl Tokens for Toy {
    fn token_ids(
        &self,
        text: &str,
        options: &EncodeOptions,
        ids: &mut Vec<u32>,
    ) -> Result<RowInfo, embed_core::Error> {
        ids.extend(text.bytes().map(u32::from));
        self.count_tokens(text, options)
    }

    fn count_tokens(&self, text: &str, _: &EncodeOptions) -> Result<RowInfo, embed_core::Error> {
        Ok(RowInfo { tokens: text.len(), kept: text.len(), ..RowInfo::default() })
    }

    fn vocabulary_size(&self) -> usize {
        256
    }
}

/// A server on a port of its own, which ends when this is dropped.
pub(super) struct Toys {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Toys {
    /// Serves the toy model, called `toy`, at a port that is free.
    pub(super) fn serve(settings: Settings) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (told, address) = mpsc::channel();
        let listen = Listen::Tcp("127.0.0.1:0".parse().expect("an address"));
        let settings = Settings { listen, ..settings };
        let thread = std::thread::spawn(move || {
            let served = ServedModel {
                name: "toy".to_owned(),
                aliases: vec!["other/toy".to_owned()],
                model: Arc::new(Toy),
                options: EncodeOptions::default(),
                place: Place::Processor,
            };
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let server =
                    Server::bind(settings, Keys::default(), vec![served]).await.expect("a server");
                let address = server.address().trim_start_matches("http://").to_owned();
                told.send(address).expect("somebody waits for it");
                server
                    .run(async {
                        // A test that fails drops the sender, which ends the server too.
                        let _ = stopped.await;
                    })
                    .await;
            });
        });
        let address = address.recv().expect("the server starts");
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    /// A client of this server.
    pub(super) fn client(&self) -> Client {
        Client { address: self.address.clone(), connection: None }
    }
}

impl Drop for Toys {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// What the server said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// Sends bodies over a connection that is kept while the server keeps it.
pub(super) struct Client {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

/// No answer takes as long: a server that is silent for this time hangs.
const PATIENCE: Duration = Duration::from_secs(20);

impl Client {
    /// Posts a body and reads the answer, which must be JSON.
    pub(super) fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        let mut connection = self.connection.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(&self.address).expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
            stream.set_nodelay(true).expect("an option");
            BufReader::new(stream)
        });
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        connection.get_mut().write_all(&[head.as_bytes(), body].concat()).expect("room");
        let (answer, is_kept) = read_answer(&mut connection);
        if is_kept {
            self.connection = Some(connection);
        }
        answer
    }
}

/// Reads an answer, and whether the connection goes on after it.
fn read_answer(connection: &mut BufReader<TcpStream>) -> (Answer, bool) {
    let mut line = || {
        let mut line = String::new();
        connection.read_line(&mut line).expect("a line in time");
        assert!(line.ends_with("\r\n"), "cut off after {line:?}");
        line.truncate(line.len() - 2);
        line
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let (mut length, mut is_json, mut is_kept) = (None, false, true);
    loop {
        let header = line().to_ascii_lowercase();
        match header.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse::<usize>().ok(),
            Some(("content-type", value)) => is_json = value == "application/json",
            Some(("connection", value)) => is_kept = value != "close",
            Some(_) => {}
        }
    }
    assert!(is_json, "{first}: not said to be JSON");
    let body = match length {
        Some(length) => {
            let mut body = vec![0; length];
            connection.read_exact(&mut body).expect("the whole body in time");
            body
        }
        None => read_chunks(connection),
    };
    let body = serde_json::from_slice(&body).unwrap_or_else(|error| {
        panic!("{first}: {error}: {}", String::from_utf8_lossy(&body));
    });
    (Answer { status, body }, is_kept)
}

fn read_chunks(connection: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        connection.read_line(&mut size).expect("the size of a chunk in time");
        let size = usize::from_str_radix(size.trim_end(), 16).expect("a size");
        let start = body.len();
        body.resize(start + size + 2, 0);
        connection.read_exact(&mut body[start..]).expect("a chunk in time");
        body.truncate(start + size);
        if size == 0 {
            return body;
        }
    }
}
