//! Bags of ids side by side, for devices that take a whole batch at once.

/// Bags of token ids, one after the other in one buffer (CSR).
#[derive(Debug)]
pub(crate) struct Bags {
    /// The ids of all bags.
    ids: Vec<u32>,
    /// Bag `i` is `ids[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<usize>,
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
    pub(crate) fn close(&mut self) {
        self.offsets.push(self.ids.len());
    }

    /// The bags in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|bounds| &self.ids[bounds[0]..bounds[1]])
    }
}
