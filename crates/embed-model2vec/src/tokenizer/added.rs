//! Added tokens: literals that are taken out of a text before anything else looks at it.
//!
//! The rules are those of the `tokenizers` crate:
//!
//! - A token's id is the model's id of its content; other tokens get the ids after the model's last
//!   one, in the order of the file. A content that is listed again changes the flags, not the id.
//! - Tokens that are not `normalized` are found in the raw text; the others afterward, in the
//!   normalized text of each part between, with their contents normalized as well.
//! - Of all matches the leftmost is taken, of those the longest, and the search goes on behind it.
//! - A `single_word` token only counts if no word character touches it. `lstrip` and `rstrip` take the
//!   whitespace around a token along.
//! - Where two tokens have the same content after normalizing, the first one listed counts. (A
//!   deviation: the crate takes one of them at random each time it loads the file.)
//! - A token that lies within whitespace that the token before has taken along gives no id.

use std::collections::HashMap;
use std::ops::ControlFlow;

use aho_corasick::{AhoCorasick, MatchKind};

use super::definition::AddedToken;

/// A part of a text, in the order of the text; parts without any characters do not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    /// Text between added tokens; the number is its byte offset in the searched text.
    Text(&'t str, usize),
    /// An added token.
    Token(u32),
}

/// All added tokens of a tokenizer, with their ids.
#[derive(Debug)]
pub(super) struct AddedTokens {
    /// In the order in which their ids were first given.
    tokens: Vec<(AddedToken, u32)>,
}

impl AddedTokens {
    /// Gives ids to the tokens of a file; `model_id` is the model's own vocabulary, of `model_size`
    /// entries. `None` if two contents come to the same id: what the `tokenizers` crate makes of that
    /// depends on the order in which they were added, and is left to it.
    pub(super) fn new(
        listed: &[AddedToken],
        model_size: usize,
        model_id: impl Fn(&str) -> Option<u32>,
    ) -> Option<Self> {
        let mut next_id = u32::try_from(model_size).unwrap_or(u32::MAX);
        let mut id_of: HashMap<&str, u32> = HashMap::new();
        let mut place_of: HashMap<u32, usize> = HashMap::new();
        let mut tokens: Vec<(AddedToken, u32)> = Vec::new();
        for token in listed.iter().filter(|token| !token.content.is_empty()) {
            let known = id_of.get(token.content.as_str()).copied();
            let id = known.or_else(|| model_id(&token.content)).unwrap_or_else(|| {
                next_id = next_id.saturating_add(1);
                next_id - 1
            });
            id_of.insert(&token.content, id);
            if let Some(&place) = place_of.get(&id) {
                if tokens[place].0.content != token.content {
                    return None;
                }
                tokens[place].0 = token.clone();
            } else {
                place_of.insert(id, tokens.len());
                tokens.push((token.clone(), id));
            }
        }
        Some(Self { tokens })
    }

    /// The id of the added token with this content.
    pub(super) fn id(&self, content: &str) -> Option<u32> {
        self.iter().find(|(token, _)| *token == content).map(|(_, id)| id)
    }

    /// Contents and ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.tokens.iter().map(|(token, id)| (token.content.as_str(), *id))
    }

    /// The searches for tokens in raw and in normalized text; `normalize` is the tokenizer's normalizer.
    ///
    /// `None` if a token is normalized to nothing, or if there are more than an automaton can hold.
    pub(super) fn matchers(
        &self,
        normalize: impl Fn(&str) -> String,
    ) -> Option<(Matcher, Matcher)> {
        let (normalized, raw): (Vec<_>, Vec<_>) =
            self.tokens.iter().partition(|(token, _)| token.normalized);
        let raw = raw.into_iter().map(|(token, id)| (token.content.clone(), token, *id));
        let normalized: Vec<_> = normalized
            .into_iter()
            .map(|(token, id)| (normalize(&token.content), token, *id))
            .collect();
        if normalized.iter().any(|(pattern, ..)| pattern.is_empty()) {
            return None;
        }
        Some((Matcher::new(raw).ok()?, Matcher::new(normalized.into_iter()).ok()?))
    }
}

