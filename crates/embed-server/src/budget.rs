//! A number of something, of which parts are given out and come back by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What may be given out at once. Nobody waits: there is enough, or there is not.
///
/// Large requests may have seven eighths of it: a few clients who send or leave unread as much as they may do
/// not shut out those who ask for little.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// Of what kind a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Large,
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
    pub(crate) fn take(&self, amount: usize, size: Size) -> Option<Share> {
        let mut share = self.nothing();
        share.grow(amount, size, self).then_some(share)
    }

    /// A part that is to grow.
    pub(crate) fn nothing(&self) -> Share {
        Share { used: Arc::clone(&self.used), amount: 0 }
    }

    /// How much requests of a size may have at once.
    pub(crate) fn limit(&self, size: Size) -> usize {
        match size {
            Size::Small => self.limit,
            Size::Large => self.limit - self.limit / 8,
        }
    }

    /// How much is given out.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Adds `more` to the part, if so much is left of its budget.
    pub(crate) fn grow(&mut self, more: usize, size: Size, budget: &Budget) -> bool {
        // The counter guards no other memory, so that no order is needed.
        let limit = budget.limit(size);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|&used| used <= limit)
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
        let mut share = budget.take(6, Size::Small).expect("enough");
        assert!(budget.take(5, Size::Small).is_none());
        assert!(share.grow(4, Size::Small, &budget) && !share.grow(1, Size::Small, &budget));
        assert_eq!(budget.used(), 10);
        drop(share);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(usize::MAX, Size::Small).is_none());
        assert!(budget.take(10, Size::Small).is_some());
    }

    #[test]
    fn large_requests_leave_something_for_small_ones() {
        let budget = Budget::new(16);
        assert!(budget.take(15, Size::Large).is_none());
        let large = budget.take(14, Size::Large).expect("enough");
        assert!(budget.take(1, Size::Large).is_none());
        assert!(budget.take(2, Size::Small).is_some());
        drop(large);
    }
}
