//! Cases of pooling for devices and kernels, with the rows that the definition gives.

use embed_core::NormGuard;
use half::f16;

use super::check::pooled;
use super::random::Random;
use super::{DeviceTable, Kind, PoolRows, Task};
use crate::kernels::{Bags, Level};
use crate::weights::{Elements, Stored, TokenWeights, Weights};

/// Rows of every table.
const ROWS: usize = 50;

/// Widths of tables: one, few, around the widths at which devices work, and those of real models.
const DIMS: [usize; 8] = [1, 2, 63, 64, 100, 256, 384, 1024];

/// Normalized rows may differ so much: squares are added up in another order, and the relative error
/// of a root is half of that of its argument. A value is at most 1, and the sum of 1024 squares by
/// halves is off by some 10 epsilon (6e-8), that of the definition by 16 + 7.
const NORMALIZED_TOLERANCE: f32 = 1e-6;

/// Some bags for some table.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) dim: usize,
    pub(super) columns: usize,
    pub(super) normalize: Option<NormGuard>,
    pub(super) table: Vec<u8>,
    pub(super) factors: Option<Vec<f32>>,
    pub(super) mapping: Option<Vec<u32>>,
    pub(super) bags: Bags,
}

impl Case {
    pub(super) fn table(&self) -> DeviceTable<'_> {
        DeviceTable {
            bytes: &self.table,
            kind: self.kind,
            rows: ROWS,
            dim: self.dim,
            factors: self.factors.as_deref(),
            mapping: self.mapping.as_deref(),
        }
    }

    /// The rows of the definition.
    pub(super) fn expected(&self) -> Vec<f32> {
        let copied = |values: &[u8]| values.iter().map(|&byte| byte.cast_signed()).collect();
        let elements = match self.kind {
            Kind::F32 => {
                Elements::F32(Stored::Converted(bytemuck::pod_collect_to_vec(&self.table)))
            }
            Kind::F16 => {
                Elements::F16(Stored::Converted(bytemuck::pod_collect_to_vec(&self.table)))
            }
            Kind::I8 => Elements::I8(Stored::Converted(copied(&self.table))),
        };
        let weights = Weights {
            elements,
            rows: ROWS,
            dim: self.dim,
            factors: self.factors.clone().map_or(TokenWeights::None, TokenWeights::Single),
            mapping: self.mapping.clone(),
            table_name: "embeddings".into(),
        };
        let scalar = Level::available()[0];
        assert_eq!(scalar.name(), "scalar");
        pooled(scalar, &weights, &self.bags, self.columns, self.normalize)
    }

    /// Raw rows have the bits of the definition, normalized ones are close.
    #[track_caller]
    pub(super) fn check(&self, rows: &[f32]) {
        let expected = self.expected();
        assert_eq!(rows.len(), expected.len());
        let tolerance = if self.normalize.is_some() { NORMALIZED_TOLERANCE } else { 0.0 };
        for (index, (value, expected)) in rows.iter().zip(&expected).enumerate() {
            assert!(
                value.to_bits() == expected.to_bits() || (value - expected).abs() <= tolerance,
                "row {}, column {}: {value:e}, expected {expected:e}, in {:?} of {} columns, \
                 {} wanted, factors {}, mapping {}, {:?}",
                index / self.columns,
                index % self.columns,
                self.kind,
                self.dim,
                self.columns,
                self.factors.is_some(),
                self.mapping.is_some(),
                self.normalize,
            );
        }
    }

    /// Checks what a device makes of the case, and that it takes one launch and one read-back.
    #[track_caller]
    pub(super) fn check_on(&self, device: &dyn PoolRows) {
        let before = device.counts();
        let mut out = vec![f32::NAN; self.bags.len() * self.columns];
        let Self { ref bags, columns, normalize, .. } = *self;
        device.pool(Task { bags, columns, normalize, out: &mut out }).expect("the device works");
        self.check(&out);
        let after = device.counts();
        let once = u64::from(!self.bags.ids().is_empty());
        assert_eq!(after.launches - before.launches, once);
        assert_eq!(after.read_backs - before.read_backs, once);
    }
}

/// The same cases every time: all kinds of tables, widths, options and lengths of bags.
pub(super) fn cases() -> Vec<Case> {
    let mut random = Random::new(0x5EED);
    let mut cases = Vec::new();
    for kind in [Kind::F32, Kind::F16, Kind::I8] {
        for dim in DIMS {
            for variant in 0..12 {
                cases.push(case(&mut random, kind, dim, variant));
            }
        }
    }
    cases
}

fn case(random: &mut Random, kind: Kind, dim: usize, variant: usize) -> Case {
    let normalize = [None, Some(NormGuard::AddTiny), Some(NormGuard::ClampTiny)][variant % 3];
    let mapped = variant / 3 % 2 == 1;
    let weighted = variant / 6 % 2 == 1;
    // Rows so short that the two ways of normalizing differ.
    let scale = if dim == 63 { 1e-14 } else { 1.0 };

    let table = (0..ROWS * dim)
        .flat_map(|_| match kind {
            Kind::F32 => (scale * random.unit()).to_le_bytes().to_vec(),
            Kind::F16 => f16::from_f32(random.unit()).to_le_bytes().to_vec(),
            Kind::I8 => vec![random.next().to_le_bytes()[0]],
        })
        .collect();
    let vocabulary = if mapped { 2 * ROWS } else { ROWS };
    let mapping = mapped.then(|| (0..vocabulary).map(|_| random.id(ROWS)).collect());
    let factors = weighted.then(|| (0..vocabulary).map(|_| random.unit()).collect());

    let mut bags = Bags::new();
    // No, one and a few tokens, and a bag that is much longer than its neighbors.
    let long = if normalize.is_none() { 600 } else { 32 };
    for length in [0, 1, 2, 0, 0, 7, long, 31, 3, 0] {
        let ids = bags.open();
        let repeated = random.id(vocabulary);
        ids.extend((0..length).map(|position| match position % 4 {
            3 => repeated,
            _ => random.id(vocabulary),
        }));
        bags.close();
    }
    Case {
        kind,
        dim,
        columns: if variant.is_multiple_of(2) { dim } else { dim.div_ceil(3) },
        normalize,
        table,
        factors,
        mapping,
        bags,
    }
}
