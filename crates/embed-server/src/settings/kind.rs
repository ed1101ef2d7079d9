//! What the value of a setting may be: from text to its field, and back.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::value::{
    is_host, is_origin, parse_bytes, parse_count, parse_duration, parse_listen, show_bytes,
    show_duration,
};
use super::{EmptyInput, Listen, Settings, TokenIds};

/// The field that a value goes to.
pub(super) type Field<T> = fn(&mut Settings) -> &mut T;

/// What a value may be, and its field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Listen(Field<Listen>),
    Switch(Field<bool>),
    Path(Field<Option<PathBuf>>),
    Hosts(Field<Vec<String>>),
    Origins(Field<Vec<String>>),
    TokenIds(Field<TokenIds>),
    EmptyInput(Field<EmptyInput>),
    Bytes(Range, Field<usize>),
    Count(Range, Field<usize>),
    Threads(Field<Option<NonZeroUsize>>),
    Duration(Least, Field<Duration>),
}

/// The smallest and the largest value.
pub(super) type Range = (usize, usize);

/// Whether a duration may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Least {
    Zero,
    Millisecond,
}

/// More would be a slip of the finger, and could not be added to a point in time for certain.
const LONGEST: Duration = Duration::from_hours(24);

/// More threads than any machine of today has processors.
const MOST_THREADS: usize = 1024;

/// More than any queue or list should have, and few enough to be counted in 32 bits.
pub(super) const MANY: usize = 1_000_000_000;

/// A body is held in memory as a whole.
pub(super) const LARGEST_BODY: usize = 1 << 30;

/// Bytes are counted in 32 bits.
pub(super) const MOST_BYTES: usize = (4 << 30) - (1 << 20);

const ON: &str = "true";
const OFF: &str = "false";
const AUTO: &str = "auto";

