//! What a handle and a batch tell the worker.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::assembly::{Assembly, Rows};
use crate::backend::{Backend, Cost};
use crate::config::RequestOptions;
use crate::content::Content;
use crate::error::Error;
use crate::execution::ItemResult;
use crate::fair_queue::RequestId;
use crate::ledger::InLine;
use crate::planner::{BatchId, Few};

/// The rows of a request, or why there are none.
pub(crate) type Answer<B> = Result<Rows<B>, Error<<B as Backend>::Error>>;

pub(crate) enum Message<B: Backend> {
    /// A request that the ledger has admitted.
    Submit(Submission<B>),
    /// Its caller went away.
    Withdraw(RequestId),
    /// End by the deadline.
    Drain { deadline: Instant, done: oneshot::Sender<Drained> },
}

pub(crate) struct Submission<B: Backend> {
    pub(crate) id: RequestId,
    pub(crate) items: Few<Arc<B::Item>>,
    pub(crate) costs: Few<Cost>,
    /// What makes each item equal to others; none of them where nothing is shared.
    pub(crate) contents: Few<Content<B>>,
    pub(crate) options: B::Options,
    pub(crate) request: RequestOptions,
    /// When the caller sent it.
    pub(crate) sent: Instant,
    pub(crate) assembly: Assembly<B>,
    pub(crate) reply: oneshot::Sender<Answer<B>>,
    /// Of an interactive request.
    pub(crate) in_line: Option<InLine>,
}

/// What a batch is about.
pub(crate) struct BatchContent<B: Backend> {
    pub(crate) id: BatchId,
    pub(crate) items: Vec<Arc<B::Item>>,
    pub(crate) options: B::Options,
}

/// A batch that came back.
pub(crate) struct Finished<B: Backend> {
    pub(crate) content: BatchContent<B>,
    pub(crate) results: Vec<ItemResult<B>>,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Requests in the queue that were not finished by the deadline and got an error.
    pub abandoned: usize,
}
