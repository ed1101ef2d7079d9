//! The field that everything is about: a text, a list of texts, a list of token ids, or a list of such
//! lists. What the first element is decides what all are.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::fields::whole;
use super::{Fault, stop};
use crate::error::ApiError;

/// What is to be embedded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Texts(Vec<String>),
    Ids(Vec<Vec<u32>>),
}

/// How much of it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputLimits {
    /// Texts, or lists of ids.
    pub(crate) inputs: usize,
    /// Unicode code points of a text.
    pub(crate) text_chars: usize,
    /// Token ids of all lists together.
    pub(crate) ids: usize,
    /// Brackets within brackets, for objects within the body.
    pub(crate) depth: usize,
}

impl Input {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Ids(lists) => lists.len(),
        }
    }
}

/// Reads it, as the field `name`; `None` for `null`.
pub(crate) struct InputSeed<'a> {
    pub(crate) name: &'static str,
    pub(crate) limits: InputLimits,
    pub(crate) fault: &'a mut Fault,
}

const EXPECTED: &str =
    "a string, an array of strings, or an array of token ids or of arrays of them";

impl InputSeed<'_> {
    fn invalid<E: serde::de::Error>(self, message: &str) -> E {
        let error = ApiError::invalid(Some(self.name), format!("`{}`{message}", self.name));
        stop(self.fault, error)
    }

    fn refuse<E: serde::de::Error>(self, found: &str) -> E {
        self.invalid(&format!(": expected {EXPECTED}, found {found}"))
    }
}

impl<'de> DeserializeSeed<'de> for InputSeed<'_> {
    type Value = Option<Input>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for InputSeed<'_> {
    type Value = Option<Input>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let element = Element { position: None, ..Element::of(&self) };
        element.check_length(text).map_err(|error| stop(self.fault, error))?;
        Ok(Some(Input::Texts(vec![text.to_owned()])))
    }

    refuse!(boolean natural negative fraction object);

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Elements::None;
        let mut position = 0;
        let mut ids_left = self.limits.ids;
        loop {
            let element = Element { position: Some(position), ..Element::of(&self) };
            let seed = ElementSeed { element, ids_left: &mut ids_left, fault: &mut *self.fault };
            let Some(value) = list.next_element_seed(seed)? else { break };
            // One list of ids is one input, however long it is.
            let is_one_more = !matches!(value, One::Id(_));
            if is_one_more && position == self.limits.inputs {
                let message = format!(
                    "`{}`: more than {} inputs (setting `max_inputs`)",
                    self.name, self.limits.inputs
                );
                return Err(stop(self.fault, ApiError::over_limit(self.name, message)));
            }
            if let Err(error) = elements.push(value, element) {
                return Err(stop(self.fault, error));
            }
            position += 1;
        }
        match elements {
            Elements::None => {
                Err(self.invalid(": the array is empty, expected at least one input"))
            }
            Elements::Texts(texts) => Ok(Some(Input::Texts(texts))),
            Elements::Ids(ids) => Ok(Some(Input::Ids(vec![ids]))),
            Elements::Lists(lists) => Ok(Some(Input::Ids(lists))),
        }
    }
}

