//! Single fields: a text, a whole number, a yes or no. Each names itself where it is of another type.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Visitor};

use super::{Fault, stop};
use crate::error::ApiError;

/// A visitor of one field of type `$value`, which is an `Option`: `null` is a field that is not there.
macro_rules! field {
    ($(#[$doc:meta])* $name:ident: $value:ty, $expected:literal, { $($visit:item)+ } refuses: $($kind:ident)*) => {
        $(#[$doc])*
        pub(crate) struct $name<'a> {
            pub(crate) name: &'static str,
            pub(crate) fault: &'a mut Fault,
        }

        impl $name<'_> {
            fn refuse<E: serde::de::Error>(self, found: &str) -> E {
                let message = format!("`{}`: expected {}, found {found}", self.name, $expected);
                stop(self.fault, ApiError::invalid(Some(self.name), message))
            }
        }

        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = Option<$value>;

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
                from.deserialize_any(self)
            }
        }

        impl<'de> Visitor<'de> for $name<'_> {
            type Value = Option<$value>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expected)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            $($visit)+

            refuse!($($kind)*);
        }
    };
}

field!(
    /// A text.
    Text: String, "a string", {
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(text.to_owned()))
        }
    } refuses: boolean natural negative fraction array object
);

field!(
    /// A whole number of zero or more.
    Number: u64, "a whole number", {
        fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number))
        }
        fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
            whole(number).map(Some).ok_or_else(|| self.refuse("a number with a fraction"))
        }
    } refuses: boolean negative string array object
);

/// A number that is written with a point or an exponent and is a whole one for all that: `8.0`, as JSON
/// Schema and the languages that divide have it.
pub(super) fn whole(number: f64) -> Option<u64> {
    // Every whole number below has a value of its own.
    const MOST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
    ((0.0..MOST).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

field!(
    /// A yes or no.
    Flag: bool, "true or false", {
        fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
            Ok(Some(flag))
        }
    } refuses: natural negative fraction string array object
);
