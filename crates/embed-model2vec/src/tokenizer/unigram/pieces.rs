//! The vocabulary of a Unigram model: which pieces a text begins with, and what they score.
//!
//! # The trie
//!
//! A text is matched byte by byte down a trie of all pieces, stored as a double array: a node knows a
//! base, its child for a byte is the unit at base plus byte, and the unit says whether it really is
//! that child. No two nodes have the same base, so that the byte alone decides. A step is one access
//! to sixteen bytes; the score of a piece lies in the unit where it ends.
//!
//! A node that leads to a few pieces only is a leaf: what is left of those pieces lies side by side in
//! a list of bytes, with their ids and scores, and is compared at once. Most pieces are there, so that
//! the double array stays small: it is the part that a search jumps around in.

mod builder;

use builder::Trie;

use crate::tokenizer::scored::ScoredPieces;

pub(super) use builder::are_many;

/// The largest score that is taken. It bounds how large a sum can get within a word, and so how far
/// rounding can reach (`lattice.rs`).
const LARGEST_SCORE: f64 = 1e5;

/// More pieces than this are left to the `tokenizers` crate: a unit packs an id into 22 bits, and the
/// highest number stands for "no piece".
const MOST_PIECES: usize = (1 << 22) - 1;

/// The longest piece, in bytes: a link of the lattice packs a length into 8 bits.
const LONGEST_PIECE: usize = u8::MAX as usize;

/// What an unknown character scores below the worst piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// All pieces with their scores.
#[derive(Debug)]
pub(super) struct Pieces {
    units: Vec<Unit>,
    root: u32,
    /// What is left of the pieces of leaves, each behind its facts and its score.
    tails: Vec<u8>,
    /// By id; empty if they were not kept.
    scores: Vec<f64>,
    unknown_score: f64,
    longest: usize,
}

/// A place in the double array.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The base of the node; of a leaf, where its pieces lie in `tails`.
    base: u32,
    /// The label above, then whether the unit is in use and whether it is a leaf, then the piece that
    /// ends here, or the number of pieces of a leaf.
    facts: u32,
    /// Of that piece.
    score: f64,
}

impl Unit {
    const FREE: Self = Self { base: 0, facts: 0, score: 0.0 };
    const LABEL_SHIFT: u32 = 24;
    const IN_USE: u32 = 1 << 23;
    const IS_LEAF: u32 = 1 << 22;
    const PIECE: u32 = (1 << 22) - 1;

    fn node(label: u8) -> Self {
        let facts = u32::from(label) << Self::LABEL_SHIFT | Self::IN_USE | Self::PIECE;
        Self { facts, ..Self::FREE }
    }

    fn leaf(label: u8, tail: u32, pieces: u32) -> Self {
        let facts = u32::from(label) << Self::LABEL_SHIFT | Self::IN_USE | Self::IS_LEAF | pieces;
        Self { base: tail, facts, ..Self::FREE }
    }

    #[inline]
    fn has_label(self, label: u8) -> bool {
        self.facts >> (Self::LABEL_SHIFT - 1) == u32::from(label) << 1 | 1
    }

    #[inline]
    fn is_leaf(self) -> bool {
        self.facts & Self::IS_LEAF != 0
    }

    #[inline]
    fn piece(self) -> Option<u32> {
        let piece = self.facts & Self::PIECE;
        (piece != Self::PIECE).then_some(piece)
    }
}

impl Pieces {
    /// Takes a vocabulary; `None` if it is not one that this can serve exactly: no pieces at all, two
    /// that are the same, or scores and sizes out of all proportion.
    ///
    /// `without_unknown` says that the model names no unknown piece; its worst score is then at most 0,
    /// as it is with the entry that `missing_unknown.rs` adds.
    pub(super) fn new(vocab: &ScoredPieces<'_>, without_unknown: bool) -> Option<Self> {
        if !(1..=MOST_PIECES).contains(&vocab.len()) {
            return None;
        }
        if vocab.longest() > LONGEST_PIECE {
            return None;
        }
        let mut lowest = if without_unknown { 0.0 } else { f64::INFINITY };
        for &score in vocab.scores() {
            if score.is_nan() || score.abs() > LARGEST_SCORE {
                return None;
            }
            lowest = f64::min(lowest, score);
        }
        let Trie { units, root, tails } = builder::build(vocab, vocab.sorted()?);
        let longest = vocab.longest();
        let unknown_score = lowest - UNKNOWN_PENALTY;
        Some(Self { units, root, tails, scores: Vec::new(), unknown_score, longest })
    }

    /// Keeps the scores of its vocabulary, for [`score`](Self::score).
    pub(super) fn keep_scores(&mut self, vocab: &ScoredPieces<'_>) {
        self.scores = vocab.scores().to_vec();
    }

    /// Calls `found` with the length, the id and the score of every piece that `text` begins with, the
    /// shortest first.
    #[inline]
    pub(super) fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32, f64)) {
        let mut base = self.root;
        for (depth, &byte) in text.iter().enumerate() {
            let unit = self.units[base as usize + usize::from(byte)];
            if !unit.has_label(byte) {
                return;
            }
            if unit.is_leaf() {
                let text = &text[depth + 1..];
                let mut tails = &self.tails[unit.base as usize..];
                for _ in 0..unit.facts & Unit::PIECE {
                    let Some(Tail { id, score, rest }) = Tail::take(&mut tails) else { return };
                    let found_text = text.get(..rest.len());
                    if found_text.is_some_and(|text| are_equal(text, rest)) {
                        found(depth + 1 + rest.len(), id, score);
                    }
                }
                return;
            }
            if let Some(piece) = unit.piece() {
                found(depth + 1, piece, unit.score);
            }
            base = unit.base;
        }
    }

    /// The id of a piece.
    pub(super) fn id(&self, piece: &[u8]) -> Option<u32> {
        let mut id = None;
        self.prefixes(piece, |len, candidate, _| {
            if len == piece.len() {
                id = Some(candidate);
            }
        });
        id
    }

    /// The score of a piece, if scores were [kept](Self::keep_scores).
    #[inline]
    pub(super) fn score(&self, id: u32) -> f64 {
        self.scores[id as usize]
    }

    /// The score of a character that no piece stands for.
    #[inline]
    pub(super) fn unknown_score(&self) -> f64 {
        self.unknown_score
    }

    /// Bytes of the longest piece.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