/// Finds added tokens in texts.
#[derive(Debug)]
pub(super) struct Matcher {
    /// `None` if there is nothing to find.
    automaton: Option<AhoCorasick>,
    found: Vec<Found>,
    /// The bytes that patterns begin with, if they are at most three: a text without them holds none.
    first_bytes: Option<FirstBytes>,
}

/// What a pattern stands for.
#[derive(Debug)]
struct Found {
    id: u32,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
}

#[derive(Clone, Copy, Debug)]
enum FirstBytes {
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
}

impl FirstBytes {
    fn of(patterns: &[String]) -> Option<Self> {
        let mut bytes: Vec<u8> =
            patterns.iter().filter_map(|pattern| pattern.bytes().next()).collect();
        bytes.sort_unstable();
        bytes.dedup();
        match bytes[..] {
            [a] => Some(Self::One(a)),
            [a, b] => Some(Self::Two(a, b)),
            [a, b, c] => Some(Self::Three(a, b, c)),
            _ => None,
        }
    }

    #[inline]
    fn occurs_in(self, text: &[u8]) -> bool {
        match self {
            Self::One(a) => memchr::memchr(a, text).is_some(),
            Self::Two(a, b) => memchr::memchr2(a, b, text).is_some(),
            Self::Three(a, b, c) => memchr::memchr3(a, b, c, text).is_some(),
        }
    }
}

impl Matcher {
    fn new<'a>(
        patterns: impl Iterator<Item = (String, &'a AddedToken, u32)>,
    ) -> Result<Self, aho_corasick::BuildError> {
        let (texts, found): (Vec<String>, Vec<Found>) = patterns
            .map(|(text, token, id)| {
                let AddedToken { single_word, lstrip, rstrip, .. } = *token;
                (text, Found { id, single_word, lstrip, rstrip })
            })
            .unzip();
        let build = || AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&texts);
        let automaton = if texts.is_empty() { None } else { Some(build()?) };
        Ok(Self { automaton, found, first_bytes: FirstBytes::of(&texts) })
    }

    /// Whether there is no token to find at all.
    pub(super) fn is_empty(&self) -> bool {
        self.automaton.is_none()
    }

    /// Whether `text` certainly holds no token: then it is one part. Cheap, and `false` if in doubt.
    #[inline]
    pub(super) fn finds_nothing(&self, text: &str) -> bool {
        match self.first_bytes {
            Some(bytes) => !bytes.occurs_in(text.as_bytes()),
            None => self.automaton.is_none(),
        }
    }

    /// Calls `take` with the parts of `text` in order, until it breaks off.
    pub(super) fn parts<'t>(
        &self,
        text: &'t str,
        mut take: impl FnMut(Part<'t>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut done = 0;
        // The whitespace that a token has taken along on its right.
        let mut stripped = 0..0;
        if !self.finds_nothing(text)
            && let Some(automaton) = &self.automaton
        {
            for hit in automaton.find_iter(text) {
                let Found { id, single_word, lstrip, rstrip } =
                    self.found[hit.pattern().as_usize()];
                let (mut start, mut end) = (hit.start(), hit.end());
                if single_word && (ends_with_word(&text[..start]) || starts_with_word(&text[end..]))
                {
                    continue;
                }
                if lstrip {
                    // Whitespace that the token before has taken is gone.
                    start = text.get(done..start).map_or(done, |gap| done + gap.trim_end().len());
                }
                if rstrip {
                    // A text of nothing but such tokens would be looked through once for each.
                    if !(stripped.start..=stripped.end).contains(&end) {
                        stripped = end..text.len() - text[end..].trim_start().len();
                    }
                    end = end.max(stripped.end);
                }
                if done < start {
                    take(Part::Text(&text[done..start], done))?;
                }
                // A token that the one before has taken as whitespace is gone as well.
                if start < end {
                    take(Part::Token(id))?;
                }
                done = end;
            }
        }
        if done < text.len() {
            take(Part::Text(&text[done..], done))
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn ends_with_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word_character)
}

fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word_character)
}

/// `\w` of the `regex` crate.
fn is_word_character(character: char) -> bool {
    regex_syntax::is_word_character(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(content: &str, flags: &str) -> AddedToken {
        AddedToken {
            _id: 0,
            content: content.into(),
            single_word: flags.contains('w'),
            lstrip: flags.contains('l'),
            rstrip: flags.contains('r'),
            normalized: flags.contains('n'),
            special: false,
        }
    }

    #[track_caller]
    fn check(tokens: &[(&str, &str)], text: &str, expected: &[&str]) {
        let listed: Vec<_> = tokens.iter().map(|(content, flags)| token(content, flags)).collect();
        let matcher = AddedTokens::new(&listed, 100, |_| None)
            .expect("ids differ")
            .matchers(str::to_owned)
            .expect("small")
            .0;
        let mut found = Vec::new();
        let _ = matcher.parts(text, |part| {
            found.push(match part {
                Part::Text(part, offset) => {
                    assert_eq!(&text[offset..offset + part.len()], part);
                    part.to_owned()
                }
                Part::Token(id) => format!("#{id}"),
            });
            ControlFlow::Continue(())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn the_leftmost_and_longest_token_is_taken() {
        check(&[("ab", ""), ("abc", ""), ("bcd", "")], "xabcdx", &["x", "#101", "dx"]);
        check(&[("[A]", "")], "[A][A] b[A", &["#100", "#100", " b[A"]);
        check(&[("[A]", "")], "", &[]);
        check(&[], "text", &["text"]);
    }

    #[test]
    fn single_words_have_no_word_characters_around() {
        check(&[("a", "w")], "a-a ba aé a_ a", &["#100", "-", "#100", " ba aé a_ ", "#100"]);
    }

    #[test]
    fn stripping_takes_whitespace_along_once() {
        check(&[("<l>", "l"), ("<r>", "r")], "x \u{2003}<l> y", &["x", "#100", " y"]);
        check(&[("<l>", "l"), ("<r>", "r")], "<r> \n <l>  <r>\t", &["#101", "#100", "  ", "#101"]);
    }

    #[test]
    fn tokens_within_stripped_whitespace_are_gone() {
        check(&[(" ", "lr")], "a    b", &["a", "#100", "b"]);
        check(&[(" ", "r")], "a   b", &["a", "#100", "#100", "#100", "b"]);
        check(&[("<r>", "r"), (" ", "r")], "<r>   x", &["#100", "#101", "#101", "#101", "x"]);
    }

    #[test]
    fn two_contents_under_one_id_are_left_to_others() {
        assert!(AddedTokens::new(&[token("a", ""), token("b", "")], 7, |_| Some(3)).is_none());
    }

    #[test]
    fn ids_come_from_the_model_and_then_in_order() {
        let listed =
            [token("b", ""), token("x", ""), token("", ""), token("y", ""), token("x", "n")];
        let added = AddedTokens::new(&listed, 7, |content| (content == "b").then_some(3));
        let added = added.expect("ids differ");
        assert_eq!(added.iter().collect::<Vec<_>>(), [("b", 3), ("x", 7), ("y", 8)]);
        assert_eq!((added.id("y"), added.id("z")), (Some(8), None));
        assert!(added.tokens[1].0.normalized, "the later flags count");
    }

    #[test]
    fn of_equal_normalized_contents_the_first_one_counts() {
        let listed = [token("Foo", "n"), token("foo", "n")];
        let added = AddedTokens::new(&listed, 7, |_| None).expect("ids differ");
        let matcher = added.matchers(str::to_lowercase).expect("small and not empty").1;
        let mut ids = Vec::new();
        let _ = matcher.parts("foo", |part| {
            ids.push(part);
            ControlFlow::Continue(())
        });
        assert_eq!(ids, [Part::Token(7)]);
        assert!(added.matchers(|_| String::new()).is_none());
    }
}
