//! An item under its options, for finding equal ones.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use crate::backend::Backend;
use crate::fault::{Fault, Seeded};

/// An item, its options, and the hash of both.
///
/// The hash is made once, by a function with a random key, because callers choose the items and could
/// else choose them to collide; the maps that use it need no strong function of their own.
pub(crate) struct Content<B: Backend> {
    hash: u64,
    /// Always there, but for one of the seeded faults.
    options: Option<B::Options>,
    item: Arc<B::Item>,
}

impl<B: Backend> Content<B> {
    pub(crate) fn new(
        hasher: &RandomState,
        options: &B::Options,
        item: &Arc<B::Item>,
        seeded: Seeded,
    ) -> Self {
        let options = (!seeded.is(Fault::I9SharesAcrossOptions)).then(|| options.clone());
        let hash = hasher.hash_one((&options, item));
        Self { hash, options, item: Arc::clone(item) }
    }
}

// By hand: deriving would ask the backend itself to be comparable.
impl<B: Backend> Clone for Content<B> {
    fn clone(&self) -> Self {
        Self { hash: self.hash, options: self.options.clone(), item: Arc::clone(&self.item) }
    }
}

impl<B: Backend> PartialEq for Content<B> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && (Arc::ptr_eq(&self.item, &other.item) || self.item == other.item)
            && self.options == other.options
    }
}

impl<B: Backend> Eq for Content<B> {}

impl<B: Backend> Hash for Content<B> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
