//! How a batcher is put together.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::backend::Backend;
use crate::clock::{Clock, TokioClock};
use crate::config::{BatchConfig, ConfigError};
use crate::execution::guarded;
use crate::executor::{BlockingPool, Executor};
use crate::fault::Seeded;
use crate::gate::{DeviceGate, Owner};
use crate::handle::Batcher;
use crate::ledger::Ledger;
use crate::observer::Observer;
use crate::shared::{Shared, new_cache};
use crate::stats::Counters;
use crate::worker::Worker;

/// Puts a [`Batcher`] together. Everything but the backend has a default.
pub struct Builder<B: Backend> {
    backend: Arc<B>,
    config: BatchConfig,
    clock: Arc<dyn Clock>,
    executor: Option<Arc<dyn Executor>>,
    gate: Option<(DeviceGate, Owner)>,
    observer: Option<Arc<dyn Observer>>,
    seeded: Seeded,
}

impl<B: Backend> Batcher<B> {
    /// Starts to put a batcher together.
    pub fn builder(backend: impl Into<Arc<B>>) -> Builder<B> {
        Builder {
            backend: backend.into(),
            config: BatchConfig::default(),
            clock: Arc::new(TokioClock::new()),
            executor: None,
            gate: None,
            observer: None,
            seeded: Seeded::default(),
        }
    }
}

impl<B: Backend> Builder<B> {
    /// With these settings.
    #[must_use]
    pub fn config(self, config: BatchConfig) -> Self {
        Self { config, ..self }
    }

    /// With this clock instead of tokio's.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// With this executor instead of the runtime's blocking threads.
    #[must_use]
    pub fn executor(self, executor: impl Executor + 'static) -> Self {
        Self { executor: Some(Arc::new(executor)), ..self }
    }

    /// Behind this gate, which is taken once for each batch, as `owner`.
    ///
    /// An exclusive owner keeps batches from overlapping, whatever the number of slots. The backend must
    /// not take the same gate again, and nobody may wait for this batcher while holding the gate as
    /// another owner: both would wait without end.
    #[must_use]
    pub fn gate(self, gate: DeviceGate, owner: Owner) -> Self {
        Self { gate: Some((gate, owner)), ..self }
    }

    /// Watched by this observer. What happens at a gate is told by the gate: see
    /// [`DeviceGate::observed`].
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// With a deliberate fault, for the tests of the tests.
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn fault(self, fault: crate::Fault) -> Self {
        Self { seeded: Seeded::with(fault), ..self }
    }

    /// The handle and its worker, which the caller drives.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if nothing could be admitted or run, or if there is neither an executor nor a
    /// tokio runtime here.
    pub fn pair(self) -> Result<(Batcher<B>, Worker<B>), ConfigError> {
        self.config.validate()?;
        let executor = if let Some(executor) = self.executor {
            executor
        } else {
            let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
            Arc::new(BlockingPool::new(runtime))
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            slots: Arc::new(Semaphore::new(self.config.slots)),
            inline_slots: Arc::new(Semaphore::new(self.config.inline_slots)),
            ended: Semaphore::new(0),
            ledger: Ledger::new(&self.config, self.seeded),
            cache: new_cache(self.config.cache_rows),
            backend: self.backend,
            config: self.config,
            clock: self.clock,
            executor,
            gate: self.gate,
            counters: Counters::default(),
            observer: self.observer,
            hasher: RandomState::new(),
            next_request: AtomicU64::new(0),
            seeded: self.seeded,
        });
        let worker = Worker::new(Arc::clone(&shared), receiver);
        Ok((Batcher { shared, messages: sender }, worker))
    }

    /// The handle; its worker runs on the tokio runtime that is current here.
    ///
    /// # Errors
    ///
    /// As [`pair`](Self::pair), and [`ConfigError::NoTime`] if the clock cannot make a timer here.
    pub fn spawn(self) -> Result<Batcher<B>, ConfigError> {
        let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
        let clock = Arc::clone(&self.clock);
        // Better here than in the worker, at the first deadline.
        guarded(|| drop(clock.sleep_until(clock.now()))).map_err(|_| ConfigError::NoTime)?;
        let (batcher, worker) = self.pair()?;
        runtime.spawn(worker);
        Ok(batcher)
    }
}

impl<B: Backend> fmt::Debug for Builder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}
