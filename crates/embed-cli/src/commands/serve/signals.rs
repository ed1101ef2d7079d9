//! SIGTERM and SIGINT: the first one asks a server to end, the second one ends the process.
//!
//! The handlers are there before the models are: a process that is the first one of a container would not
//! notice a signal that it has no handler for.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::exit_code::INTERRUPTED;

/// The signals of this process from now on.
#[derive(Debug)]
pub(super) struct Signals {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the next signal is a wish.
    is_gentle: AtomicBool,
    stop: Notify,
}

impl Signals {
    /// From now on a signal ends the process at once. Must be called within a runtime.
    pub(super) fn watch() -> io::Result<Self> {
        let state = Arc::new(State::default());
        let mut source = Source::new()?;
        let watcher = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let code = source.next().await;
                if watcher.is_gentle.swap(false, Ordering::Relaxed) {
                    watcher.stop.notify_one();
                } else {
                    // Whoever sends a second signal wants no more waiting.
                    process::exit(code);
                }
            }
        });
        Ok(Self { state })
    }

    /// From now on the next signal only ends the future that this returns.
    pub(super) fn stop_gently(self) -> impl Future<Output = ()> + Send {
        self.state.is_gentle.store(true, Ordering::Relaxed);
        async move { self.state.stop.notified().await }
    }
}

#[cfg(unix)]
use unix::Source;

#[cfg(unix)]
mod unix {
    use std::io;

    use tokio::select;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use super::INTERRUPTED;

    /// The code of a process that was told to end: 128 + SIGTERM.
    const TERMINATED: i32 = 143;

    pub(super) struct Source {
        interrupt: Signal,
        terminate: Signal,
    }

    impl Source {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }

        /// Waits for a signal; the code of a process that it ends.
        pub(super) async fn next(&mut self) -> i32 {
            select! {
                _ = self.interrupt.recv() => INTERRUPTED,
                _ = self.terminate.recv() => TERMINATED,
            }
        }
    }
}

#[cfg(not(unix))]
use other::Source;

#[cfg(not(unix))]
mod other {
    use std::future::pending;
    use std::io;

    use super::INTERRUPTED;

    pub(super) struct Source;

    impl Source {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) -> i32 {
            match tokio::signal::ctrl_c().await {
                Ok(()) => INTERRUPTED,
                Err(_) => pending().await,
            }
        }
    }
}