impl TokenIds {
    const NAMES: [(&'static str, Self); 3] =
        [("cl100k", Self::Cl100k), ("native", Self::Native), ("reject", Self::Reject)];
}

impl EmptyInput {
    const NAMES: [(&'static str, Self); 2] = [("reject", Self::Reject), ("zero", Self::Zero)];
}

impl Kind {
    /// A word for its value.
    pub(super) fn value_name(&self) -> &'static str {
        match *self {
            Kind::Listen(_) => "ADDRESS",
            Kind::Switch(_) => "BOOL",
            Kind::Path(_) => "FILE",
            Kind::Hosts(_) => "HOSTS",
            Kind::Origins(_) => "ORIGINS",
            Kind::TokenIds(_) | Kind::EmptyInput(_) => "HOW",
            Kind::Bytes(..) => "BYTES",
            Kind::Count(..) | Kind::Threads(_) => "N",
            Kind::Duration(..) => "TIME",
        }
    }

    /// Whether its flag stands for `true` when it has no value.
    pub(super) fn is_switch(&self) -> bool {
        matches!(self, Kind::Switch(_))
    }

    /// Its value as text, in the form that [`Settings`] are made from.
    pub(super) fn text(&self, settings: &Settings) -> String {
        // A field is reached by one function, which can write: it works on a copy.
        let settings = &mut settings.clone();
        match *self {
            Kind::Listen(field) => field(settings).to_string(),
            Kind::Switch(field) => if *field(settings) { ON } else { OFF }.to_owned(),
            Kind::Path(field) => {
                let path = field(settings).as_deref();
                path.map_or_else(String::new, |path| path.display().to_string())
            }
            Kind::Hosts(field) | Kind::Origins(field) => field(settings).join(","),
            Kind::TokenIds(field) => name_of(field(settings), &TokenIds::NAMES),
            Kind::EmptyInput(field) => name_of(field(settings), &EmptyInput::NAMES),
            Kind::Bytes(_, field) => show_bytes(*field(settings)),
            Kind::Count(_, field) => field(settings).to_string(),
            Kind::Threads(field) => {
                field(settings).map_or_else(|| AUTO.to_owned(), |threads| threads.to_string())
            }
            Kind::Duration(_, field) => show_duration(*field(settings)),
        }
    }

    /// Its value as a file has it.
    pub(super) fn toml(&self, settings: &Settings) -> toml::Value {
        let text = self.text(settings);
        match *self {
            Kind::Switch(_) => toml::Value::Boolean(text == ON),
            Kind::Hosts(_) | Kind::Origins(_) => {
                toml::Value::Array(items(&text).map(|item| item.to_owned().into()).collect())
            }
            Kind::Count(..) | Kind::Threads(_) => {
                text.parse().map_or_else(|_| text.into(), toml::Value::Integer)
            }
            _ => toml::Value::String(text),
        }
    }

    /// A value of a file as text; `None` if it is of another type.
    pub(super) fn text_of(&self, value: &toml::Value) -> Option<String> {
        use toml::Value::{Array, Boolean, Integer, String};
        match (*self, value) {
            (Kind::Switch(_), Boolean(value)) => Some(value.to_string()),
            (Kind::Bytes(..) | Kind::Count(..) | Kind::Threads(_), Integer(value)) => {
                Some(value.to_string())
            }
            (Kind::Hosts(_) | Kind::Origins(_), Array(values)) => {
                let items: Option<Vec<&str>> = values.iter().map(toml::Value::as_str).collect();
                items.map(|items| items.join(","))
            }
            (Kind::Switch(_) | Kind::Count(..) | Kind::Hosts(_) | Kind::Origins(_), _) => None,
            (_, String(value)) => Some(value.clone()),
            _ => None,
        }
    }

    /// Gives the field the value that `text` stands for; `None` if it stands for none that is allowed.
    pub(super) fn set(&self, settings: &mut Settings, text: &str) -> Option<()> {
        match *self {
            Kind::Listen(field) => *field(settings) = parse_listen(text)?,
            Kind::Switch(field) => {
                *field(settings) = value_of(text, &[(ON, true), (OFF, false)])?;
            }
            Kind::Path(field) => *field(settings) = (!text.is_empty()).then(|| text.into()),
            Kind::Hosts(field) => *field(settings) = list(text, is_host)?,
            Kind::Origins(field) => *field(settings) = list(text, is_origin)?,
            Kind::TokenIds(field) => *field(settings) = value_of(text, &TokenIds::NAMES)?,
            Kind::EmptyInput(field) => *field(settings) = value_of(text, &EmptyInput::NAMES)?,
            Kind::Bytes(range, field) => *field(settings) = within(range, parse_bytes(text)?)?,
            Kind::Count(range, field) => *field(settings) = within(range, parse_count(text)?)?,
            Kind::Threads(field) if text == AUTO => *field(settings) = None,
            Kind::Threads(field) => {
                let threads = within((1, MOST_THREADS), parse_count(text)?)?;
                *field(settings) = NonZeroUsize::new(threads);
            }
            Kind::Duration(least, field) => {
                let duration = parse_duration(text)?;
                let is_short = least == Least::Millisecond && duration.is_zero();
                *field(settings) = (!is_short && duration <= LONGEST).then_some(duration)?;
            }
        }
        Some(())
    }

    /// What its value may be, in words.
    pub(super) fn expected(&self) -> String {
        match *self {
            Kind::Listen(_) => {
                "an address such as `127.0.0.1:8080`, or `unix:/run/embed.sock`".into()
            }
            Kind::Switch(_) => format!("`{ON}` or `{OFF}`"),
            Kind::Path(_) => "a path".into(),
            Kind::Hosts(_) => "hosts such as `embed.example` or `embed.example:8080`".into(),
            Kind::Origins(_) => {
                "exact origins such as `https://app.example`, without a path or `*`".into()
            }
            Kind::TokenIds(_) => alternatives(&TokenIds::NAMES),
            Kind::EmptyInput(_) => alternatives(&EmptyInput::NAMES),
            Kind::Bytes((least, most), _) => format!(
                "a size from {} to {}, such as `16MiB` or `16777216`",
                show_bytes(least),
                show_bytes(most)
            ),
            Kind::Count((least, most), _) => format!("a number from {least} to {most}"),
            Kind::Threads(_) => format!("a number from 1 to {MOST_THREADS}, or `{AUTO}`"),
            Kind::Duration(least, _) => {
                let least = if least == Least::Zero { "0s" } else { "1ms" };
                format!("a duration from {least} to 24h, such as `10s` or `500ms`")
            }
        }
    }
}

fn within((least, most): Range, value: usize) -> Option<usize> {
    (least..=most).contains(&value).then_some(value)
}

fn name_of<T: PartialEq>(value: &T, names: &[(&str, T)]) -> String {
    let name = names.iter().find(|(_, candidate)| candidate == value);
    name.expect("every value of a choice has its name").0.to_owned()
}

fn value_of<T: Copy>(text: &str, names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

/// "`a`, `b` or `c`".
fn alternatives<T>(names: &[(&str, T)]) -> String {
    let names: Vec<String> = names.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (last, others) = names.split_last().expect("a choice has values");
    format!("{} or {last}", others.join(", "))
}

/// The parts between commas, without the blanks around them.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn list(text: &str, is_item: fn(&str) -> bool) -> Option<Vec<String>> {
    items(text).map(|item| is_item(item).then(|| item.to_owned())).collect()
}
