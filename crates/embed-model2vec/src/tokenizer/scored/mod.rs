//! The pieces of a Unigram vocabulary with their scores, and the order of their texts.
//!
//! There may be half a million of them, and who takes the list wants it in order too. Reading leaves all
//! processors but one idle, so that the order is prepared meanwhile: the reader hands what it has read,
//! some thousands of pieces at a time, to a thread that owns the lists (`order.rs`). What the thread is
//! done with comes back as room for what is read next. The thread ends with the reading, whichever way
//! that ends. Few pieces are never worth one.
//!
//! This must never know what the list is for: whether it makes a tokenizer is decided elsewhere.

mod order;
mod sorted;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::mpsc;

use rustc_hash::FxHashMap;

use super::Entries;
use crate::both::both;
use crate::pages;
use order::Order;

pub(super) use sorted::{HEAD, Sorted};

/// So many pieces are handed over at a time: few enough that they stay in the cache of a processor,
/// and that little is left to do when the last ones are read. A list that is shorter stays on one thread.
const RUN: usize = 1 << 14;

/// Pieces as they are read.
type Run<'a> = Vec<(Cow<'a, str>, f64)>;

/// Pieces with their scores; the position is the id.
///
/// There are hundreds of thousands of them, read once and given up soon: getting the memory, and giving
/// it back, costs as much as what is done in it.
#[derive(Debug, Default)]
pub(super) struct ScoredPieces<'a> {
    texts: Texts<'a>,
    scores: Vec<f64>,
    entries: Entries,
    /// Bytes of the longest piece.
    longest: usize,
    sorted: Vec<Sorted>,
    all_differ: bool,
}

/// Texts of pieces by id.
#[derive(Debug, Default)]
struct Texts<'a> {
    /// As they stand in the file; empty where there are escapes.
    borrowed: Vec<&'a str>,
    /// Pieces that have escapes in the file.
    unescaped: FxHashMap<usize, String>,
}

impl<'a> ScoredPieces<'a> {
    /// Takes pieces from `next` until there are no more.
    ///
    /// # Errors
    ///
    /// The first one of `next`.
    pub(super) fn read<E>(
        mut next: impl FnMut() -> Result<Option<(Cow<'a, str>, f64)>, E>,
    ) -> Result<Self, E> {
        let mut fill = |run: &mut Run<'a>| {
            while run.len() < RUN {
                let Some(piece) = next()? else { break };
                run.push(piece);
            }
            Ok(())
        };
        let mut run = Run::new();
        fill(&mut run)?;
        if run.len() < RUN { Ok(Self::of_few(run)) } else { order_while(run, fill) }
    }

    fn of_few(mut run: Run<'a>) -> Self {
        let mut pieces = Self::default();
        let mut list = Vec::new();
        pieces.take(&mut run, &mut list);
        pieces.all_differ = sorted::sort(&mut list, &pieces.texts);
        pieces.sorted = list;
        pieces
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// The text of a piece; `id` is below [`len`](Self::len).
    #[inline]
    pub(super) fn text(&self, id: usize) -> &str {
        self.texts.get(id)
    }

    pub(super) fn texts(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|id| self.text(id))
    }

    pub(super) fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// What has to be known of all pieces; of no use if some are the same.
    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Bytes of the longest piece; 0 if there are none.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// All pieces in the order of their bytes; `None` if some are the same.
    pub(super) fn sorted(&self) -> Option<&[Sorted]> {
        self.all_differ.then_some(&self.sorted)
    }

    /// Appends pieces, and what will be sorted of them to `list`; leaves an empty run.
    fn take(&mut self, run: &mut Run<'a>, list: &mut Vec<Sorted>) {
        for (text, score) in run.drain(..) {
            list.push(Sorted::new(&text, sorted::index(self.len()), score));
            self.push(text, score);
        }
    }

    fn push(&mut self, text: Cow<'a, str>, score: f64) {
        let id = self.len();
        if id == self.scores.capacity() {
            // Room for a large vocabulary once it is not a small one: what stays empty costs nothing.
            let more = if id < RUN { RUN } else { 1 << 19 };
            pages::reserve(&mut self.texts.borrowed, more);
            pages::reserve(&mut self.scores, more);
        }
        self.entries.extend([(&*text, sorted::index(id))]);
        self.longest = self.longest.max(text.len());
        self.texts.borrowed.push(match text {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => {
                self.texts.unescaped.insert(id, text);
                ""
            }
        });
        self.scores.push(score);
    }
}

impl Texts<'_> {
    #[inline]
    fn get(&self, id: usize) -> &str {
        match self.borrowed[id] {
            "" => self.unescaped.get(&id).map_or("", String::as_str),
            text => text,
        }
    }
}

impl<'a> FromIterator<(Cow<'a, str>, f64)> for ScoredPieces<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, f64)>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        let Ok(pieces) = Self::read::<Infallible>(|| Ok(entries.next()));
        pieces
    }
}

