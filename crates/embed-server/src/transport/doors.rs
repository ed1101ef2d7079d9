//! Who comes in, how many at most, and who is still there.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::connection;
use super::listener::{Listener, Socket};
use crate::app::App;
use crate::error::ApiError;

/// The doors of a server.
pub(crate) struct Doors {
    app: Arc<App>,
    listener: Listener,
    router: Router,
    drained: watch::Receiver<Option<Instant>>,
    /// A permit for each connection that may be open.
    room: Arc<Semaphore>,
    /// Those who find no room are told so, a few at a time.
    refusing: Arc<Semaphore>,
}

/// So many connections beyond the limit are told at once why they are not served.
const REFUSED_AT_ONCE: u32 = 256;

impl Doors {
    pub(crate) fn new(
        app: &Arc<App>,
        listener: Listener,
        router: Router,
        drained: watch::Receiver<Option<Instant>>,
    ) -> Self {
        Self {
            app: Arc::clone(app),
            listener,
            router,
            drained,
            room: Arc::new(Semaphore::new(app.settings.max_connections)),
            refusing: Arc::new(Semaphore::new(REFUSED_AT_ONCE as usize)),
        }
    }

    /// Takes connections in until `done`.
    pub(crate) async fn open_until<T>(&self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        let mut accepting = pin!(self.accept_forever());
        poll_fn(|cx| {
            if let Poll::Ready(never) = accepting.as_mut().poll(cx) {
                match never {}
            }
            done.as_mut().poll(cx)
        })
        .await
    }

    /// Ready when no connection is left, or at the deadline; returns how many are. Who comes in meanwhile is
    /// told that there is no room.
    pub(crate) async fn empty(&self, deadline: Instant) -> usize {
        let limit = self.app.settings.max_connections;
        let all = u32::try_from(limit).unwrap_or(u32::MAX);
        // Waiting for all permits keeps newcomers from taking those that come back.
        match timeout_at(deadline, self.room.acquire_many(all)).await {
            Ok(_) => 0,
            Err(_) => limit - self.room.available_permits(),
        }
    }

    /// Closes the doors: whoever is in front of them is told so, whoever comes later finds nobody who
    /// listens. Ready when all were told, or in a moment.
    pub(crate) async fn close(self) {
        let Self { app, listener, refusing, .. } = self;
        // More than these are closed without a word: others may be coming without end.
        while let Ok(permit) = Arc::clone(&refusing).try_acquire_owned() {
            let Some(socket) = listener.accept_now().await else { break };
            tokio::spawn(refuse(socket, no_room(&app), permit));
        }
        drop(listener);
        // Who does not listen is not waited for.
        let _ = timeout(Duration::from_secs(2), refusing.acquire_many(REFUSED_AT_ONCE)).await;
    }

    async fn accept_forever(&self) -> Infallible {
        loop {
            match self.listener.accept().await {
                Ok(socket) => self.take_in(socket).await,
                // Too many open files, or a connection that is gone already: neither is for ever.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Serves a connection if there is room, and says so if there is none. Where many are being told, the
    /// rest waits outside for the one or the other.
    async fn take_in(&self, socket: Socket) {
        tokio::select! {
            biased;
            Ok(permit) = Arc::clone(&self.room).acquire_owned() => self.serve(socket, permit),
            Ok(permit) = Arc::clone(&self.refusing).acquire_owned() => {
                self.app.metrics.refused("connections");
                tokio::spawn(refuse(socket, no_room(&self.app), permit));
            }
            // Neither is ever closed.
            else => {}
        }
    }

    fn serve(&self, socket: Socket, permit: OwnedSemaphorePermit) {
        let (app, router, drained) =
            (Arc::clone(&self.app), self.router.clone(), self.drained.clone());
        tokio::spawn(async move {
            let settings = &app.settings;
            match socket {
                Socket::Tcp(socket) => connection::serve(socket, router, settings, drained).await,
                Socket::Unix(socket) => connection::serve(socket, router, settings, drained).await,
            }
            drop(permit);
        });
    }
}

/// Why a connection is not served.
fn no_room(app: &App) -> ApiError {
    if app.is_draining() {
        return ApiError::draining();
    }
    let limit = app.settings.max_connections;
    ApiError::unavailable(&format!("{limit} connections are open (setting `max_connections`)"))
}

/// Answers a connection for which there is no room, without reading what it asks for.
async fn refuse(socket: Socket, error: ApiError, permit: OwnedSemaphorePermit) {
    let body = error.body();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.into_bytes(), body].concat();
    match socket {
        Socket::Tcp(socket) => connection::refuse(socket, &answer).await,
        Socket::Unix(socket) => connection::refuse(socket, &answer).await,
    }
    drop(permit);
}
