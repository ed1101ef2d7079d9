//! The way through a text: from raw words or normalized units to ids.

use std::ops::ControlFlow;

use super::super::IdSink;
use super::super::added::Part;
use super::words::{self, Known, LONGEST_KEY, Words};
use super::{Scratch, Unigram, Work, charsmap};

/// How many words are found before they are looked up.
const AHEAD: usize = 8;

/// A raw word that was found: its bytes and the hash of them, or 0 if it is too long for one.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    start: usize,
    end: usize,
    hash: u64,
}

/// Extends a raw word where grapheme clusters reach across the blanks around it.
fn glued(
    text: &str,
    mut start: usize,
    mut end: usize,
    is_separator: impl Fn(&u8) -> bool,
    word_from: impl Fn(usize) -> usize,
) -> (usize, usize) {
    let joins_before = |text: &str| text.chars().next().is_some_and(charsmap::joins_blank_before);
    let joins_behind =
        |text: &str| text.chars().next_back().is_some_and(charsmap::joins_blank_behind);
    if start > 0 && joins_before(&text[start..]) {
        start -= 1;
    }
    while end < text.len() && joins_behind(&text[..end]) {
        let gap = text.as_bytes()[end..].iter().position(|byte| !is_separator(byte));
        end = gap.map_or(text.len(), |gap| word_from(end + gap));
    }
    (start, end)
}

/// Where a raw word stands: only words of the same circumstances become the same.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// No text came before it in its part, so that no blank becomes a replacement in front of it.
    is_first: bool,
    /// The whole text begins here, and that matters.
    is_start: bool,
}

impl Place {
    fn mode(self) -> words::Mode {
        u8::from(self.is_first) | u8::from(self.is_start) << 1
    }
}

/// What of a word is the same wherever it comes again.
enum Lasts {
    Ids,
    Text,
    /// This time, it cannot be told.
    Nothing,
}

impl Unigram {
    /// Pushes the ids of a part of the raw text, looking up raw words.
    pub(super) fn by_words(
        &self,
        text: &str,
        at_start: bool,
        separators: &[bool; 256],
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        scratch.work.begin();
        let bytes = text.as_bytes();
        let is_separator = |&byte: &u8| separators[usize::from(byte)];
        let word_from = |start: usize| {
            let rest = &bytes[start..];
            start + rest.iter().position(is_separator).unwrap_or(rest.len())
        };
        let mut place = Place { is_first: !self.pipeline.splits_whitespace, is_start: false };
        let mut end = 0;
        loop {
            // Words are found a few at a time, so that their lookups can overlap.
            let mut found = [Found::default(); AHEAD];
            let mut count = 0;
            while count < AHEAD
                && let Some(gap) = bytes[end..].iter().position(|byte| !is_separator(byte))
            {
                let mut start = end + gap;
                end = word_from(start);
                if self.glues && !(bytes[start].is_ascii() && bytes[end - 1].is_ascii()) {
                    (start, end) = glued(text, start, end, is_separator, word_from);
                }
                let len = end - start;
                let hash = match len {
                    ..=LONGEST_KEY => words::hash(&bytes[start..end]),
                    _ => 0,
                };
                found[count] = Found { start, end, hash };
                count += 1;
            }
            for word in &found[..count] {
                scratch.words.touch(word.hash);
            }
            for &Found { start, end, hash } in &found[..count] {
                place.is_start = at_start && start == 0;
                self.push_word(&text[start..end], hash, &mut place, scratch, sink)?;
            }
            if count < AHEAD {
                return self.finish(&mut scratch.work, sink);
            }
        }
    }

    /// Pushes the ids of a raw word.
    #[inline]
    fn push_word(
        &self,
        word: &str,
        hash: u64,
        place: &mut Place,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let key = word.as_bytes();
        let mode = place.mode();
        let known = match key.len() {
            ..=LONGEST_KEY => scratch.words.get(key, mode, hash),
            _ => None,
        };
        let is_new = known.is_none() && key.len() <= LONGEST_KEY;
        let was_text = match known {
            Some(Known::Ids(ids)) if self.may_use_ids(&scratch.work) => {
                let ids = scratch.words.ids(ids);
                place.is_first &= ids.is_empty();
                return self.push_known(ids, &mut scratch.work, sink);
            }
            Some(Known::Text(text, len)) => {
                scratch.normalized.clear();
                scratch.words.text(text, len, &mut scratch.normalized);
                true
            }
            _ => false,
        };
        if !was_text {
            let Scratch { normalized, spare, .. } = scratch;
            normalized.clear();
            self.pipeline.normalizer.normalize_into(word, spare, normalized);
        }
        let lasts = self.search_word(word, *place, scratch);
        place.is_first &= scratch.normalized.is_empty();
        let Scratch { words, work, normalized, .. } = scratch;
        if is_new {
            match lasts {
                Lasts::Ids => words.insert_ids(key, mode, hash, &work.ids),
                Lasts::Text => words.insert_text(key, mode, hash, normalized),
                Lasts::Nothing => {}
            }
        }
        sink.push_all(&work.ids)
    }

