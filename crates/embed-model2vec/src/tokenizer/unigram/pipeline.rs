//! What happens to a text before it is cut into pieces: the shapes of `normalizer` and `pre_tokenizer`
//! that are served here.
//!
//! Normalizers: none, or one or several of `Precompiled`, `Lowercase`, `Strip` and the
//! replacement of runs of blanks; or the pipeline that imitates a BERT tokenizer: `BertNormalizer`,
//! blanks around single ASCII characters, whitespace collapsed to one blank, `Strip`.
//!
//! Pre-tokenizers: `Metaspace`, alone or behind `WhitespaceSplit`.
//!
//! Anything else, and any field that is not understood, is `None`.

use serde_json::Value;

use super::super::bert::{BertNormalizer, Rewritten};
use super::super::lowercase::lowercase_into;
use super::charsmap::Charsmap;

/// A normalizer and a pre-tokenizer.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) normalizer: Normalizer,
    /// Whether words end at whitespace, which vanishes.
    pub(super) splits_whitespace: bool,
    pub(super) metaspace: Metaspace,
    /// If words can be normalized one by one: which bytes of a raw text are between words.
    pub(super) separators: Option<Box<[bool; 256]>>,
}

/// Rewrites text.
#[derive(Debug)]
pub(super) enum Normalizer {
    Steps(Vec<Step>),
    Bert(ImitatedBert),
}

#[derive(Debug)]
pub(super) enum Step {
    Charsmap(Charsmap),
    Lowercase,
    /// Two blanks or more become this.
    Collapse(String),
    Strip {
        left: bool,
        right: bool,
    },
}

/// The normalizer of the pipeline that imitates BERT.
#[derive(Debug)]
pub(super) struct ImitatedBert {
    bert: BertNormalizer,
    /// ASCII characters that become words of their own.
    alone: [bool; 128],
}

/// Blanks become a visible character that words begin with.
#[derive(Debug)]
pub(super) struct Metaspace {
    pub(super) replacement: char,
    pub(super) prepend: Prepend,
    /// Whether each word is cut into pieces by itself.
    pub(super) splits: bool,
}

/// Which text gets the replacement in front, unless it begins with it anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepend {
    Always,
    /// Text that is traced back to the very beginning of the whole text.
    First,
    Never,
}

/// Bytes that may separate words: whitespace in ASCII.
const ASCII_WHITESPACE: [u8; 6] = [b'\t', b'\n', 0x0B, 0x0C, b'\r', b' '];

impl Pipeline {
    pub(super) fn read(normalizer: &Value, pre_tokenizer: &Value) -> Option<Self> {
        let normalizer = Normalizer::read(normalizer)?;
        let (splits_whitespace, metaspace) = match kind(pre_tokenizer)? {
            "Sequence" => match pre_tokenizer.get("pretokenizers")?.as_array()?.as_slice() {
                [split, metaspace] if kind(split)? == "WhitespaceSplit" => {
                    (true, Metaspace::read(metaspace)?)
                }
                [metaspace] => (false, Metaspace::read(metaspace)?),
                _ => return None,
            },
            _ => (false, Metaspace::read(pre_tokenizer)?),
        };
        // Where a text begins is known only where nothing takes its beginning away.
        let traces = match &normalizer {
            Normalizer::Steps(steps) => matches!(steps[..], [] | [Step::Charsmap(_)]),
            Normalizer::Bert(_) => false,
        };
        if metaspace.prepend == Prepend::First && !traces || metaspace.replacement == ' ' {
            return None;
        }
        let separators = normalizer.separators(splits_whitespace);
        Some(Self { normalizer, splits_whitespace, metaspace, separators })
    }

    /// Whether grapheme clusters decide where words can be taken apart.
    pub(super) fn looks_at_clusters(&self) -> bool {
        let is_charsmap = |step: &Step| matches!(step, Step::Charsmap(_));
        matches!(&self.normalizer, Normalizer::Steps(steps) if steps.iter().any(is_charsmap))
    }
}

impl Normalizer {
    fn read(section: &Value) -> Option<Self> {
        if section.is_null() {
            return Some(Self::Steps(Vec::new()));
        }
        let sections = match kind(section)? {
            "Sequence" => section.get("normalizers")?.as_array()?.as_slice(),
            _ => std::slice::from_ref(section),
        };
        if let [bert, rest @ ..] = sections
            && kind(bert)? == "BertNormalizer"
        {
            return ImitatedBert::read(bert, rest).map(Self::Bert);
        }
        let steps: Vec<Step> = sections.iter().map(Step::read).collect::<Option<_>>()?;
        Some(Self::Steps(steps))
    }

