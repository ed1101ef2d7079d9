//! Numbers that look random and are the same for the same seed, for comparisons and measurements.

/// A small deterministic generator (SplitMix64, Steele et al. 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but not including `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// An id below `end`.
    pub(crate) fn id(&mut self, end: usize) -> u32 {
        u32::try_from(self.below(end)).expect("vocabularies are smaller than 2^32")
    }

    /// A number from -1 up to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        // 24 bits are what an `f32` holds exactly.
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
