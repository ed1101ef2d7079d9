//! A server from its start to its end.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use embed_batcher::ConfigError;
use embed_core::{Input, RowInfo};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::App;
use crate::metrics::Metrics;
use crate::model::{Running, ServedModel};
use crate::routes;
use crate::settings::{Keys, Settings};
use crate::transport::doors::Doors;
use crate::transport::listener::Listener;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is nothing to serve.
    #[error("there is no model to serve")]
    NoModel,
    /// Two models want the same name.
    #[error("two models are called `{name}`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The place to listen at cannot be had.
    #[error("cannot listen at {listen}")]
    Listen {
        /// What was asked for.
        listen: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A batcher does not take these settings.
    #[error("the batcher of `{model}` does not start")]
    Batcher {
        /// The model.
        model: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// A model fails on a first text.
    #[error("the model `{model}` does not embed")]
    Model {
        /// The model.
        model: String,
        /// Its error.
        source: embed_core::Error,
    },
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Connections that were cut off because the time for draining was over.
    pub abandoned: usize,
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: Listener,
    address: String,
    app: Arc<App>,
}

impl Server {
    /// Starts the batchers of the models on the runtime that is current here, tries each model on a text,
    /// and takes the place to listen at.
    ///
    /// # Errors
    ///
    /// [`StartError`]: everything that would keep it from serving.
    pub async fn bind(
        settings: Settings,
        keys: Keys,
        models: Vec<ServedModel>,
    ) -> Result<Self, StartError> {
        check_names(&models)?;
        let metrics = Metrics::new(models.iter().map(|model| &*model.name));
        let mut running = Vec::with_capacity(models.len());
        for served in models {
            let name = served.name.clone();
            warm_up(&served).map_err(|source| StartError::Model { model: name.clone(), source })?;
            let model = Running::start(served, &settings, &metrics)
                .map_err(|source| StartError::Batcher { model: name, source })?;
            running.push(Arc::new(model));
        }
        let failed = |source| {
            let listen = settings.listen.to_string();
            StartError::Listen { listen, source }
        };
        let listener = Listener::bind(&settings.listen).await.map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        let checks_host = listener.is_loopback();
        let app = Arc::new(App::new(settings, keys, running, metrics, checks_host));
        Ok(Self { listener, address, app })
    }

    /// Where it listens: `http://127.0.0.1:8080`, or `unix:/run/embed.sock`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Answers requests until `stop` is ready, then ends in order: work that was admitted is finished,
    /// new work is refused with 503, and connections are closed without a reset, all within the time for
    /// draining.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Ended {
        let Self { listener, app, .. } = self;
        app.metrics.set_ready(true);
        let (drained, subscriber) = watch::channel(None);
        let doors = Doors::new(&app, listener, routes::router(&app), subscriber);
        let ending = async {
            stop.await;
            app.begin_drain();
            // Without a connection there is nobody to tell.
            let _ = drained.send(app.drained_at());
            let deadline = drain(&app).await;
            // Those whose work was cut off are still told so.
            doors.empty(deadline + LAST_ANSWERS).await
        };
        // Who comes while the server drains is told so.
        let abandoned = doors.open_until(ending).await;
        doors.close().await;
        Ended { abandoned }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// How long connections may take beyond the time for draining, to be told that their work was cut off.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Names lead to one model.
fn check_names(models: &[ServedModel]) -> Result<(), StartError> {
    if models.is_empty() {
        return Err(StartError::NoModel);
    }
    let mut names: Vec<&String> = models
        .iter()
        .flat_map(|model| std::iter::once(&model.name).chain(&model.aliases))
        .collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(StartError::NameTaken { name: pair[0].clone() }),
        None => Ok(()),
    }
}

/// One text, so that the first request finds everything in its place.
fn warm_up(served: &ServedModel) -> Result<(), embed_core::Error> {
    let dim = served.model.output_dim(&served.options)?;
    let mut row = vec![0.0; dim];
    let inputs = [Input::Text("ready")];
    served.model.embed_into(&inputs, &served.options, &mut row, &mut [RowInfo::default()])
}

/// Lets the batchers finish what they have; returns until when connections may take.
async fn drain(app: &App) -> Instant {
    let begun = app.drained_at().unwrap_or_else(Instant::now);
    let deadline = begun + app.settings.drain;
    let mut drains: Vec<_> =
        app.models.iter().map(|model| Box::pin(model.batcher.drain(deadline.into_std()))).collect();
    poll_fn(|cx| {
        drains.retain_mut(|drain| drain.as_mut().poll(cx).is_pending());
        if drains.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    deadline
}
