//! The direct path: a caller's array around the queue, in one slot and under one hold of the gate.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::assembly::Assembly;
use crate::backend::{Backend, Cost};
use crate::clock::before;
use crate::config::{BatchConfig, RequestOptions};
use crate::error::Error;
use crate::execution::{Distinct, located, run};
use crate::ledger::Amount;
use crate::message::Answer;
use crate::observer::{Observation, Route};
use crate::planner::Few;
use crate::shared::{Permit, Shared};

/// An array that was admitted.
pub(crate) struct DirectArray<B: Backend> {
    shared: Arc<Shared<B>>,
    items: Few<Arc<B::Item>>,
    costs: Few<Cost>,
    assembly: Assembly<B>,
    options: B::Options,
    deadline: Option<Instant>,
    admitted: Instant,
    amount: Amount,
}

impl<B: Backend> DirectArray<B> {
    /// Takes an array in, unless there is no room for it to wait, or nothing is taken any more.
    pub(crate) fn admit(
        shared: &Arc<Shared<B>>,
        (items, costs): (Few<Arc<B::Item>>, Few<Cost>),
        assembly: Assembly<B>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Self, Error<B::Error>> {
        let admitted = shared.clock.now();
        if request.deadline.is_some_and(|deadline| deadline <= admitted) {
            return Err(Error::Expired);
        }
        let amount = Amount::of(&costs);
        let (options, deadline) = (options.clone(), request.deadline);
        let queued = shared.ledger.admit_around(amount)?;
        let (texts, class, route) = (items.len(), request.class, Route::Direct);
        shared.observe(&Observation::Admitted { texts, class, route, queued });
        let shared = Arc::clone(shared);
        Ok(Self { shared, items, costs, assembly, options, deadline, admitted, amount })
    }

    /// Waits for the permit and runs the array on the executor. The deadline answers in both stages, and
    /// so does the end of the batcher.
    pub(crate) async fn embed(self) -> Answer<B> {
        let (shared, deadline, texts) = (Arc::clone(&self.shared), self.deadline, self.items.len());
        // Counts the array as cancelled if the caller drops the future at any point from here on.
        let mut unanswered =
            Unanswered { shared: &shared, queued: texts, running: 0, waits: self.amount };
        let permit = shared.until_ended(shared.permit());
        let Some(permit) = before(&*shared.clock, deadline, permit).await else {
            unanswered.settle(&Observation::Expired { queued: texts, running: 0 });
            return Err(Error::Expired);
        };
        let Some(permit) = permit.flatten() else {
            unanswered.settle(&Observation::Closed { texts });
            return Err(Error::Closed);
        };
        let (now, admitted) = (shared.clock.now(), self.admitted);
        // The permit may have come together with the deadline, or with the end.
        if deadline.is_some_and(|deadline| deadline <= now) {
            unanswered.settle(&Observation::Expired { queued: texts, running: 0 });
            return Err(Error::Expired);
        }
        if shared.ledger.is_closed() {
            unanswered.settle(&Observation::Closed { texts });
            return Err(Error::Closed);
        }
        unanswered.goes();
        let waited = now.saturating_duration_since(admitted);
        let (reply, answer) = oneshot::channel();
        shared.execute(Box::new(move || self.run(reply, waited, permit)));
        match before(&*shared.clock, deadline, shared.until_ended(answer)).await {
            None => {
                unanswered.settle(&Observation::Expired { queued: 0, running: texts });
                Err(Error::Expired)
            }
            // The batcher has ended, or the executor, which dropped the job.
            Some(None | Some(Err(_))) => {
                unanswered.settle(&Observation::Closed { texts });
                Err(Error::Closed)
            }
            Some(Some(Ok(answer))) => {
                let took = shared.clock.now().saturating_duration_since(admitted);
                unanswered.settle(&match &answer {
                    Ok(_) => Observation::Completed { texts, waited, took },
                    Err(_) => Observation::Failed { texts },
                });
                answer
            }
        }
    }

    /// Runs the pieces one after another; stops between two of them if nobody waits any more.
    fn run(mut self, reply: oneshot::Sender<Answer<B>>, waited: Duration, mut permit: Permit) {
        let mut waited = Some(waited);
        let mut failed = None;
        for piece in pieces(&self.costs, &self.shared.config) {
            if reply.is_closed() || failed.is_some() {
                break;
            }
            failed = self.run_piece(piece, waited.take().unwrap_or_default()).err();
        }
        // The gate is free before anybody is told, but not the slot: a drain that gets it ends the batcher,
        // and the answer must be on its way then. The caller may have gone, with rows still missing.
        permit.leave_gate();
        let _ = reply.send(failed.map_or_else(|| Ok(self.assembly.into_rows()), Err));
        drop(permit);
    }

    fn run_piece(&mut self, piece: Range<usize>, waited: Duration) -> Result<(), Error<B::Error>> {
        let shared = Arc::clone(&self.shared);
        let tokens = self.costs[piece.clone()].iter().map(|cost| cost.tokens);
        let tokens = tokens.fold(0, usize::saturating_add);
        let items = &self.items[piece.clone()];
        let views = items.iter().map(|item| &**item).collect();
        let distinct = Distinct::of(views, shared.config.single_flight);
        shared.observe_started(&distinct, piece.len(), tokens, waited, Route::Direct);
        let started = shared.clock.now();
        let results = run(&*shared.backend, &distinct.items, &self.options, shared.seeded);
        let ran = shared.clock.now().saturating_duration_since(started);
        shared.observe_finished(&results, tokens, ran);
        let results = distinct.spread(results);
        shared.remember(items, &self.options, &results);
        for (index, result) in piece.zip(results) {
            match result {
                Ok(row) => self.assembly.put(index, row),
                Err(failure) => {
                    let position = self.assembly.position(index);
                    return Err(located(&*shared.backend, failure, position));
                }
            }
        }
        Ok(())
    }
}

/// The array in calls within the budgets; an item beyond them goes alone.
fn pieces(costs: &[Cost], config: &BatchConfig) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut tokens = 0_usize;
    for (position, cost) in costs.iter().enumerate() {
        let fits = tokens.saturating_add(cost.tokens) <= config.max_tokens;
        match pieces.last_mut() {
            Some(last) if fits && last.len() < config.max_rows => {
                last.end = position + 1;
                tokens = tokens.saturating_add(cost.tokens);
            }
            _ => {
                pieces.push(position..position + 1);
                tokens = cost.tokens;
            }
        }
    }
    pieces
}

