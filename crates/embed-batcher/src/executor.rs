//! Where batches and arrays run: on threads of their own, never on those that drive futures.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::sync::Mutex;

/// One call of the backend, ready to run.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs away from the caller's thread.
///
/// A job that is dropped without having run fails its batch; it is not lost.
pub trait Executor: Send + Sync {
    /// Takes the job and returns at once.
    fn execute(&self, job: Job);
}

/// The blocking threads of a tokio runtime.
#[derive(Clone, Debug)]
pub struct BlockingPool(Handle);

impl BlockingPool {
    /// The pool of `runtime`.
    pub fn new(runtime: Handle) -> Self {
        Self(runtime)
    }
}

impl Executor for BlockingPool {
    fn execute(&self, job: Job) {
        // The job reports by itself, and it is dropped, which is a report too, if the runtime ends.
        drop(self.0.spawn_blocking(job));
    }
}

/// An executor that keeps its jobs until a test runs them. Clones share the jobs.
///
/// With a [`ManualClock`](crate::ManualClock) and a worker that is polled by hand, a whole batcher runs on
/// one thread, in an order that the test decides:
///
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// # use std::convert::Infallible;
/// use embed_batcher::{Backend, BatchConfig, Batcher, ManualClock, ManualExecutor, RequestOptions};
/// # struct Lengths;
/// # impl Backend for Lengths {
/// #     type Item = str;
/// #     type Options = ();
/// #     type Row = usize;
/// #     type Error = Infallible;
/// #     fn cost(&self, text: &str, (): &()) -> embed_batcher::Cost {
/// #         embed_batcher::Cost { tokens: text.len(), bytes: text.len() }
/// #     }
/// #     fn run(&self, texts: &[&str], (): &()) -> Result<Vec<usize>, Infallible> {
/// #         Ok(texts.iter().map(|text| text.len()).collect())
/// #     }
/// # }
///
/// let (clock, executor) = (ManualClock::new(), ManualExecutor::default());
/// let config = BatchConfig::fixed_window(Duration::from_millis(25), 16);
/// let builder = Batcher::builder(Lengths).config(config);
/// let (batcher, worker) = builder.clock(clock.clone()).executor(executor.clone()).pair()?;
/// let mut worker = pin!(worker);
/// let mut pending = pin!(batcher.submit(["seven"], &(), &RequestOptions::default()));
/// let mut context = Context::from_waker(Waker::noop());
///
/// assert!(worker.as_mut().poll(&mut context).is_pending());
/// assert!(!executor.run_next(), "the window is open");
/// clock.advance(Duration::from_millis(25));
/// assert!(worker.as_mut().poll(&mut context).is_pending());
/// assert!(executor.run_next());
/// assert!(worker.as_mut().poll(&mut context).is_pending());
/// assert_eq!(pending.as_mut().poll(&mut context), Poll::Ready(Ok(vec![5])));
/// # Ok::<(), embed_batcher::ConfigError>(())
/// ```
#[derive(Clone, Default)]
pub struct ManualExecutor(Arc<Mutex<Vec<Job>>>);

impl ManualExecutor {
    /// Runs the job that has waited longest, on this thread; says whether there was one.
    pub fn run_next(&self) -> bool {
        let job = {
            let mut jobs = self.0.lock();
            if jobs.is_empty() { None } else { Some(jobs.remove(0)) }
        };
        job.is_some_and(|job| {
            job();
            true
        })
    }

    /// Takes all jobs, to be run or dropped in any order.
    pub fn take(&self) -> Vec<Job> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Executor for ManualExecutor {
    fn execute(&self, job: Job) {
        self.0.lock().push(job);
    }
}

impl fmt::Debug for ManualExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualExecutor").field("jobs", &self.0.lock().len()).finish()
    }
}