    /// Appends the normalized form of a whole text; `spare` is working memory.
    pub(super) fn normalize_into(&self, text: &str, spare: &mut String, out: &mut String) {
        match self {
            Self::Bert(bert) => bert.normalize_into(text, spare, out),
            Self::Steps(steps) => {
                let Some((last, others)) = steps.split_last() else {
                    out.push_str(text);
                    return;
                };
                if others.is_empty() {
                    last.apply(text, out);
                    return;
                }
                let mut current = String::new();
                for (number, step) in others.iter().enumerate() {
                    spare.clear();
                    step.apply(if number == 0 { text } else { &current }, spare);
                    std::mem::swap(&mut current, spare);
                }
                last.apply(&current, out);
            }
        }
    }

    /// Bytes at the beginning of the normalized form of `text` that are traced to its beginning.
    pub(super) fn traced_to_first(&self, text: &str) -> usize {
        match self {
            Self::Steps(steps) => match &steps[..] {
                [Step::Charsmap(charsmap)] => charsmap.traced_to_first(text),
                _ => text.chars().next().map_or(0, char::len_utf8),
            },
            Self::Bert(_) => 0,
        }
    }

    /// The bytes at which raw text can be taken apart into words that are normalized one by one, if
    /// whitespace has no other meaning than to separate words.
    fn separators(&self, splits_whitespace: bool) -> Option<Box<[bool; 256]>> {
        let mut separators = Box::new([false; 256]);
        match self {
            // Anything but these four can vanish, or does not end at a character of class 0.
            Self::Bert(_) => {
                for byte in [b'\t', b'\n', b'\r', b' '] {
                    separators[usize::from(byte)] = true;
                }
            }
            Self::Steps(_) if !splits_whitespace => return None,
            Self::Steps(steps) => {
                for byte in ASCII_WHITESPACE {
                    separators[usize::from(byte)] = true;
                }
                for (number, step) in steps.iter().enumerate() {
                    match step {
                        // Another step before the table could change what its clusters are made of.
                        Step::Charsmap(_) if number > 0 => return None,
                        Step::Charsmap(charsmap) => {
                            for byte in ASCII_WHITESPACE {
                                let alone = char::from(byte).to_string();
                                let texts = match byte {
                                    b'\r' | b'\n' => &[alone.as_str(), "\r\n"][..],
                                    _ => &[alone.as_str()],
                                };
                                separators[usize::from(byte)] = charsmap.gives_whitespace(texts);
                            }
                        }
                        Step::Lowercase | Step::Strip { .. } => {}
                        // What does not leave whitespace behind joins words.
                        Step::Collapse(blank) if blank == " " => {}
                        Step::Collapse(_) => return None,
                    }
                }
                if !separators[usize::from(b' ')] {
                    return None;
                }
            }
        }
        Some(separators)
    }
}

