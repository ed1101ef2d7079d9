//! What a kernel gets to work on: one block of a bag's ids.
use crate::weights::{TokenWeights, Weights};

/// Ids that are pooled in one go.
///
/// Not more than 256, because that many signed bytes are sure to fit into a sum of 16 bits
/// (256 * -128 = -32,768); not fewer, so that a usual text is a single block and its sums never leave
/// the registers.
pub(super) const MAX_IDS: usize = 256;

/// One block of a bag.
pub(super) struct Block<'a> {
    pub(super) weights: &'a Weights,
    /// The file that `weights` were loaded from.
    pub(super) file: &'a [u8],
    /// At least one and at most [`MAX_IDS`], each below the vocabulary.
    pub(super) ids: &'a [u32],
    /// Row and weight of each of them; the definition looks them up for itself.
    pub(super) tokens: &'a [Token],
}

/// What the loops over columns need to know of a token.
#[derive(Clone, Copy, Default)]
pub(super) struct Token {
    pub(super) row: u32,
    /// The token's weight; without meaning where there are none.
    pub(super) factor: f32,
}

/// Looks up row and weight of every id, once for all columns.
#[inline]
pub(super) fn resolve(weights: &Weights, ids: &[u32], tokens: &mut [Token]) {
    match &weights.mapping {
        None => {
            for (token, &id) in tokens.iter_mut().zip(ids) {
                token.row = id;
            }
        }
        Some(mapping) => {
            for (token, &id) in tokens.iter_mut().zip(ids) {
                token.row = mapping[id as usize];
            }
        }
    }
    if let TokenWeights::Single(factors) = &weights.factors {
        for (token, &id) in tokens.iter_mut().zip(ids) {
            token.factor = factors[id as usize];
        }
    }
}
