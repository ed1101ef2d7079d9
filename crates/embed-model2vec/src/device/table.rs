//! What a device gets of a model: the table and what belongs to its rows.

use super::{Device, DeviceError};
use crate::weights::{Elements, TokenWeights, Weights};

/// A table that a device has a kernel for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceTable<'m> {
    /// The rows, one after the other, little-endian: `[rows, dim]` elements of `kind`.
    pub(crate) bytes: &'m [u8],
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    /// One factor for each id: a row is multiplied before it is added.
    pub(crate) factors: Option<&'m [f32]>,
    /// The row of each id; without it, ids are rows.
    pub(crate) mapping: Option<&'m [u32]>,
}

/// How an element of the table is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    F32,
    F16,
    I8,
}

impl Kind {
    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::I8 => 1,
        }
    }
}

impl<'m> DeviceTable<'m> {
    /// The table of `weights`, which were loaded from `file`; an error if no kernel gives its rows.
    pub(crate) fn new(
        weights: &'m Weights,
        file: &'m [u8],
        device: Device,
    ) -> Result<Self, DeviceError> {
        let kind = match &weights.elements {
            Elements::F32(_) => Kind::F32,
            Elements::F16(_) => Kind::F16,
            Elements::I8(_) => Kind::I8,
            other => {
                return Err(DeviceError::Unsupported {
                    device,
                    expected: "F32, F16 or I8",
                    found: format!("a table of {}", other.type_name()),
                });
            }
        };
        let factors = match &weights.factors {
            TokenWeights::None => None,
            TokenWeights::Single(factors) => Some(factors.as_slice()),
            // Products with F16 weights are rounded to F16 where the table is small: see `kernels`.
            TokenWeights::Half(factors) if kind == Kind::F32 => Some(factors.as_slice()),
            other => {
                return Err(DeviceError::Unsupported {
                    device,
                    expected: "F32, or F16 beside a table of F32",
                    found: format!("weights of {}", other.type_name().unwrap_or("no type")),
                });
            }
        };
        Ok(Self {
            bytes: weights.elements.bytes(file),
            kind,
            rows: weights.rows,
            dim: weights.dim,
            factors,
            mapping: weights.mapping.as_deref(),
        })
    }
}
