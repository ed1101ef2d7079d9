//! Unigram of our own.
//!
//! # The algorithm
//!
//! Raw text is rewritten (`pipeline.rs`, `charsmap.rs`), blanks become a visible character, mostly `▁`,
//! that words begin with, and the best path through the pieces of the vocabulary is searched
//! (`lattice.rs`, `pieces.rs`); the path becomes ids (`runs.rs`). Most of what a text consists of was
//! there before, so that words are looked up first (`words.rs`), if possible as they stand in the raw
//! text.
//!
//! # Why words may be looked up
//!
//! *Where each word has a path of its own* (`Metaspace` that splits, or whitespace that is split off),
//! its ids depend on nothing else.
//!
//! *Where one path goes through a whole text*, no piece crosses a place that a `▁` begins at, as long as
//! no piece has a `▁` behind its first character: that is checked at load, and without it such texts
//! are searched in one go. The path then falls apart into those of the words, but the sums do not:
//! their rounding depends on everything to the left and decides between equally good paths. So the sum
//! is carried along from word to word, and a word is remembered with its ids only if each of its
//! decisions was clear by a margin that no rounding can reach. Other words are remembered in their
//! normalized form and searched again each time.
//! Unknown characters at the end of a word and at the beginning of the next become one token, so that
//! words with unknown characters are not remembered with their ids either.
//!
//! # Why raw words may be looked up
//!
//! Normalizing rewrites single characters or grapheme clusters. Cut at ASCII whitespace that no cluster
//! reaches across, a text is normalized word by word. Clusters that do reach across begin with a mark
//! behind a blank, or with one of a few characters that join what follows: then the word takes the
//! blank along, or the blank and the next word.
//! Added tokens that are searched in normalized text are searched in each normalized word: that is the
//! same as long as none of them has whitespace in it. Where one has, and where whitespace has a meaning
//! of its own (`Metaspace` alone), the text is normalized as a whole and its normalized words are
//! looked up.
//!
//! # Bounds
//!
//! A session holds at most 5 MiB of remembered words. Its working memory is a few times the size of
//! the longest text (normalized forms, and four bytes of links for each byte of the longest word); what
//! exceeds 1 MiB is given back after the text. Time is linear: a place in a text is the beginning of at
//! most as many pieces as the longest piece has bytes.

mod charsmap;
mod lattice;
mod pieces;
mod pipeline;
mod runs;
#[cfg(test)]
mod test_charsmap;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::cell::Cell;
use std::ops::ControlFlow;

use super::added::{AddedTokens, Matcher, Part};
use super::definition::{Definition, Vocab};
use super::scratch::{Borrowed, Pool};
use super::{IdSink, Vocabulary};
use crate::both::both;
use lattice::{LARGEST_BASE, Lattice};
use pieces::Pieces;
use pipeline::{Pipeline, Prepend};
use runs::{Run, Unknown};
use words::Words;

/// Buffers above this size are given back after a text.
const KEPT_BYTES: usize = 1 << 20;

/// A Unigram tokenizer that gives the ids of the `tokenizers` crate.
#[derive(Debug)]
pub(super) struct Unigram {
    pieces: Pieces,
    unknown: Unknown,
    pipeline: Pipeline,
    raw: Matcher,
    normalized: Matcher,
    /// Whether one path goes through a whole text, so that its sum is carried from word to word.
    carries: bool,
    /// Whether a path can be searched from one replacement of a blank to the next.
    cuts: bool,
    /// Whether raw words may have to be glued because of grapheme clusters.
    glues: bool,
    scratch: Pool<Scratch>,
}

/// Working memory of a session.
#[derive(Debug)]
pub(super) struct Scratch {
    words: Words,
    work: Work,
    normalized: String,
    spare: String,
    marked: String,
}

/// The state of a search.
#[derive(Debug)]
struct Work {
    lattice: Lattice,
    run: Run,
    ids: Vec<u32>,
    /// The sum of the path so far.
    base: f64,
}

impl Unigram {
    /// The tokenizer of a file, unless the file asks for something else than this module does.
    pub(super) fn new(definition: &Definition<'_>) -> Option<(Self, Vocabulary)> {
        let model = &definition.model;
        let (Vocab::Scores(vocab), "Unigram") = (&model.vocab, model.kind.as_str()) else {
            return None;
        };
        let unk_id = match model.unk_id {
            Some(id) if id >= vocab.len() => return None,
            Some(id) => Some(u32::try_from(id).ok()?),
            None => None,
        };
        let pieces = || Pieces::new(vocab, unk_id.is_none());
        let pipeline = || Pipeline::read(&definition.normalizer, &definition.pre_tokenizer);
        let (pieces, pipeline) = if pieces::are_many(vocab.len()) {
            both(pieces, pipeline)
        } else {
            (pieces(), pipeline())
        };
        let (mut pieces, mut pipeline) = (pieces?, pipeline?);
        let carries = !pipeline.metaspace.splits && !pipeline.splits_whitespace;
        if carries {
            pieces.keep_scores(vocab);
        }
        let unknown = Unknown::new(&pieces, unk_id, model.byte_fallback);

        let is_entry = |piece: &str| {
            pieces.id(piece.as_bytes()).is_some()
                || piece.is_empty() && vocab.texts().any(str::is_empty)
        };
        let added = AddedTokens::new(&definition.added_tokens, vocab.len(), |content| {
            pieces.id(content.as_bytes())
        })?;
        let facts = Vocabulary::new(definition, vocab.entries().clone(), &added, is_entry, unk_id);

        let within_words = Cell::new(true);
        let (raw, normalized) = added.matchers(|content| {
            let mut out = String::new();
            pipeline.normalizer.normalize_into(content, &mut String::new(), &mut out);
            if out.contains(char::is_whitespace) {
                within_words.set(false);
            }
            out
        })?;

        let metaspace = &pipeline.metaspace;
        let cuts = metaspace.splits
            || carries
                && !vocab.texts().any(|piece| {
                    let mut characters = piece.chars();
                    characters.next();
                    characters.as_str().contains(metaspace.replacement)
                });
        let searches_words = pipeline.splits_whitespace && within_words.get();
        if !normalized.is_empty() && !searches_words || carries && !cuts {
            pipeline.separators = None;
        }
        let glues = pipeline.looks_at_clusters();
        let scratch = Pool::default();
        let tokenizer =
            Self { pieces, unknown, pipeline, raw, normalized, carries, cuts, glues, scratch };
        Some((tokenizer, facts))
    }

