//! A piece in the order of all pieces, and sorting some of them.
//!
//! Pieces are compared by their first sixteen bytes as one integer, which decides nearly all comparisons
//! without touching the pieces; the few that it does not tell apart are sorted again.

use super::Texts;

/// A piece in the order of all pieces.
#[derive(Clone, Copy, Debug)]
pub(in crate::tokenizer) struct Sorted {
    /// The first [`HEAD`] bytes, the very first one on top.
    pub(in crate::tokenizer) head: u128,
    pub(in crate::tokenizer) id: u32,
    /// In bytes.
    pub(in crate::tokenizer) len: u32,
    pub(in crate::tokenizer) score: f64,
}

/// Pieces up to this length are known without another look at them: the order jumps through the file,
/// and each look would be a miss of the cache.
pub(in crate::tokenizer) const HEAD: usize = 16;

impl Sorted {
    pub(super) const NONE: Self = Self { head: 0, id: 0, len: 0, score: 0.0 };

    pub(super) fn new(piece: &str, id: u32, score: f64) -> Self {
        Self { head: head(piece.as_bytes()), id, len: index(piece.len()), score }
    }

    /// What follows the first bytes.
    fn rest<'t>(&self, texts: &'t Texts<'_>) -> &'t [u8] {
        match self.len as usize {
            ..=HEAD => &[],
            _ => &texts.get(self.id as usize).as_bytes()[HEAD..],
        }
    }
}

/// Sorts pieces, and says whether all of them differ.
pub(super) fn sort(pieces: &mut [Sorted], texts: &Texts<'_>) -> bool {
    pieces.sort_unstable_by_key(|piece| piece.head);
    let mut all_differ = true;
    for group in pieces.chunk_by_mut(|a, b| a.head == b.head).filter(|group| group.len() > 1) {
        // Behind equal heads, the shorter piece is the beginning of the longer one.
        group.sort_unstable_by(|a, b| a.rest(texts).cmp(b.rest(texts)).then(a.len.cmp(&b.len)));
        let are_same = |a: &Sorted, b: &Sorted| a.len == b.len && a.rest(texts) == b.rest(texts);
        all_differ &= !group.windows(2).any(|pair| are_same(&pair[0], &pair[1]));
    }
    all_differ
}

/// The first bytes as an integer that compares like they do.
pub(super) fn head(piece: &[u8]) -> u128 {
    if let Some(head) = piece.first_chunk::<HEAD>() {
        return u128::from_be_bytes(*head);
    }
    // Bytes of a short piece come from both of its ends, which overlap.
    let high = match (piece.first_chunk::<8>(), piece.first_chunk::<4>(), piece.last_chunk::<4>()) {
        (Some(high), ..) => u64::from_be_bytes(*high),
        (_, Some(high), Some(low)) => {
            let low = u64::from(u32::from_be_bytes(*low)) << (8 * (8 - piece.len()));
            u64::from(u32::from_be_bytes(*high)) << 32 | low
        }
        _ => piece
            .iter()
            .enumerate()
            .fold(0, |high, (place, &byte)| high | u64::from(byte) << (56 - 8 * place)),
    };
    let low = match piece.last_chunk::<8>() {
        Some(low) => u128::from(u64::from_be_bytes(*low)) << (8 * (HEAD - piece.len())),
        None => 0,
    };
    u128::from(high) << 64 | low
}

/// A length or an id. Larger numbers become the largest one: lists with so many pieces, and pieces that
/// are so long, are no vocabulary that anyone takes.
#[inline]
pub(super) fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
