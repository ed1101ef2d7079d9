//! Two halves of one piece of work, at the same time.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs two functions at the same time, `other` on a thread that ends with it; one after the other
/// where the system gives no thread. A panic in one of them goes on here.
///
/// Starting a thread takes some 50 microseconds.
pub(crate) fn both<A, B: Send>(
    this: impl FnOnce() -> A,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    // Who comes first takes it: a thread that could not be started has not.
    let other = Mutex::new(Some(other));
    let run_other = || {
        let other = other.lock().unwrap_or_else(PoisonError::into_inner).take();
        other.map(|other| other())
    };
    let (this, from_thread) = thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, run_other);
        let this = this();
        let from_thread = started.ok().and_then(|thread| match thread.join() {
            Ok(other) => other,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        (this, from_thread)
    });
    let other = from_thread.or_else(run_other).expect("taken by the thread or here");
    (this, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_results_come_back() {
        let text = "abc".to_owned();
        assert_eq!(both(|| text.len(), || text.to_uppercase()), (3, "ABC".to_owned()));
    }

    #[test]
    fn a_panic_of_the_other_goes_on_here() {
        let caught = std::panic::catch_unwind(|| both(|| 1, || -> i32 { panic!("expected") }));
        assert!(caught.is_err());
    }
}
