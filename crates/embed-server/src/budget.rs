//! A number of something, of which parts are given out and come back by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What may be given out at once. Nobody waits: there is enough, or there is not.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// A part of a budget. It is given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    used: Arc<AtomicUsize>,
    amount: usize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// A part of `amount`, if so much is left.
    pub(crate) fn take(&self, amount: usize) -> Option<Share> {
        let mut share = Share { used: Arc::clone(&self.used), amount: 0 };
        share.grow(amount, self).then_some(share)
    }

    /// How much may be given out at once.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// How much is given out.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Adds `more` to the part, if so much is left of its budget.
    pub(crate) fn grow(&mut self, more: usize, budget: &Budget) -> bool {
        // The counter guards no other memory, so that no order is needed.
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|&used| used <= budget.limit)
        });
        let is_taken = taken.is_ok();
        self.amount += if is_taken { more } else { 0 };
        is_taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(10);
        let mut share = budget.take(6).expect("enough");
        assert!(budget.take(5).is_none());
        assert!(share.grow(4, &budget) && !share.grow(1, &budget));
        assert_eq!(budget.used(), 10);
        drop(share);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(usize::MAX).is_none() && budget.take(10).is_some());
    }
}
