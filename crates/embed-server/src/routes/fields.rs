//! The fields that every route has that embeds: what is to be embedded, and how.

use serde::de::MapAccess;

use super::embeddings::required;
use crate::app::{Ask, Urgency};
use crate::error::ApiError;
use crate::json::{Fault, Flag, Input, InputLimits, InputSeed, Number, Object};

/// These fields of a body. Routes that have more of them pass on what is not their own.
pub(super) struct AskFields {
    limits: InputLimits,
    /// What the route calls its input.
    field: &'static str,
    pub(super) input: Option<Input>,
    dimensions: Option<u64>,
    truncate: Option<bool>,
}

impl AskFields {
    pub(super) fn new(field: &'static str, limits: InputLimits) -> Self {
        Self { limits, field, input: None, dimensions: None, truncate: None }
    }

    /// What they ask for.
    pub(super) fn ask(self, urgency: Urgency) -> Result<Ask, ApiError> {
        let Self { field, input, dimensions, truncate, .. } = self;
        Ok(Ask { dimensions, truncate, urgency, ..Ask::new(field, required(input, field)?) })
    }
}

impl Object for AskFields {
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
        fault: &mut Fault,
    ) -> Result<bool, A::Error> {
        match name {
            _ if name == self.field => {
                let seed = InputSeed { name: self.field, limits: self.limits, fault };
                self.input = map.next_value_seed(seed)?;
            }
            "truncate" => self.truncate = map.next_value_seed(Flag { name: "truncate", fault })?,
            "dimensions" => {
                self.dimensions = map.next_value_seed(Number { name: "dimensions", fault })?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
