//! The best way to cut a text into pieces, by score.
//!
//! # The algorithm
//!
//! A path through the text is a series of pieces; its score is the sum of theirs. From left to right,
//! every place learns the best score of a path that ends there and the last piece of that path: each
//! place that is reached tries all pieces that begin there. A character that is not a piece by itself
//! can also be passed as unknown, for a score below all others. Read backward from the end, the last
//! pieces are the best path.
//!
//! # What has to be exactly so
//!
//! Many vocabularies have few distinct scores, so that several paths are equally good and rounding
//! decides between them. Ids are only those of the `tokenizers` crate if the sums are the same to the
//! last bit: scores are added from left to right in `f64`, places are left in the order of the text,
//! pieces are tried from the shortest to the longest, and a path is replaced by a better one only,
//! never by an equal one. The sum begins with what was there before the text ([`Lattice::run`]).
//!
//! # Memory
//!
//! Scores are needed only as far ahead as a piece can reach, so they lie in a ring. What remains for
//! each byte of the text is one packed link of four bytes.
//!
//! # What did not pay
//!
//! Walking the trie from several places in step, so that their misses of the cache overlap: the extra
//! steps cost as much as the waiting that they saved.

use super::pieces::Pieces;

/// The last piece of the best path to a place, packed: its length above, its id below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    const NOT_REACHED: Self = Self(0);
    const ID_BITS: u32 = 23;
    /// The id that stands for an unknown character.
    const UNKNOWN: u32 = (1 << Self::ID_BITS) - 1;
    /// Another path to the same place is about as good.
    const CONTESTED: u32 = 1 << Self::ID_BITS;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a piece has at most 255 bytes")]
    fn new(id: u32, len: usize) -> Self {
        Self((len as u32) << (Self::ID_BITS + 1) | id)
    }

    /// Bytes of the piece.
    #[inline]
    pub(super) fn len(self) -> usize {
        (self.0 >> (Self::ID_BITS + 1)) as usize
    }

    /// The id of the piece; `None` is a character that no piece stands for.
    #[inline]
    pub(super) fn id(self) -> Option<u32> {
        let id = self.0 & Self::UNKNOWN;
        (id != Self::UNKNOWN).then_some(id)
    }

    #[inline]
    fn is_contested(self) -> bool {
        self.0 & Self::CONTESTED != 0
    }
}

/// Two scores closer than this may change their order when the sum begins elsewhere.
///
/// A sum that begins below [`LARGEST_BASE`] stays below 1.3e8 within a word, as scores are at most 1e5,
/// and is rounded to 1.5e-8 at each addition; a text of the length
/// that words have in a cache takes at most 255 of them on either of two paths, so 4e-6 in all.
pub(super) const MARGIN: f64 = 1e-5;

/// Above this sum, rounding is coarser than [`MARGIN`] allows for.
pub(super) const LARGEST_BASE: f64 = 1e8;

/// Working memory of the search.
#[derive(Debug)]
pub(super) struct Lattice {
    /// By the byte that a path ends before.
    links: Vec<Link>,
    /// The best score and the best one that lost, by the place modulo the length of the ring.
    ring: Vec<(f64, f64)>,
    path: Vec<Link>,
}

const NOTHING: (f64, f64) = (f64::NEG_INFINITY, f64::NEG_INFINITY);

impl Lattice {
    pub(super) fn new(pieces: &Pieces) -> Self {
        // An unknown character reaches four bytes ahead.
        let reach = pieces.longest().max(4) + 1;
        Self { links: Vec::new(), ring: vec![NOTHING; reach.next_power_of_two()], path: Vec::new() }
    }

    /// Finds the best path through `text`, for a sum that begins with `base`; returns the sum and
    /// whether it would be the same path for any other beginning.
    pub(super) fn run(&mut self, pieces: &Pieces, text: &str, base: f64) -> (f64, bool) {
        let bytes = text.as_bytes();
        let mask = self.ring.len() - 1;
        self.links.clear();
        self.links.resize(bytes.len() + 1, Link::NOT_REACHED);
        let (links, ring) = (&mut self.links[..], &mut self.ring[..]);
        let mut score = base;
        let mut place = 0;
        while place < bytes.len() {
            let character = length_of_character(bytes[place]);
            let mut is_piece = false;
            pieces.prefixes(&bytes[place..], |len, id, piece_score| {
                is_piece |= len == character;
                let end = place + len;
                relax(&mut ring[end & mask], &mut links[end], piece_score + score, || {
                    Link::new(id, len)
                });
            });
            if !is_piece {
                let end = place + character;
                let score = pieces.unknown_score() + score;
                relax(&mut ring[end & mask], &mut links[end], score, || {
                    Link::new(Link::UNKNOWN, character)
                });
            }
            place += character;
            let (best, second) = std::mem::replace(&mut ring[place & mask], NOTHING);
            if best - second < MARGIN {
                links[place].0 |= Link::CONTESTED;
            }
            score = best;
        }

        self.path.clear();
        let mut is_certain = true;
        while place > 0 {
            let link = self.links[place];
            is_certain &= !link.is_contested();
            self.path.push(link);
            place -= link.len();
        }
        (score, is_certain)
    }

    /// Gives back memory above so many bytes.
    pub(super) fn give_back(&mut self, kept: usize) {
        for links in [&mut self.links, &mut self.path] {
            if links.capacity() > kept / size_of::<Link>() {
                *links = Vec::new();
            }
        }
    }

    /// The best path that was found last, in the order of the text.
    pub(super) fn path(&self) -> impl Iterator<Item = Link> {
        self.path.iter().rev().copied()
    }
}

/// Offers a path to a place.
#[inline]
fn relax(scores: &mut (f64, f64), last: &mut Link, score: f64, link: impl FnOnce() -> Link) {
    let (best, second) = scores;
    if score > *best {
        *second = *best;
        *best = score;
        *last = link();
    } else if score > *second {
        *second = score;
    }
}

/// Bytes of the character that begins with `byte`.
#[inline]
fn length_of_character(byte: u8) -> usize {
    match byte {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}
