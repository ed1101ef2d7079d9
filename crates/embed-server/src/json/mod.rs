//! Bodies of requests, read in one pass without a tree of values.
//!
//! A fault stops the reading and says which field it is about, and which element of it. Fields that no
//! route knows are skipped, `null` stands for a field that is not there, and of a field that is there
//! twice the last one counts.

/// Methods of a visitor that refuse: `self.refuse(found)` says what was found in place of what was expected.
macro_rules! refuse {
    ($($kind:ident)*) => { $(refuse!(@ $kind);)* };
    (@ null) => {
        fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
            Err(self.refuse("null"))
        }
    };
    (@ boolean) => {
        fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Self::Value, E> {
            Err(self.refuse("a boolean"))
        }
    };
    (@ natural) => {
        fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Self::Value, E> {
            Err(self.refuse("a number"))
        }
    };
    (@ negative) => {
        fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Self::Value, E> {
            Err(self.refuse("a negative number"))
        }
    };
    (@ fraction) => {
        fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Self::Value, E> {
            Err(self.refuse("a number"))
        }
    };
    (@ string) => {
        fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Self::Value, E> {
            Err(self.refuse("a string"))
        }
    };
    (@ array) => {
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Err(self.refuse("an array"))
        }
    };
    (@ object) => {
        fn visit_map<A: serde::de::MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
            Err(self.refuse("an object"))
        }
    };
}

mod fields;
mod input;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};

use crate::error::ApiError;

pub(crate) use fields::{Flag, Number, Text};
pub(crate) use input::{Input, InputLimits, InputSeed, check_chars};

/// What is wrong with a body, once it is known: serde's own errors cannot carry it.
pub(crate) type Fault = Option<ApiError>;

/// Stops the reading with `error`.
fn stop<E: serde::de::Error>(fault: &mut Fault, error: ApiError) -> E {
    *fault = Some(error);
    E::custom("stopped")
}

/// An object that takes its fields one after the other.
pub(crate) trait Object: Sized {
    /// Takes the field `name` from `map`, which stands before its value; returns whether it knows it.
    ///
    /// Faults that are more than a syntax error are left in `fault`.
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error>;
}

/// Reads an object from the whole of `json`.
pub(crate) fn read<T: Object>(json: &[u8], object: T, depth: usize) -> Result<T, ApiError> {
    let mut fault = None;
    let mut field = String::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let seed = ObjectSeed { object, fault: &mut fault, field: &mut field, depth };
    let read = seed.deserialize(&mut reader).and_then(|object| reader.end().map(|()| object));
    read.map_err(|error| fault.unwrap_or_else(|| malformed(&error)))
}

/// Reads the field `name`, an object, or `None` for `null`.
pub(crate) fn nested<'de, T: Object, A: MapAccess<'de>>(
    name: &'static str,
    map: &mut A,
    object: T,
    depth: usize,
    fault: &mut Fault,
) -> Result<Option<T>, A::Error> {
    let mut field = String::new();
    // One level less than the body itself.
    let depth = depth - 1;
    map.next_value_seed(NestedSeed {
        name,
        seed: ObjectSeed { object, fault, field: &mut field, depth },
    })
}

/// An object, or `null`, as the field `name`.
struct NestedSeed<'a, T> {
    name: &'static str,
    seed: ObjectSeed<'a, T>,
}

impl<T> NestedSeed<'_, T> {
    fn refuse<E: serde::de::Error>(self, found: &str) -> E {
        let message = format!("`{}`: expected an object, found {found}", self.name);
        stop(self.seed.fault, ApiError::invalid(Some(self.name), message))
    }
}

impl<'de, T: Object> DeserializeSeed<'de> for NestedSeed<'_, T> {
    type Value = Option<T>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Object> Visitor<'de> for NestedSeed<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.seed.visit_map(map).map(Some)
    }

    refuse!(boolean natural negative fraction string array);
}

/// What serde says of a value can have the value in it, which is the caller's: only where it is and of which
/// kind is passed on.
fn malformed(error: &serde_json::Error) -> ApiError {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        _ => "it is malformed",
    };
    let (line, column) = (error.line(), error.column());
    ApiError::invalid(None, format!("the body is not JSON: {what} at line {line}, column {column}"))
}

struct ObjectSeed<'a, T> {
    object: T,
    fault: &'a mut Fault,
    /// Working memory: the name of the field at hand.
    field: &'a mut String,
    depth: usize,
}

impl<'de, T: Object> DeserializeSeed<'de> for ObjectSeed<'_, T> {
    type Value = T;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T> ObjectSeed<'_, T> {
    fn refuse<E: serde::de::Error>(self, found: &str) -> E {
        let message = format!("the body: expected an object, found {found}");
        stop(self.fault, ApiError::invalid(None, message))
    }
}

impl<'de, T: Object> Visitor<'de> for ObjectSeed<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<T, A::Error> {
        while map.next_key_seed(NameSeed(self.field))?.is_some() {
            if !self.object.take(self.field, &mut map, self.fault)? {
                // The object itself is the first level. One within the body may be beyond the limit.
                let depth = self.depth.saturating_sub(1);
                map.next_value_seed(Skipped { depth, fault: self.fault })?;
            }
        }
        Ok(self.object)
    }

    refuse!(null boolean natural negative fraction string array);
}

/// Reads a name into memory that is there already.
struct NameSeed<'a>(&'a mut String);

/// Names of fields that a route knows are shorter; of longer ones only so much is kept.
const LONGEST_NAME: usize = 64;

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.0.clear();
        if name.len() <= LONGEST_NAME {
            self.0.push_str(name);
        }
        Ok(())
    }
}

/// A value that nobody wants, down to a depth.
struct Skipped<'a> {
    depth: usize,
    fault: &'a mut Fault,
}

impl<'de> DeserializeSeed<'de> for Skipped<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Skipped<'_> {
    fn enter<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        self.depth.checked_sub(1).ok_or_else(|| {
            let message = "the body nests arrays and objects too deeply (setting `json_depth`)";
            *self.fault = Some(ApiError::invalid(None, message));
            E::custom(message)
        })
    }
}

impl<'de> Visitor<'de> for Skipped<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let depth = self.enter()?;
        while list.next_element_seed(Skipped { depth, fault: self.fault })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let depth = self.enter()?;
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Skipped { depth, fault: self.fault })?;
        }
        Ok(())
    }
}