/// Takes a full run and all that `fill` gives behind it, and prepares the order while that is read.
fn order_while<'a, E>(
    mut run: Run<'a>,
    mut fill: impl FnMut(&mut Run<'a>) -> Result<(), E>,
) -> Result<ScoredPieces<'a>, E> {
    let mut order = Order::new(&run);
    // Without bounds: where the system gives no thread, all is read before any of it is taken.
    let (hand_over, runs) = mpsc::channel();
    let (give_back, emptied) = mpsc::channel();
    let (read, order) = both(
        move || {
            loop {
                let is_last = run.len() < RUN;
                // Refused behind a panic alone, which goes on here as soon as this ends.
                if hand_over.send(run).is_err() || is_last {
                    return Ok(());
                }
                run = emptied.try_recv().unwrap_or_else(|_| Run::with_capacity(RUN));
                fill(&mut run)?;
            }
        },
        move || {
            for mut run in runs {
                order.add(&mut run);
                // Refused behind the last run, when nobody wants the room.
                let _ = give_back.send(run);
            }
            order
        },
    );
    read.map(|()| order.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Many pieces, some of which are special: by their number, or else as they come.
    fn many(len: usize, special: &[(usize, &'static str)]) -> Vec<(Cow<'static, str>, f64)> {
        let mut pieces: Vec<(Cow<'_, str>, f64)> = (0..len)
            .map(|id| {
                let number = id.wrapping_mul(0x9e37_79b9) % (1 << 24);
                (format!("▁{number:x}{}", "x".repeat(number % 19)).into(), -(id as f64))
            })
            .collect();
        for &(id, text) in special {
            pieces[id].0 = text.into();
        }
        pieces
    }

    /// The list says of pieces what a plain look at them says.
    #[track_caller]
    fn check(expected: &[(Cow<'static, str>, f64)]) {
        let pieces: ScoredPieces<'_> = expected.iter().cloned().collect();
        assert!(pieces.texts().eq(expected.iter().map(|(text, _)| &**text)));
        assert!(pieces.scores().iter().eq(expected.iter().map(|(_, score)| score)));
        let longest = expected.iter().map(|(text, _)| text.len()).max();
        assert_eq!((pieces.len(), pieces.longest()), (expected.len(), longest.unwrap_or(0)));
        let mut order: Vec<usize> = (0..expected.len()).collect();
        order.sort_by_key(|&id| &*expected[id].0);
        let all_differ = order.windows(2).all(|pair| expected[pair[0]].0 != expected[pair[1]].0);
        let Some(sorted) = pieces.sorted() else {
            assert!(!all_differ, "no two are the same");
            return;
        };
        assert!(all_differ, "two are the same");
        assert_eq!(sorted.len(), order.len());
        for (piece, id) in sorted.iter().zip(order) {
            let (text, score) = &expected[id];
            let found = (piece.id as usize, piece.len as usize, piece.score.to_bits());
            assert_eq!(found, (id, text.len(), score.to_bits()), "{text:?}");
            assert_eq!(piece.head, sorted::head(text.as_bytes()));
        }
    }

    #[test]
    fn lists_around_the_length_of_a_run_are_sorted() {
        for len in [0, 1, 2, RUN - 1, RUN, RUN + 1, 2 * RUN, 5 * RUN + 7] {
            check(&many(len, &[]));
        }
    }

    #[test]
    fn special_pieces_have_their_places() {
        // Equal heads: behind sixteen bytes, and behind bytes that are zero.
        let long = ["0123456789abcdef", "0123456789abcdefg", "0123456789abcdef\0", "0\0", "0"];
        let mut special: Vec<_> = (0..).map(|number| number * (RUN - 1) + 3).zip(long).collect();
        check(&many(5 * RUN, &special));
        special.push((RUN, ""));
        check(&many(5 * RUN, &special));
    }

    #[test]
    fn a_piece_that_is_there_twice_is_found() {
        for (one, other) in [(0, 1), (5, RUN), (RUN, 3 * RUN - 1), (2 * RUN, 3 * RUN)] {
            for text in ["", "a", "▁more than sixteen bytes"] {
                check(&many(3 * RUN + 1, &[(one, text), (other, text)]));
            }
        }
    }

    #[test]
    fn pieces_that_come_in_order_are_taken() {
        let mut pieces = many(3 * RUN, &[]);
        pieces.sort_by(|a, b| a.0.cmp(&b.0));
        check(&pieces);
        pieces.reverse();
        check(&pieces);
    }

    #[test]
    fn an_error_ends_the_reading() {
        for len in [0, 5, RUN - 1, RUN, RUN + 5, 4 * RUN] {
            let mut pieces = many(len, &[]).into_iter().map(Some);
            let mut asked = 0;
            let read = ScoredPieces::read(|| {
                asked += 1;
                pieces.next().ok_or("an error")
            });
            assert_eq!(read.map(|pieces| pieces.len()), Err("an error"));
            assert_eq!(asked, len + 1, "nothing is read behind an error");
        }
    }

    #[test]
    fn a_panic_of_the_reader_goes_on() {
        let mut pieces = many(2 * RUN + 5, &[]).into_iter();
        let mut next = || Ok::<_, Infallible>(Some(pieces.next().expect("a panic")));
        let read = std::panic::AssertUnwindSafe(|| ScoredPieces::read(&mut next).map(|_| ()));
        assert!(std::panic::catch_unwind(read).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_pieces_are_sorted(
            texts in prop::collection::vec("[ab\0▁é]{0,20}", 200),
            len in 1_usize..3 * RUN,
            seed in any::<usize>(),
        ) {
            let place = |number: usize| seed.wrapping_add(number).wrapping_mul(0x9e37_79b9) % len;
            let mut pieces = many(len, &[]);
            for (number, text) in texts.into_iter().enumerate() {
                pieces[place(number)].0 = text.into();
            }
            check(&pieces);
        }
    }
}