/// The elements so far, all of one kind.
enum Elements {
    None,
    Texts(Vec<String>),
    Ids(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

/// One element.
enum One<'de> {
    Text(Cow<'de, str>),
    Id(u32),
    List(Vec<u32>),
}

impl Elements {
    fn push(&mut self, value: One<'_>, element: Element) -> Result<(), ApiError> {
        match (&mut *self, value) {
            (Self::None, One::Text(text)) => *self = Self::Texts(vec![text.into_owned()]),
            (Self::None, One::Id(id)) => *self = Self::Ids(vec![id]),
            (Self::None, One::List(ids)) => *self = Self::Lists(vec![ids]),
            (Self::Texts(texts), One::Text(text)) => texts.push(text.into_owned()),
            (Self::Ids(ids), One::Id(id)) => ids.push(id),
            (Self::Lists(lists), One::List(ids)) => lists.push(ids),
            (before, value) => {
                let before = match before {
                    Self::Texts(_) => "strings",
                    Self::Ids(_) => "token ids",
                    Self::Lists(_) | Self::None => "arrays of token ids",
                };
                let found = match value {
                    One::Text(_) => "a string",
                    One::Id(_) => "a number",
                    One::List(_) => "an array",
                };
                return Err(element.invalid(&format!("found {found} after {before}")));
            }
        }
        Ok(())
    }
}

/// Where an element stands, and what it may be.
#[derive(Clone, Copy)]
struct Element {
    name: &'static str,
    position: Option<usize>,
    limits: InputLimits,
}

impl Element {
    fn of(seed: &InputSeed<'_>) -> Self {
        Self { name: seed.name, position: None, limits: seed.limits }
    }

    fn place(self) -> String {
        match self.position {
            Some(position) => format!("`{}[{position}]`", self.name),
            None => format!("`{}`", self.name),
        }
    }

    fn invalid(self, message: &str) -> ApiError {
        ApiError::invalid(Some(self.name), format!("{}: {message}", self.place()))
    }

    fn check_length(self, text: &str) -> Result<(), ApiError> {
        // The place is put into words only where it is needed.
        if text.len() <= self.limits.text_chars {
            return Ok(());
        }
        check_chars(text, self.limits.text_chars, self.name, &self.place())
    }

    /// An id, after which there are fewer to come.
    fn id(self, number: u64, left: &mut usize) -> Result<u32, ApiError> {
        *left = left.checked_sub(1).ok_or_else(|| {
            let (name, limit) = (self.name, self.limits.ids);
            let message =
                format!("`{name}`: more than {limit} token ids (setting `max_request_tokens`)");
            ApiError::over_limit(name, message)
        })?;
        let too_large = |_| self.invalid("a token id is at most 4294967295");
        u32::try_from(number).map_err(too_large)
    }
}

/// Whether a text, which stands at `place` of the field `name`, has at most so many code points.
pub(crate) fn check_chars(
    text: &str,
    limit: usize,
    name: &'static str,
    place: &str,
) -> Result<(), ApiError> {
    // No code point takes less than a byte.
    if text.len() <= limit || text.chars().count() <= limit {
        return Ok(());
    }
    let message = format!("{place}: more than {limit} characters (setting `max_text_chars`)");
    Err(ApiError::over_limit(name, message))
}

struct ElementSeed<'a> {
    element: Element,
    ids_left: &'a mut usize,
    fault: &'a mut Fault,
}

impl ElementSeed<'_> {
    fn refuse<E: serde::de::Error>(self, found: &str) -> E {
        let error = self.element.invalid(&format!("expected a string or token ids, found {found}"));
        stop(self.fault, error)
    }
}

impl<'de> DeserializeSeed<'de> for ElementSeed<'_> {
    type Value = One<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<One<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ElementSeed<'_> {
    type Value = One<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or token ids")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<One<'de>, E> {
        match self.element.check_length(text) {
            Ok(()) => Ok(One::Text(Cow::Borrowed(text))),
            Err(error) => Err(stop(self.fault, error)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<One<'de>, E> {
        match self.element.check_length(text) {
            Ok(()) => Ok(One::Text(Cow::Owned(text.to_owned()))),
            Err(error) => Err(stop(self.fault, error)),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<One<'de>, E> {
        let id = self.element.id(number, self.ids_left);
        id.map(One::Id).map_err(|error| stop(self.fault, error))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<One<'de>, A::Error> {
        let Self { element, ids_left, fault } = self;
        let mut ids = Vec::new();
        loop {
            let seed = IdSeed { element, ids_left: &mut *ids_left, fault: &mut *fault };
            match list.next_element_seed(seed)? {
                Some(id) => ids.push(id),
                None => return Ok(One::List(ids)),
            }
        }
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<One<'de>, E> {
        match whole(number) {
            Some(number) => self.visit_u64(number),
            None => Err(self.refuse("a number with a fraction")),
        }
    }

    refuse!(null boolean negative object);
}

/// One id within a list of them.
struct IdSeed<'a> {
    element: Element,
    ids_left: &'a mut usize,
    fault: &'a mut Fault,
}

impl IdSeed<'_> {
    fn refuse<E: serde::de::Error>(self, found: &str) -> E {
        let error = self.element.invalid(&format!("expected token ids, found {found}"));
        stop(self.fault, error)
    }
}

impl<'de> DeserializeSeed<'de> for IdSeed<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IdSeed<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u32, E> {
        let id = self.element.id(number, self.ids_left);
        id.map_err(|error| stop(self.fault, error))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<u32, E> {
        match whole(number) {
            Some(number) => self.visit_u64(number),
            None => Err(self.refuse("a number with a fraction")),
        }
    }

    refuse!(null boolean negative string array object);
}