/// Reports what became of an array, once: as cancelled unless something else was said before.
struct Unanswered<'a, B: Backend> {
    shared: &'a Shared<B>,
    queued: usize,
    running: usize,
    /// What the ledger has of it.
    waits: Amount,
}

impl<B: Backend> Unanswered<'_, B> {
    /// It has its permit: it waits no more.
    fn goes(&mut self) {
        (self.queued, self.running) = (0, self.queued);
        self.shared.ledger.release_around(std::mem::take(&mut self.waits));
    }

    fn settle(&mut self, observation: &Observation<'_>) {
        (self.queued, self.running) = (0, 0);
        self.shared.observe(observation);
    }
}

impl<B: Backend> Drop for Unanswered<'_, B> {
    fn drop(&mut self) {
        self.shared.ledger.release_around(std::mem::take(&mut self.waits));
        let (queued, running) = (self.queued, self.running);
        if queued + running > 0 {
            self.shared.observe(&Observation::Cancelled { queued, running });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tokens: &[usize], expected: &[Range<usize>]) {
        let config = BatchConfig { max_rows: 3, max_tokens: 10, ..BatchConfig::default() };
        let costs: Vec<Cost> =
            tokens.iter().map(|&tokens| Cost { tokens, bytes: tokens }).collect();
        assert_eq!(pieces(&costs, &config), expected);
    }

    #[test]
    fn pieces_keep_to_both_budgets() {
        check(&[], &[]);
        check(&[1, 1, 1, 1], &[0..3, 3..4]);
        check(&[5, 5, 1], &[0..2, 2..3]);
        check(&[1, 99, 1], &[0..1, 1..2, 2..3]);
        check(&[usize::MAX, usize::MAX], &[0..1, 1..2]);
    }
}
