//! The direct path: a caller's array around the queue, in one slot and under one hold of the gate.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::assembly::Rows;
use crate::backend::{Backend, Cost};
use crate::clock::before;
use crate::config::{BatchConfig, RequestOptions};
use crate::error::Error;
use crate::execution::{located, run};
use crate::handle::weight;
use crate::ledger::Amount;
use crate::message::Answer;
use crate::observer::{CloseCause, Observation, Path};
use crate::planner::Few;
use crate::shared::{Permit, Shared};

/// An array that was admitted.
pub(crate) struct DirectArray<B: Backend> {
    shared: Arc<Shared<B>>,
    items: Vec<Arc<B::Item>>,
    costs: Few<Cost>,
    options: B::Options,
    deadline: Option<Instant>,
    admitted: Instant,
}

impl<B: Backend> DirectArray<B> {
    /// Takes an array in, unless it could not even wait in an empty queue or nothing is taken any more.
    pub(crate) fn admit(
        shared: &Arc<Shared<B>>,
        items: Vec<Arc<B::Item>>,
        costs: Few<Cost>,
        options: &B::Options,
        request: &RequestOptions,
    ) -> Result<Self, Error<B::Error>> {
        let admitted = shared.clock.now();
        if request.deadline.is_some_and(|deadline| deadline <= admitted) {
            return Err(Error::Expired);
        }
        let amount = costs.iter().map(|cost| weight(*cost)).fold(Amount::default(), Amount::plus);
        shared.ledger.could_fit(amount)?;
        shared.ledger.idle()?;
        shared.observe(&Observation::Admitted {
            texts: items.len(),
            class: request.class,
            path: Path::Direct,
            queued: shared.ledger.queued(),
        });
        let shared = Arc::clone(shared);
        let (options, deadline) = (options.clone(), request.deadline);
        Ok(Self { shared, items, costs, options, deadline, admitted })
    }

    /// Waits for the permit and runs the array on the executor.
    pub(crate) async fn embed(self) -> Answer<B> {
        if self.items.is_empty() {
            return Ok(Rows::<B>::new());
        }
        let (shared, deadline, texts) = (Arc::clone(&self.shared), self.deadline, self.items.len());
        // Counts the array as cancelled if the caller drops the future at any point from here on.
        let mut unanswered = Unanswered { shared: &shared, queued: texts, running: 0 };
        let Some(permit) = before(&*shared.clock, deadline, shared.permit()).await else {
            unanswered.settle(&Observation::Expired { queued: texts, running: 0 });
            return Err(Error::Expired);
        };
        let Some(permit) = permit else {
            unanswered.settle(&Observation::Failed { texts });
            return Err(Error::Closed);
        };
        (unanswered.queued, unanswered.running) = (0, texts);
        let admitted = self.admitted;
        let waited = shared.clock.now().saturating_duration_since(admitted);
        let (reply, answer) = oneshot::channel();
        shared.executor.execute(Box::new(move || self.run(reply, waited, permit)));
        match before(&*shared.clock, deadline, answer).await {
            None => {
                unanswered.settle(&Observation::Expired { queued: 0, running: texts });
                Err(Error::Expired)
            }
            // The job was dropped without having run: the executor has ended.
            Some(Err(_)) => {
                unanswered.settle(&Observation::Failed { texts });
                Err(Error::Closed)
            }
            Some(Ok(answer)) => {
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
    fn run(self, reply: oneshot::Sender<Answer<B>>, waited: Duration, permit: Permit) {
        let pieces = pieces(&self.costs, &self.shared.config).into_iter();
        let wanted = pieces.take_while(|_| !reply.is_closed());
        let rows: Result<Vec<Rows<B>>, _> =
            wanted.map(|piece| self.run_piece(piece, waited)).collect();
        drop(permit);
        // The caller may have gone meanwhile.
        let _ = reply.send(rows.map(|rows| rows.into_iter().flatten().collect()));
    }

    fn run_piece(&self, piece: Range<usize>, waited: Duration) -> Answer<B> {
        let shared = &*self.shared;
        let tokens = self.costs[piece.clone()].iter().map(|cost| cost.tokens).sum();
        shared.observe(&Observation::BatchStarted {
            rows: piece.len(),
            texts: piece.len(),
            tokens,
            cause: CloseCause::Exhausted,
            waited,
            permit_waited: waited,
            path: Path::Direct,
        });
        let started = shared.clock.now();
        let views: Vec<&B::Item> = self.items[piece.clone()].iter().map(|item| &**item).collect();
        let results = run(&*shared.backend, &views, &self.options, shared.seeded);
        let ran = shared.clock.now().saturating_duration_since(started);
        shared.observe_finished(&results, tokens, ran);
        shared.remember(&self.items[piece.clone()], &self.options, &results);
        piece
            .zip(results)
            .map(|(position, result)| {
                result.map_err(|failure| located(&*shared.backend, failure, position))
            })
            .collect()
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
                tokens += cost.tokens;
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
}

impl<B: Backend> Unanswered<'_, B> {
    fn settle(&mut self, observation: &Observation<'_>) {
        (self.queued, self.running) = (0, 0);
        self.shared.observe(observation);
    }
}

impl<B: Backend> Drop for Unanswered<'_, B> {
    fn drop(&mut self) {
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