/// What is left of a piece of a leaf.
struct Tail<'p> {
    id: u32,
    score: f64,
    rest: &'p [u8],
}

impl<'p> Tail<'p> {
    /// Takes the first one off a list.
    #[inline]
    fn take(list: &mut &'p [u8]) -> Option<Self> {
        let (facts, behind) = list.split_first_chunk::<4>()?;
        let (score, behind) = behind.split_first_chunk::<8>()?;
        let facts = u32::from_le_bytes(*facts);
        let rest;
        (rest, *list) = behind.split_at_checked((facts >> Unit::LABEL_SHIFT) as usize)?;
        Some(Self { id: facts & Unit::PIECE, score: f64::from_le_bytes(*score), rest })
    }
}

/// Whether two short ranges of the same length are equal; calling `memcmp` costs more than this.
#[inline]
fn are_equal(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(vocab: &[&str]) -> Option<Pieces> {
        let scored = (0_u8..).zip(vocab).map(|(id, &piece)| (piece.into(), -f64::from(id)));
        let vocab = scored.collect();
        let mut pieces = Pieces::new(&vocab, false)?;
        pieces.keep_scores(&vocab);
        Some(pieces)
    }

    #[track_caller]
    fn check(vocab: &[&str], text: &str) {
        let pieces = pieces(vocab).expect("a vocabulary");
        let mut found = Vec::new();
        pieces.prefixes(text.as_bytes(), |len, id, score| {
            assert_eq!(score.to_bits(), pieces.score(id).to_bits());
            found.push((len, id));
        });
        let mut expected: Vec<_> = (0_u32..)
            .zip(vocab)
            .filter(|(_, piece)| !piece.is_empty() && text.starts_with(**piece))
            .map(|(id, piece)| (piece.len(), id))
            .collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{text:?} in {vocab:?}");
    }

    #[test]
    fn all_pieces_that_a_text_begins_with_are_found() {
        let vocab = ["a", "", "abc", "abcdefghijkl", "abcdefghijkm", "b", "ab\0", "▁", "▁a", "é"];
        for text in ["", "a", "ab", "abc", "abcdefghijklmn", "ab\0c", "▁ab", "▁", "éa", "x"] {
            check(&vocab, text);
        }
    }

    #[test]
    fn what_cannot_be_served_exactly_is_refused() {
        assert!(pieces(&[]).is_none());
        assert!(pieces(&["a", "b", "a"]).is_none());
        assert!(pieces(&["x".repeat(255).as_str()]).is_some());
        assert!(pieces(&["x".repeat(256).as_str()]).is_none());
        for score in [f64::NAN, f64::NEG_INFINITY] {
            let vocab = std::iter::once(("a".into(), score)).collect();
            assert!(Pieces::new(&vocab, false).is_none());
        }
    }

    #[test]
    fn a_large_vocabulary_is_built_by_two_threads() {
        let texts = ["▁", "a", "bc", "é", "▁de", "xyzxyzxyzxyz"];
        let piece = |mut number: usize| {
            let mut piece = String::new();
            while number > 0 {
                number -= 1;
                piece.push_str(texts[number % texts.len()]);
                number /= texts.len();
            }
            piece
        };
        let scored = (1..60_000_u32).map(|id| (piece(id as usize).into(), -f64::from(id)));
        let vocab: ScoredPieces<'_> = scored.clone().collect();
        assert!(builder::are_many(vocab.len()));
        let pieces = Pieces::new(&vocab, false).expect("all differ");
        for (id, (piece, score)) in (0..).zip(vocab.texts().zip(vocab.scores())) {
            let mut found = Vec::new();
            pieces.prefixes(piece.as_bytes(), |len, id, score| found.push((len, id, score)));
            assert_eq!(found.last(), Some(&(piece.len(), id, *score)), "{piece}");
            assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{piece}");
            assert!(found.iter().all(|&(len, id, _)| vocab.text(id as usize) == &piece[..len]));
            let shorter = (1..piece.len()).filter(|&len| {
                piece.is_char_boundary(len) && pieces.id(&piece.as_bytes()[..len]).is_some()
            });
            assert_eq!(shorter.count() + 1, found.len(), "{piece}");
        }
        assert_eq!(pieces.id(piece(60_000).as_bytes()), None);
        let twice = scored.chain([("▁dea".into(), 0.0)]).collect();
        assert!(Pieces::new(&twice, false).is_none(), "one piece is there twice");
    }

    proptest! {
        #[test]
        fn prefixes_and_ids_are_those_of_a_plain_search(
            vocab in prop::collection::btree_set("[ab▁é]{0,12}", 1..40),
            text in "[ab▁é]{0,16}",
        ) {
            let vocab: Vec<&str> = vocab.iter().map(String::as_str).collect();
            check(&vocab, &text);
            let pieces = pieces(&vocab).expect("a vocabulary");
            for (id, piece) in (0..).zip(&vocab) {
                prop_assert_eq!(pieces.id(piece.as_bytes()), (!piece.is_empty()).then_some(id));
            }
        }
    }
}
