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
//!
//! # Building it
//!
//! Loading a model means building this. Pieces are sorted by their first sixteen bytes as one integer,
//! which decides nearly all comparisons without touching the pieces. Then each node, from the root
//! down, looks for a base where the units of all its children are free: 64 neighboring bases at a time,
//! in a set of bits. The search begins near the end of what is in use, the further in front the fewer
//! children there are, and gives up blocks that had no room for one or two: so that it stays linear.

use std::borrow::Cow;
use std::ops::Range;

/// The largest score that is taken; sums of a whole text stay finite with it.
const LARGEST_SCORE: f64 = 1e6;

/// More pieces than this are left to the `tokenizers` crate: a unit packs an id into 22 bits, and the
/// highest number stands for "no piece".
const MOST_PIECES: usize = (1 << 22) - 1;

/// The longest piece, in bytes: a link of the lattice packs a length into 8 bits.
const LONGEST_PIECE: usize = u8::MAX as usize;

/// So many pieces make a leaf instead of a node with children.
const LEAF_PIECES: usize = 4;

/// What an unknown character scores below the worst piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// All pieces with their scores.
#[derive(Debug)]
pub(super) struct Pieces {
    units: Vec<Unit>,
    root: u32,
    /// What is left of the pieces of leaves, each behind its facts and its score.
    tails: Vec<u8>,
    /// By id; empty if nobody asks for them.
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
    ///
    /// `keeps_scores` says that [`score`](Self::score) will be called.
    pub(super) fn new(
        vocab: &[(Cow<'_, str>, f64)],
        without_unknown: bool,
        keeps_scores: bool,
    ) -> Option<Self> {
        if vocab.is_empty() || vocab.len() > MOST_PIECES {
            return None;
        }
        let mut sorted = Vec::with_capacity(vocab.len());
        let mut lowest = if without_unknown { 0.0 } else { f64::INFINITY };
        let mut longest = 0;
        for (id, (piece, score)) in (0_u32..).zip(vocab) {
            if piece.len() > LONGEST_PIECE || score.is_nan() || score.abs() > LARGEST_SCORE {
                return None;
            }
            longest = longest.max(piece.len());
            lowest = f64::min(lowest, *score);
            let (head, len) = (head(piece.as_bytes()), index(piece.len()));
            sorted.push(Sorted { head, id, len, score: *score });
        }
        let rest = |entry: &Sorted| match entry.len as usize {
            ..=HEAD => &[],
            _ => &vocab[entry.id as usize].0.as_bytes()[HEAD..],
        };
        // Behind equal heads, the shorter piece is the beginning of the longer one.
        sorted.sort_unstable_by(|a, b| {
            a.head.cmp(&b.head).then_with(|| rest(a).cmp(rest(b))).then(a.len.cmp(&b.len))
        });
        let is_twice = |pair: &[Sorted]| {
            pair[0].head == pair[1].head
                && pair[0].len == pair[1].len
                && rest(&pair[0]) == rest(&pair[1])
        };
        if sorted.windows(2).any(is_twice) {
            return None;
        }
        let mut builder = Builder::new(vocab, &sorted);
        let root = builder.build();
        let Builder { mut units, mut tails, .. } = builder;
        // A step from any base stays within the list.
        units.resize(units.len() + 256, Unit::FREE);
        units.shrink_to_fit();
        tails.shrink_to_fit();
        let unknown_score = lowest - UNKNOWN_PENALTY;
        let kept = if keeps_scores { vocab } else { &[] };
        let scores = kept.iter().map(|&(_, score)| score).collect();
        Some(Self { units, root, tails, scores, unknown_score, longest })
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

/// A piece while the trie is built.
#[derive(Clone, Copy)]
struct Sorted {
    /// The first bytes, the very first one on top.
    head: u128,
    id: u32,
    len: u32,
    score: f64,
}

/// Pieces up to this length are built without another look at them: the sorted order jumps through
/// the file, and each look would be a miss of the cache.
const HEAD: usize = 16;

struct Builder<'a> {
    vocab: &'a [(Cow<'a, str>, f64)],
    sorted: &'a [Sorted],
    units: Vec<Unit>,
    tails: Vec<u8>,
    /// Bits of the units that are in use.
    in_use: Vec<u64>,
    /// Bits of the bases that are in use.
    bases: Vec<u64>,
    /// Blocks of 64 bases in front of this one are full.
    first_block: usize,
    /// Nodes without children so far: their unit, their pieces and the bytes those share.
    open: Vec<(usize, Range<usize>, usize)>,
    /// Working memory: the labels of a node's children, and where the pieces of each one end.
    labels: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(vocab: &'a [(Cow<'a, str>, f64)], sorted: &'a [Sorted]) -> Self {
        Self {
            vocab,
            sorted,
            units: Vec::with_capacity(vocab.len() / 2),
            tails: Vec::with_capacity(vocab.len() * 16),
            in_use: Vec::with_capacity(vocab.len() / 128),
            bases: Vec::with_capacity(vocab.len() / 128),
            first_block: 0,
            open: Vec::new(),
            labels: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Builds the trie and returns the base of the root.
    fn build(&mut self) -> u32 {
        // The empty piece, if there is one, comes first. No text matches it.
        let first = usize::from(self.sorted[0].len == 0);
        let root = self.add_children(first..self.sorted.len(), 0);
        while let Some((unit, mut range, depth)) = self.open.pop() {
            let first = self.sorted[range.start];
            if first.len as usize == depth {
                self.units[unit].facts &= !Unit::PIECE;
                self.units[unit].facts |= first.id;
                self.units[unit].score = first.score;
                range.start += 1;
            }
            self.units[unit].base = self.add_children(range, depth);
        }
        root
    }

    fn label(&self, entry: usize, depth: usize) -> u8 {
        let Sorted { head, id, .. } = self.sorted[entry];
        match depth {
            0..HEAD => head.to_be_bytes()[depth],
            _ => self.vocab[id as usize].0.as_bytes()[depth],
        }
    }

    /// Where the pieces of `range` end that have this label; the first one has it.
    fn end_of_label(&self, label: u8, range: Range<usize>, depth: usize) -> usize {
        if self.label(range.end - 1, depth) == label {
            return range.end;
        }
        // Pieces at `inside` have the label and pieces at `outside` have not.
        let (mut inside, mut outside) = (range.start, range.end - 1);
        let mut step = 1;
        while inside + step < outside && self.label(inside + step, depth) == label {
            inside += step;
            step *= 2;
        }
        outside = outside.min(inside + step);
        while outside - inside > 1 {
            let middle = usize::midpoint(inside, outside);
            if self.label(middle, depth) == label {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        outside
    }

    /// Adds the children of a node, whose pieces share `depth` bytes, and returns its base.
    fn add_children(&mut self, range: Range<usize>, depth: usize) -> u32 {
        let mut labels = std::mem::take(&mut self.labels);
        let mut ends = std::mem::take(&mut self.ends);
        labels.clear();
        ends.clear();
        let mut end = range.start;
        while end < range.end {
            let label = self.label(end, depth);
            end = self.end_of_label(label, end..range.end, depth);
            labels.push(label);
            ends.push(end);
        }
        let base = self.claim_base(&labels);
        let mut start = range.start;
        for (&label, &end) in labels.iter().zip(&ends) {
            let unit = base + usize::from(label);
            self.units[unit] = if end - start <= LEAF_PIECES {
                let tail = index(self.tails.len());
                for entry in start..end {
                    self.push_tail(entry, depth + 1);
                }
                Unit::leaf(label, tail, index(end - start))
            } else {
                self.open.push((unit, start..end, depth + 1));
                Unit::node(label)
            };
            start = end;
        }
        (self.labels, self.ends) = (labels, ends);
        index(base)
    }

    /// Appends what is left of a piece behind `depth` bytes.
    fn push_tail(&mut self, entry: usize, depth: usize) {
        let Sorted { head, id, len, score } = self.sorted[entry];
        let head = head.to_be_bytes();
        let rest = match len as usize {
            len @ ..=HEAD => &head[depth..len],
            _ => &self.vocab[id as usize].0.as_bytes()[depth..],
        };
        // A piece has at most 255 bytes.
        let facts = index(rest.len()) << Unit::LABEL_SHIFT | id;
        self.tails.extend_from_slice(&facts.to_le_bytes());
        self.tails.extend_from_slice(&score.to_le_bytes());
        self.tails.extend_from_slice(rest);
    }

    /// Finds a base that no node has and whose units for these labels are free, and takes them.
    fn claim_base(&mut self, labels: &[u8]) -> usize {
        // How far back from the end it is worth to look for room.
        let back = match labels.len() {
            0..=2 => usize::MAX,
            3..=6 => 12,
            _ => 3,
        };
        let mut block = self.first_block.max((self.units.len() / 64).saturating_sub(back));
        let base = loop {
            // A block and what its bases lead to: 64 bases and 255 further units.
            if self.in_use.len() < block + 6 {
                self.in_use.resize(block + 6, 0);
                self.bases.resize(block + 6, 0);
            }
            let mut fits = !self.bases[block];
            for &label in labels {
                let (word, shift) = (block + usize::from(label) / 64, u32::from(label) % 64);
                let next = self.in_use[word + 1].checked_shl(64 - shift).unwrap_or(0);
                fits &= !(self.in_use[word] >> shift | next);
                if fits == 0 {
                    break;
                }
            }
            if fits != 0 {
                break block * 64 + fits.trailing_zeros() as usize;
            }
            if labels.len() <= 2 && block == self.first_block {
                self.first_block += 1;
            }
            block += 1;
        };
        self.bases[base / 64] |= 1 << (base % 64);
        for &label in labels {
            let unit = base + usize::from(label);
            self.in_use[unit / 64] |= 1 << (unit % 64);
        }
        let end = labels.last().map_or(0, |&label| base + usize::from(label) + 1);
        if end > self.units.len() {
            self.units.resize(end, Unit::FREE);
        }
        base
    }
}

/// The first bytes as an integer that compares like they do.
fn head(piece: &[u8]) -> u128 {
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

/// A place in a list that is known to be shorter than 2^32: there are less than 2^22 pieces, of at
/// most 255 bytes each.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than 2^22 pieces of less than 2^8 bytes")]
fn index(place: usize) -> u32 {
    place as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(vocab: &[&str]) -> Option<Pieces> {
        let vocab: Vec<_> = (0_u8..)
            .zip(vocab)
            .map(|(id, &piece)| (Cow::Borrowed(piece), -f64::from(id)))
            .collect();
        Pieces::new(&vocab, false, true)
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
        assert!(Pieces::new(&[("a".into(), f64::NAN)], false, true).is_none());
        assert!(Pieces::new(&[("a".into(), f64::NEG_INFINITY)], false, true).is_none());
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
