//! Building the trie: most of what loading a Unigram model means.
//!
//! Pieces come in the order of their bytes, which they were brought in while the file was read. Each node,
//! from the root down, looks for a base where the units of all its children are free: 64 neighboring
//! bases at a time, in a set of bits. The search begins near the end of what is in use, the further in
//! front the fewer children there are, and gives up blocks that had no room for one or two: so that it
//! stays linear.
//!
//! Two threads share this if there are many pieces: one half of what is below the upper nodes each. What
//! a search finds does not depend on it.

use std::ops::Range;

use super::Unit;
use crate::both::both;
use crate::pages;
use crate::tokenizer::scored::{HEAD, ScoredPieces, Sorted};

/// So many pieces make a leaf instead of a node with children.
const LEAF_PIECES: usize = 4;

/// Whether two threads share the work: for few pieces, starting one costs more than it saves.
pub(in crate::tokenizer::unigram) fn are_many(pieces: usize) -> bool {
    pieces >= 1 << 14
}

/// A trie with the base of its root.
pub(super) struct Trie {
    pub(super) units: Vec<Unit>,
    pub(super) root: u32,
    pub(super) tails: Vec<u8>,
}

/// Builds the trie of all pieces of a vocabulary, given in order. There is one at least, and all differ.
pub(super) fn build(vocab: &ScoredPieces<'_>, pieces: &[Sorted]) -> Trie {
    let mut builder = Builder::new(vocab, pieces, pieces.len());
    // The empty piece, if there is one, comes first. No text matches it.
    let first = usize::from(pieces[0].len == 0);
    let root = builder.add_children(first..pieces.len(), 0);
    if are_many(pieces.len()) {
        builder.share();
    }
    builder.add_all();
    let Builder { mut units, mut tails, .. } = builder;
    // A step from any base stays within the list.
    units.resize(units.len() + 256, Unit::FREE);
    units.shrink_to_fit();
    tails.shrink_to_fit();
    Trie { units, root, tails }
}

/// A node without children so far.
struct Open {
    unit: usize,
    /// The pieces that begin with the node's text.
    range: Range<usize>,
    /// The length of that text.
    depth: usize,
}

struct Builder<'a> {
    vocab: &'a ScoredPieces<'a>,
    sorted: &'a [Sorted],
    units: Vec<Unit>,
    tails: Vec<u8>,
    /// Bits of the units that are in use.
    in_use: Vec<u64>,
    /// Bits of the bases that are in use.
    bases: Vec<u64>,
    /// Blocks of 64 bases in front of this one are full.
    first_block: usize,
    open: Vec<Open>,
    /// Working memory: the labels of a node's children, and where the pieces of each one end.
    labels: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Builder<'a> {
    /// `expected` is the number of pieces that will be added.
    fn new(vocab: &'a ScoredPieces<'a>, sorted: &'a [Sorted], expected: usize) -> Self {
        Self {
            vocab,
            sorted,
            units: pages::list_with_capacity(2 * expected),
            tails: pages::list_with_capacity(expected * 16),
            in_use: Vec::with_capacity(expected / 128),
            bases: Vec::with_capacity(expected / 128),
            first_block: 0,
            open: Vec::new(),
            labels: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Works off the open nodes and what comes of them.
    fn add_all(&mut self) {
        while let Some(open) = self.open.pop() {
            self.add(open);
        }
    }

    /// Adds what is below an open node.
    fn add(&mut self, open: Open) {
        let unit = self.filled(self.units[open.unit], open.range, open.depth);
        self.units[open.unit] = unit;
    }

    /// The unit of a node with everything that it has to know; adds its children.
    fn filled(&mut self, mut unit: Unit, mut range: Range<usize>, depth: usize) -> Unit {
        let first = self.sorted[range.start];
        if first.len as usize == depth {
            unit.facts = unit.facts & !Unit::PIECE | first.id;
            unit.score = first.score;
            range.start += 1;
        }
        unit.base = self.add_children(range, depth);
        unit
    }

    /// Works off one half of what is open while another thread does the other half.
    ///
    /// Each thread fills a list of its own. The other one is then put behind this one: its bases are
    /// moved by the length of this list, which is above all bases in it.
    fn share(&mut self) {
        // Nodes with many pieces are opened here, until none is too large for an even split.
        let largest = self.sorted.len() / 16;
        while let Some(place) = self.open.iter().position(|open| open.range.len() > largest) {
            let open = self.open.swap_remove(place);
            self.add(open);
        }
        self.open.sort_unstable_by_key(|open| std::cmp::Reverse(open.range.len()));
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let (mut own_pieces, mut others_pieces) = (0, 0);
        for open in self.open.drain(..) {
            let (list, pieces) = if own_pieces <= others_pieces {
                (&mut own, &mut own_pieces)
            } else {
                (&mut others, &mut others_pieces)
            };
            *pieces += open.range.len();
            list.push(open);
        }
        self.open = own;
        let others = others.into_iter().map(|open| (self.units[open.unit], open));
        let others: Vec<(Unit, Open)> = others.collect();
        let mut builder = Builder::new(self.vocab, self.sorted, others_pieces);
        let ((), (filled, builder)) = both(
            || self.add_all(),
            move || {
                let mut filled = Vec::with_capacity(others.len());
                for (unit, Open { unit: place, range, depth }) in others {
                    filled.push((place, builder.filled(unit, range, depth)));
                    builder.add_all();
                }
                (filled, builder)
            },
        );
        let (units, tails) = (index(self.units.len()), index(self.tails.len()));
        let moved = |unit: Unit| Unit {
            base: unit.base + if unit.is_leaf() { tails } else { units },
            ..unit
        };
        for (place, unit) in filled {
            self.units[place] = moved(unit);
        }
        let Self { units, tails, .. } = self;
        both(
            || units.extend(builder.units.into_iter().map(moved)),
            || tails.extend_from_slice(&builder.tails),
        );
    }

    fn label(&self, entry: usize, depth: usize) -> u8 {
        let Sorted { head, id, .. } = self.sorted[entry];
        match depth {
            0..HEAD => head.to_be_bytes()[depth],
            _ => self.vocab.text(id as usize).as_bytes()[depth],
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
                self.open.push(Open { unit, range: start..end, depth: depth + 1 });
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
        let len = len as usize;
        // A piece has at most 255 bytes.
        let facts = index(len - depth) << Unit::LABEL_SHIFT | id;
        let mut tail = [0; 12 + HEAD];
        tail[..4].copy_from_slice(&facts.to_le_bytes());
        tail[4..12].copy_from_slice(&score.to_le_bytes());
        if len <= HEAD {
            // Copying a fixed number of bytes and dropping some is faster than a call to copy the few.
            let rest = head.checked_shl(8 * index(depth)).unwrap_or(0);
            tail[12..].copy_from_slice(&rest.to_be_bytes());
            self.tails.extend_from_slice(&tail);
            self.tails.truncate(self.tails.len() - (HEAD - (len - depth)));
        } else {
            self.tails.extend_from_slice(&tail[..12]);
            self.tails.extend_from_slice(&self.vocab.text(id as usize).as_bytes()[depth..]);
        }
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

/// A place in a list that is known to be shorter than 2^32: there are less than 2^22 pieces, of at
/// most 255 bytes each.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than 2^22 pieces of less than 2^8 bytes")]
fn index(place: usize) -> u32 {
    place as u32
}
