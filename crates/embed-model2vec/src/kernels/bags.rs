//! Bags of ids side by side, for devices that take a whole batch at once.

/// Bags of token ids, one after the other in one buffer (CSR).
#[derive(Debug)]
pub(crate) struct Bags {
    /// The ids of all bags.
    ids: Vec<u32>,
    /// Bag `i` is `ids[offsets[i]..offsets[i + 1]]`; the first one is 0.
    offsets: Vec<u32>,
}

impl Bags {
    pub(crate) fn new() -> Self {
        Self { ids: Vec::new(), offsets: vec![0] }
    }

    /// The buffer that the ids of the next bag are appended to.
    pub(crate) fn open(&mut self) -> &mut Vec<u32> {
        &mut self.ids
    }

    /// Ends the current bag.
    ///
    /// # Panics
    ///
    /// If there are more than `u32::MAX` ids.
    pub(crate) fn close(&mut self) {
        self.offsets.push(u32::try_from(self.ids.len()).expect("fewer ids than 16 GiB"));
    }

    /// No bags, with the memory of those that were there.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.offsets.truncate(1);
    }

    /// The number of bags.
    pub(crate) fn len(&self) -> usize {
        self.offsets().len() - 1
    }

    /// The ids of all bags, one bag after the other.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Where each bag begins among the ids, and the last one ends; one more than there are bags.
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// The bags in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|bounds| &self.ids[bounds[0] as usize..bounds[1] as usize])
    }
}