    /// Finds the ids of a raw word whose normalized form is in `scratch`.
    #[cold]
    fn search_word(&self, word: &str, place: Place, scratch: &mut Scratch) -> Lasts {
        let Scratch { work, normalized, marked, .. } = scratch;
        work.ids.clear();
        let was_within_run = !work.run.is_empty();
        let traced =
            if place.is_start { self.pipeline.normalizer.traced_to_first(word) } else { 0 };
        let mut is_certain = true;
        let mut is_first = place.is_first;
        // This closure never breaks off.
        let _ = self.normalized.parts(normalized, |part| {
            match part {
                Part::Token(id) => work.ids.push(id),
                Part::Text(text, offset) => {
                    for word in text.split_whitespace() {
                        let begin = offset + word.as_ptr().addr() - text.as_ptr().addr();
                        marked.clear();
                        // A blank stands in front of every word but the first, unless blanks vanish.
                        if !self.pipeline.splits_whitespace && !is_first {
                            marked.push(self.pipeline.metaspace.replacement);
                            marked.push_str(word);
                        } else {
                            self.mark(word, begin < traced, marked);
                        }
                        is_first = false;
                        for unit in self.units(marked) {
                            is_certain &= self.search(unit, work);
                        }
                    }
                }
            }
            ControlFlow::Continue(())
        });
        match is_certain {
            true if was_within_run || !self.may_use_ids(work) => Lasts::Nothing,
            // Ids of such a word would not tell that the first word of the text has gone by.
            true if work.ids.is_empty() && !normalized.is_empty() => Lasts::Nothing,
            true => Lasts::Ids,
            false => Lasts::Text,
        }
    }

    /// Pushes the ids of a part of the raw text that is normalized as a whole.
    pub(super) fn as_a_whole(
        &self,
        text: &str,
        at_start: bool,
        scratch: &mut Scratch,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        let Scratch { words, work, normalized, spare, marked } = scratch;
        normalized.clear();
        self.pipeline.normalizer.normalize_into(text, spare, normalized);
        let traced = if at_start { self.pipeline.normalizer.traced_to_first(text) } else { 0 };
        self.normalized.parts(normalized, |part| match part {
            Part::Token(id) => sink.push(id),
            Part::Text(text, offset) if self.pipeline.splits_whitespace => {
                text.split_whitespace().try_for_each(|word| {
                    let begin = offset + word.as_ptr().addr() - text.as_ptr().addr();
                    self.mark(word, begin < traced, marked);
                    self.push_units(marked, words, work, sink)
                })
            }
            Part::Text(text, offset) => {
                self.mark(text, offset < traced, marked);
                self.push_units(marked, words, work, sink)
            }
        })
    }

    /// Pushes the ids of a text with a path of its own, looking up its units.
    fn push_units(
        &self,
        marked: &str,
        words: &mut Words,
        work: &mut Work,
        sink: &mut impl IdSink,
    ) -> ControlFlow<()> {
        work.begin();
        for unit in self.units(marked) {
            let key = unit.as_bytes();
            let mode = Place::default().mode();
            if key.len() > LONGEST_KEY {
                work.ids.clear();
                self.search(unit, work);
            } else {
                let hash = words::hash(key);
                let known = words.get(key, mode, hash);
                if let Some(Known::Ids(ids)) = known.clone()
                    && self.may_use_ids(work)
                {
                    self.push_known(words.ids(ids), work, sink)?;
                    continue;
                }
                work.ids.clear();
                let was_within_run = !work.run.is_empty();
                if self.search(unit, work)
                    && !was_within_run
                    && known.is_none()
                    && self.may_use_ids(work)
                {
                    words.insert_ids(key, mode, hash, &work.ids);
                }
            }
            sink.push_all(&work.ids)?;
        }
        self.finish(work, sink)
    }
}
