//! The asynchronous counterpart of [`Embedder`](crate::Embedder), without a runtime.
//!
//! It is what a batcher, a remote client or a test double implements. A local model implements the
//! synchronous trait; it must not be wrapped so that an async worker thread does its arithmetic.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::{Embeddings, EncodeOptions, Error};

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Turns texts into rows, some time later.
pub trait AsyncEmbedder: Send + Sync {
    /// The width of a row when [`EncodeOptions::dims`] is `None`; at least 1.
    fn dim(&self) -> usize;

    /// A name for the exact model: two embedders with equal ids give equal rows.
    fn model_id(&self) -> &str;

    /// Embeds `texts` under `options`; row `i` belongs to text `i`.
    ///
    /// Dropping the future withdraws the request.
    fn embed(
        &self,
        texts: Vec<String>,
        options: EncodeOptions,
    ) -> BoxFuture<'_, Result<Embeddings, Error>>;
}

/// Runs one call of an [`AsyncEmbedder`] to its end on a thread that has no runtime.
///
/// Do not call it from inside a runtime: see [`block_on`].
///
/// # Errors
///
/// Those of the embedder.
pub fn embed_blocking(
    embedder: &dyn AsyncEmbedder,
    texts: Vec<String>,
    options: EncodeOptions,
) -> Result<Embeddings, Error> {
    block_on(embedder.embed(texts, options))
}

/// Runs a future to its end on a thread that has no runtime; the thread sleeps while it waits.
///
/// Do not call it from inside a runtime: it would hold that runtime's thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake-up between the poll and here leaves a token behind, so that `park` returns at once.
            Poll::Pending => thread::park(),
        }
    }
}

/// Wakes a sleeping thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers from another thread, after the first poll has returned.
    struct FromElsewhere;

    struct Later(Option<thread::JoinHandle<()>>, usize);

    impl Future for Later {
        type Output = Result<Embeddings, Error>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            match &self.0 {
                Some(thread) if thread.is_finished() => {
                    Poll::Ready(Embeddings::new(vec![1.0; self.1], 1))
                }
                Some(_) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                None => {
                    let waker = context.waker().clone();
                    self.0 = Some(thread::spawn(move || waker.wake()));
                    Poll::Pending
                }
            }
        }
    }

    impl AsyncEmbedder for FromElsewhere {
        fn dim(&self) -> usize {
            1
        }

        fn model_id(&self) -> &'static str {
            "elsewhere"
        }

        fn embed(
            &self,
            texts: Vec<String>,
            _: EncodeOptions,
        ) -> BoxFuture<'_, Result<Embeddings, Error>> {
            Box::pin(Later(None, texts.len()))
        }
    }

    #[test]
    fn blocking_waits_for_a_wake_up_from_another_thread() -> Result<(), Error> {
        let texts = vec!["a".to_owned(), "b".to_owned()];
        let rows = embed_blocking(&FromElsewhere, texts, EncodeOptions::default())?;
        assert_eq!(rows.len(), 2);
        Ok(())
    }
}
