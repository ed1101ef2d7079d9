//! One connection, from its first byte to its last.
//!
//! hyper speaks HTTP/1 on it. Around that, this says when the connection has had its time, and closes it
//! so that nothing is lost: the sending side first, then, for a second, whatever the client still sends is
//! read and thrown away. Closing at once with bytes unread would be a reset, which can take the answer
//! from the client before it has read it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::pace::{Limits, Pace, Verdict};
use super::stream::Paced;
use crate::reply::PIECE;
use crate::settings::Settings;

/// How long a closed connection is read from.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that a connection holds of what it reads ahead, and of what it could not send yet. It bounds the
/// head of a request too.
const BUFFER: usize = PIECE;

/// Serves a connection until it ends. `drained` says since when the server drains.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    socket: S,
    router: Router,
    settings: &Settings,
    mut drained: watch::Receiver<Option<Instant>>,
) {
    let limits = Limits::of(settings);
    let pace = Arc::new(Pace::new());
    let stream = TokioIo::new(Paced::new(socket, Arc::clone(&pace)));
    let requests = Requests { router, pace: Arc::clone(&pace) };
    let mut http = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(BUFFER)
        .serve_connection(stream, requests);

    // Kept from poll to poll: a future that waits for the drain is woken by it.
    let mut draining =
        pin!(async { drained.wait_for(Option::is_some).await.map_or(None, |at| *at) });
    let mut drained_at = None;
    let mut timer = pin!(sleep_until(Instant::now()));
    let mut armed: Option<Instant> = None;
    let mut is_ending = false;
    let is_aborted = poll_fn(|cx| {
        // An error is a client that went away or does not speak HTTP: both end the connection.
        if http.poll_without_shutdown(cx).is_ready() {
            return Poll::Ready(false);
        }
        if drained_at.is_none()
            && let Poll::Ready(at) = draining.as_mut().poll(cx)
        {
            // A server that is gone drains, too.
            drained_at = Some(at.unwrap_or_else(Instant::now));
        }
        loop {
            match pace.verdict(limits, drained_at) {
                Verdict::Abort => return Poll::Ready(true),
                Verdict::End if is_ending => return Poll::Ready(true),
                Verdict::End => {
                    is_ending = true;
                    Pin::new(&mut http).graceful_shutdown();
                    if http.poll_without_shutdown(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                }
                Verdict::Until(None) => return Poll::Pending,
                Verdict::Until(Some(until)) => {
                    // Later is left as it is: the timer goes off, and this is looked at again.
                    if armed.is_none_or(|armed| until < armed) {
                        timer.as_mut().reset(until);
                        armed = Some(until);
                    }
                    ready!(timer.as_mut().poll(cx));
                    armed = None;
                }
            }
        }
    })
    .await;
    if !is_aborted {
        linger(http.into_parts().io.into_inner().into_inner()).await;
    }
}

/// Says `answer` to a connection whatever it asks for, and closes it.
pub(super) async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S, answer: &[u8]) {
    if matches!(timeout(LINGER, socket.write_all(answer)).await, Ok(Ok(()))) {
        linger(socket).await;
    }
}

/// Closes a socket without a reset.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S) {
    if socket.shutdown().await.is_err() {
        return;
    }
    let mut scratch = [0; 4096];
    let discard = async { while matches!(socket.read(&mut scratch).await, Ok(1..)) {} };
    // Who goes on sending after that is cut off.
    let _ = timeout(LINGER, discard).await;
}

/// The router as hyper calls it, telling the pace when a request begins and ends.
struct Requests {
    router: Router,
    pace: Arc<Pace>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<PacedBody>, Infallible>> + Send>>;

impl Service<Request<Incoming>> for Requests {
    type Response = Response<PacedBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        self.pace.asked();
        let pace = Arc::clone(&self.pace);
        // A router is always ready.
        let answer = tower_service::Service::call(&mut self.router.clone(), request.map(Body::new));
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| PacedBody { body, pace }))
        })
    }
}

/// A body that tells the pace when hyper has all of it.
struct PacedBody {
    body: Body,
    pace: Arc<Pace>,
}

impl Drop for PacedBody {
    fn drop(&mut self) {
        self.pace.answered();
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
