//! Where batches run: on threads of their own, never on those that drive futures.

use tokio::runtime::Handle;

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