impl Step {
    fn read(section: &Value) -> Option<Self> {
        Some(match kind(section)? {
            "Precompiled" => {
                let table = section.get("precompiled_charsmap")?.as_str()?;
                Self::Charsmap(Charsmap::from_base64(table)?)
            }
            "Lowercase" => Self::Lowercase,
            "Strip" => Self::Strip {
                left: section.get("strip_left")?.as_bool()?,
                right: section.get("strip_right")?.as_bool()?,
            },
            "Replace" => match replace(section)? {
                (Pattern::Regex(" {2,}"), content) => Self::Collapse(content.to_owned()),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Appends what the step makes of `text`.
    fn apply(&self, text: &str, out: &mut String) {
        match self {
            Self::Charsmap(charsmap) => charsmap.normalize_into(text, out),
            Self::Lowercase => lowercase_into(text, out),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                out.push_str(if *right { text.trim_end() } else { text });
            }
            Self::Collapse(content) => {
                let mut rest = text;
                while let Some(start) = rest.find("  ") {
                    out.push_str(&rest[..start]);
                    out.push_str(content);
                    rest = rest[start..].trim_start_matches(' ');
                }
                out.push_str(rest);
            }
        }
    }
}

impl ImitatedBert {
    fn read(bert: &Value, rest: &[Value]) -> Option<Self> {
        let bert = BertNormalizer::from_json(bert)?;
        let [replaces @ .., collapse, strip] = rest else { return None };
        let strips = |side| strip.get(side)?.as_bool();
        if kind(strip)? != "Strip" || !strips("strip_left")? || !strips("strip_right")? {
            return None;
        }
        let (Pattern::Regex(r"\s+"), " ") = replace(collapse)? else { return None };
        let mut alone = [false; 128];
        for section in replaces {
            // Since each pattern is one character, and its replacement adds nothing but blanks, the
            // order of these replacements does not matter.
            let (Pattern::Text(pattern), content) = replace(section)? else { return None };
            match *pattern.as_bytes() {
                [byte] if byte.is_ascii_punctuation() && content == format!(" {pattern} ") => {
                    alone[usize::from(byte)] = true;
                }
                _ => return None,
            }
        }
        Some(Self { bert, alone })
    }

    /// Appends words with one blank between them.
    fn normalize_into(&self, text: &str, spare: &mut String, out: &mut String) {
        let mut words = SpacedWords { start: out.len(), gap: false, out };
        let len_before = words.out.len();
        for character in text.chars() {
            match self.bert.rewrite(character) {
                Rewritten::Nothing => {}
                Rewritten::Space(_) => words.gap = true,
                Rewritten::Word(character) => words.push(character),
                Rewritten::Punctuation(character) => self.push(character, &mut words),
                Rewritten::Padded(character) => words.push_alone(character),
                Rewritten::Pieces(pieces)
                    if pieces.iter().all(|piece| piece.combining_class == 0) =>
                {
                    for character in pieces.iter().filter_map(|piece| piece.character) {
                        self.push(character, &mut words);
                    }
                }
                // Marks are sorted: that is done by the normalizer itself, for the whole text.
                Rewritten::Pieces(_) => {
                    words.out.truncate(len_before);
                    words.gap = false;
                    spare.clear();
                    self.bert.normalize_into(text, spare);
                    spare.chars().for_each(|character| self.push(character, &mut words));
                    return;
                }
            }
        }
    }

    /// Takes a character of normalized text.
    #[inline]
    fn push(&self, character: char, words: &mut SpacedWords<'_>) {
        if character.is_whitespace() {
            words.gap = true;
        } else if character.is_ascii() && self.alone[character as usize] {
            words.push_alone(character);
        } else {
            words.push(character);
        }
    }
}

/// Words with one blank between them.
struct SpacedWords<'a> {
    start: usize,
    /// Whether there is a gap in front of the next character.
    gap: bool,
    out: &'a mut String,
}

impl SpacedWords<'_> {
    #[inline]
    fn push(&mut self, character: char) {
        if self.gap && self.out.len() > self.start {
            self.out.push(' ');
        }
        self.out.push(character);
        self.gap = false;
    }

    #[inline]
    fn push_alone(&mut self, character: char) {
        self.gap = true;
        self.push(character);
        self.gap = true;
    }
}

impl Metaspace {
    fn read(section: &Value) -> Option<Self> {
        if kind(section)? != "Metaspace" {
            return None;
        }
        let mut characters = section.get("replacement")?.as_str()?.chars();
        let (Some(replacement), None) = (characters.next(), characters.next()) else { return None };
        let prepend = match section.get("prepend_scheme") {
            None => Prepend::Always,
            Some(scheme) => match scheme.as_str()? {
                "always" => Prepend::Always,
                "first" => Prepend::First,
                "never" => Prepend::Never,
                _ => return None,
            },
        };
        let prepend = match section.get("add_prefix_space") {
            None | Some(Value::Null | Value::Bool(true)) => prepend,
            Some(Value::Bool(false)) if prepend == Prepend::Never => prepend,
            Some(_) => return None,
        };
        let splits = match section.get("split") {
            None | Some(Value::Null) => true,
            Some(value) => value.as_bool()?,
        };
        Some(Self { replacement, prepend, splits })
    }
}

enum Pattern<'a> {
    Text(&'a str),
    Regex(&'a str),
}

/// Pattern and content of a `Replace` normalizer.
fn replace(section: &Value) -> Option<(Pattern<'_>, &str)> {
    let pattern = section.get("pattern")?.as_object()?;
    let pattern = match pattern.iter().next()? {
        _ if pattern.len() != 1 || kind(section)? != "Replace" => return None,
        (kind, Value::String(text)) if kind == "String" => Pattern::Text(text),
        (kind, Value::String(text)) if kind == "Regex" => Pattern::Regex(text),
        _ => return None,
    };
    Some((pattern, section.get("content")?.as_str()?))
}

fn kind(section: &Value) -> Option<&str> {
    section.get("type")?.as_str()
}
