//! A server on a free port, for one test.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;

use embed_core::EncodeOptions;
use embed_server::{Ended, Keys, Listen, Place, ServedModel, Server, Settings};
use tokio::sync::oneshot;

use crate::client::{Answer, Connection};
use crate::model::{Door, MAX_LENGTH, Scripted};

/// A running server. It is stopped when dropped.
pub(crate) struct Running {
    pub(crate) port: u16,
    /// What texts that wait wait at.
    pub(crate) door: Arc<Door>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Ended>>,
}

/// Settings of tests: any free port, and times that a test can wait for.
pub(crate) fn settings() -> Settings {
    Settings { listen: Listen::Tcp(([127, 0, 0, 1], 0).into()), ..Settings::default() }
}

/// Starts a server of the scripted model, named `m`, with the alias `alias`.
pub(crate) fn start(settings: Settings) -> Running {
    start_with(settings, Keys::default())
}

pub(crate) fn start_with(settings: Settings, keys: Keys) -> Running {
    let model = Scripted::default();
    let door = model.door();
    let served = ServedModel {
        name: "m".into(),
        aliases: vec!["alias".into()],
        model: Arc::new(model),
        options: EncodeOptions::default(),
        max_tokens: NonZeroUsize::new(MAX_LENGTH),
        place: Place::Processor,
    };
    let (stop, stopped) = oneshot::channel();
    let (bound, port) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let server = Server::bind(settings, keys, vec![served]).await.expect("it starts");
            let port = server.address().rsplit_once(':').expect("an address").1.parse();
            bound.send(port.expect("a port")).expect("the test waits");
            server.run(async { drop(stopped.await) }).await
        })
    });
    let port = port.recv().expect("it starts");
    Running { port, door, stop: Some(stop), thread: Some(thread) }
}

impl Running {
    /// A new connection.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port)
    }

    /// The answer to one request on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.connect().send("GET", path, &[], "")
    }

    /// The same with a body of JSON.
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.connect().post(path, body)
    }

    /// Asks the server to end.
    pub(crate) fn stop(&mut self) {
        // A server that has ended is asked too late.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Asks it to end and waits for it.
    pub(crate) fn end(mut self) -> Ended {
        self.stop();
        self.thread.take().expect("not ended yet").join().expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody may be left waiting.
        self.door.open();
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}