    pub(super) fn scratch(&self) -> Borrowed<'_, Scratch> {
        self.scratch.take(|| Scratch {
            words: Words::new(),
            work: Work {
                lattice: Lattice::new(&self.pieces),
                run: Run::default(),
                ids: Vec::new(),
                base: 0.0,
            },
            normalized: String::new(),
            spare: String::new(),
            marked: String::new(),
        })
    }

    /// Pushes the ids of `text` until it ends or the sink breaks off.
    pub(super) fn tokenize(
        &self,
        text: &str,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let flow = self.raw.parts(text, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(text, offset) => {
                let at_start = offset == 0 && self.pipeline.metaspace.prepend == Prepend::First;
                match &self.pipeline.separators {
                    Some(separators) => self.by_words(text, at_start, separators, scratch, sink),
                    None => self.as_a_whole(text, at_start, scratch, sink),
                }
            }
        });
        scratch.give_back();
        flow
    }

    /// Writes a text as the model sees it: blanks become the replacement, and one more is put in front
    /// if that is wanted.
    fn mark(&self, text: &str, is_start: bool, marked: &mut String) {
        let metaspace = &self.pipeline.metaspace;
        let prepends = match metaspace.prepend {
            Prepend::Always => true,
            Prepend::First => is_start,
            Prepend::Never => false,
        };
        marked.clear();
        if prepends && !text.starts_with([metaspace.replacement, ' ']) {
            marked.push(metaspace.replacement);
        }
        for (number, piece) in text.split(' ').enumerate() {
            if number > 0 {
                marked.push(metaspace.replacement);
            }
            marked.push_str(piece);
        }
    }

    /// Cuts a marked text where a path may be cut.
    fn units<'m>(&self, marked: &'m str) -> impl Iterator<Item = &'m str> {
        let replacement = self.pipeline.metaspace.replacement;
        let mut rest = marked;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let behind = first.len_utf8();
            let next = if self.cuts { rest[behind..].find(replacement) } else { None };
            let end = next.map(|next| behind + next);
            let unit;
            (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
            Some(unit)
        })
    }

    /// Appends the ids of a unit; returns whether they would be the same behind any other text.
    fn search(&self, unit: &str, work: &mut Work) -> bool {
        let Work { lattice, run, ids, base } = work;
        let (sum, is_certain) = lattice.run(&self.pieces, unit, *base);
        let all_known = run.extend(lattice.path(), unit, &self.pieces, &self.unknown, ids);
        if self.carries {
            *base = sum;
            is_certain && all_known
        } else {
            run.close(&self.pieces, &self.unknown, ids);
            true
        }
    }

    /// Whether sums are small enough for remembered ids.
    #[inline]
    fn may_use_ids(&self, work: &Work) -> bool {
        !self.carries || work.base.abs() < LARGEST_BASE
    }

    /// Pushes remembered ids.
    #[inline]
    fn push_known(&self, ids: &[u32], work: &mut Work, sink: &mut impl IdSink) -> ControlFlow<()> {
        if self.carries {
            if !ids.is_empty() {
                self.finish(work, sink)?;
            }
            // The very additions that a search would do.
            work.base = ids.iter().fold(work.base, |sum, &id| self.pieces.score(id) + sum);
        }
        sink.push_all(ids)
    }

    /// Ends a run of unknown text.
    #[inline]
    fn finish(&self, work: &mut Work, sink: &mut impl IdSink) -> ControlFlow<()> {
        if work.run.is_empty() {
            return ControlFlow::Continue(());
        }
        work.ids.clear();
        work.run.close(&self.pieces, &self.unknown, &mut work.ids);
        sink.push_all(&work.ids)
    }
}

impl Work {
    /// Begins a path.
    fn begin(&mut self) {
        self.base = 0.0;
        self.run.clear();
    }
}

impl Scratch {
    /// Gives back what an unusually long text took.
    fn give_back(&mut self) {
        let Self { work, normalized, spare, marked, .. } = self;
        for text in [normalized, spare, marked] {
            if text.capacity() > KEPT_BYTES {
                *text = String::new();
            }
        }
        if work.ids.capacity() > KEPT_BYTES / size_of::<u32>() {
            work.ids = Vec::new();
        }
        work.lattice.give_back(KEPT_BYTES);
        work.run.give_back(KEPT_BYTES);
    }
}
