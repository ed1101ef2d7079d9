//! Whether a device computes what the processor computes: random bags through both.
//!
//! The processor's kernels are equal to the definition bit for bit, which their own tests prove, so
//! that they can stand for it here. A column is added up in the same order on every device, with the
//! same rounding; only the order of the sum under a norm is a device's own. So rows that are not
//! normalized have to agree to the last bits, and normalized ones to [`LIMIT`].

use std::fmt;

use embed_core::NormGuard;
use half::f16;

use super::random::Random;
use super::{Counts, Device, DeviceError, DeviceTable, Kind, PoolRows, Task, upload};
use crate::kernels::{Bags, Level, Pooler};
use crate::tokenizer::IdSink as _;
use crate::weights::{Elements, Stored, TokenWeights, Weights};

/// The largest deviation of a value: absolute where rows are normalized, and else relative to the value
/// or to 1, whichever is larger.
pub const LIMIT: f32 = 3e-6;

/// Widths of tables: with and without whole vectors, below and above what one pass takes.
const DIMS: [usize; 10] = [1, 2, 63, 64, 100, 256, 384, 512, 768, 1024];

const ROWS: usize = 700;
const VOCABULARY: usize = 1000;

/// Tokens of the longest bag.
const LONG: usize = 100_000;

/// How far one device is from the processor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The device in words.
    pub device: String,
    /// One entry for each type and width of table.
    pub cases: Vec<Case>,
    /// Batches that were pooled.
    pub batches: u64,
    /// What the device says that it did: one launch and one read-back for each batch.
    pub counts: Counts,
}

/// Tables of one type and width, with and without factors and a mapping.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// Type of the elements.
    pub kind: &'static str,
    /// Width of the table.
    pub dim: usize,
    /// Rows that were compared.
    pub rows: usize,
    /// Largest deviation of normalized rows.
    pub normalized: f32,
    /// Largest deviation of rows as they are.
    pub raw: f32,
}

impl Case {
    /// Whether every row that is not normalized has the bits of the definition, and every normalized one
    /// is within [`LIMIT`]. Not a number is no deviation that is small enough.
    pub fn passed(&self) -> bool {
        self.rows > 0 && self.raw == 0.0 && self.normalized <= LIMIT
    }
}

impl Report {
    /// Whether every row that is not normalized has the bits of the definition, every normalized one is
    /// within [`LIMIT`], and nothing was launched or fetched more than once.
    pub fn passed(&self) -> bool {
        let once = self.counts.launches == self.batches && self.counts.read_backs == self.batches;
        once && self.batches > 0 && self.cases.iter().all(Case::passed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, cases, batches, counts } = self;
        writeln!(f, "| table | rows compared | normalized | as they are |")?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        for Case { kind, dim, rows, normalized, raw } in cases {
            writeln!(f, "| {kind}, {dim} columns | {rows} | {normalized:.1e} | {raw:.1e} |")?;
        }
        writeln!(
            f,
            "\nLargest deviations of {device} from the definition; {LIMIT:e} is allowed. {batches} batches, \
             {} launches, {} read-backs.",
            counts.launches, counts.read_backs
        )
    }
}

/// Compares a device with the processor on about `bags` random bags, and on special ones.
///
/// # Errors
///
/// [`DeviceError`]: the device is not there, or failed.
pub fn run(device: Device, bags: usize, seed: u64) -> Result<Report, DeviceError> {
    run_with(|table| upload(device, table), &device.to_string(), bags, seed)
}

/// Pools a few rows on a device, in every way, and compares them with the definition: enough to tell a
/// device that works from one that does not, in an instant. On the processor, all levels that it has.
///
/// # Errors
///
/// [`DeviceError`]: the device is not there, or failed.
pub fn try_out(device: Device) -> Result<Case, DeviceError> {
    const DIM: usize = 64;
    const BAGS: usize = 8;
    let mut random = Random::new(1);
    let weights = random_weights(&mut random, Kind::F32, DIM, true, true);
    let bags = random_bags(&mut random, BAGS, false);
    let mut case = Case { kind: name_of(Kind::F32), dim: DIM, rows: 0, normalized: 0.0, raw: 0.0 };
    let definition = (&weights, Level::SCALAR);
    if device == Device::Cpu {
        for level in Level::available() {
            compare(&Processor { weights: &weights, level }, definition, &bags, &mut case)?;
        }
    } else {
        let pool = upload(device, &DeviceTable::new(&weights, &[], device)?)?;
        compare(&*pool, definition, &bags, &mut case)?;
    }
    Ok(case)
}

/// One level of the processor as a device.
#[derive(Debug)]
struct Processor<'a> {
    weights: &'a Weights,
    level: Level,
}

impl PoolRows for Processor<'_> {
    fn pool(&self, task: Task<'_>) -> Result<(), DeviceError> {
        let Task { bags, columns, normalize, out } = task;
        out.copy_from_slice(&pooled(self.level, self.weights, bags, columns, normalize));
        Ok(())
    }

    fn name(&self) -> &str {
        self.level.name()
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// The same with another way to get a table onto a device.
pub(crate) fn run_with(
    upload: impl Fn(&DeviceTable<'_>) -> Result<Box<dyn PoolRows>, DeviceError>,
    name: &str,
    bags: usize,
    seed: u64,
) -> Result<Report, DeviceError> {
    const VARIANTS: usize = 4;
    let mut random = Random::new(seed);
    let mut report = Report {
        device: name.to_owned(),
        cases: Vec::new(),
        batches: 0,
        counts: Counts::default(),
    };
    let each = bags.div_ceil(3 * DIMS.len() * VARIANTS);
    for kind in [Kind::F32, Kind::F16, Kind::I8] {
        for dim in DIMS {
            let mut case = Case { kind: name_of(kind), dim, rows: 0, normalized: 0.0, raw: 0.0 };
            for variant in 0..VARIANTS {
                let weights =
                    random_weights(&mut random, kind, dim, variant % 2 == 1, variant >= 2);
                let table = DeviceTable::new(&weights, &[], Device::Cpu)?;
                let pool = upload(&table)?;
                let bags = random_bags(&mut random, each, variant == 0);
                pool.name().clone_into(&mut report.device);
                report.batches += compare(&*pool, (&weights, Level::best()), &bags, &mut case)?;
                let counts = pool.counts();
                report.counts.launches += counts.launches;
                report.counts.read_backs += counts.read_backs;
            }
            report.cases.push(case);
        }
    }
    Ok(report)
}

/// Pools the bags on the device and at a level of the processor, cut and normalized in every way; gives the
/// number of batches.
fn compare(
    pool: &dyn PoolRows,
    (weights, level): (&Weights, Level),
    bags: &Bags,
    case: &mut Case,
) -> Result<u64, DeviceError> {
    let mut batches = 0;
    // A quarter keeps vectors whole for most widths; one column less never does.
    let mut cuts = vec![weights.dim, (weights.dim / 4).max(1), (weights.dim - 1).max(1)];
    cuts.dedup();
    for columns in cuts {
        for normalize in [None, Some(NormGuard::AddTiny), Some(NormGuard::ClampTiny)] {
            let mut found = vec![f32::NAN; bags.len() * columns];
            pool.pool(Task { bags, columns, normalize, out: &mut found })?;
            batches += 1;
            let expected = pooled(level, weights, bags, columns, normalize);
            let worst = if normalize.is_some() { &mut case.normalized } else { &mut case.raw };
            for (found, expected) in found.iter().zip(&expected) {
                let deviation = (found - expected).abs() / expected.abs().max(1.0);
                // A NaN is the worst of all, and stays.
                if !worst.is_nan() && (deviation.is_nan() || deviation > *worst) {
                    *worst = deviation;
                }
            }
            case.rows += bags.len();
        }
    }
    Ok(batches)
}

/// The rows that the processor gives at some level.
pub(super) fn pooled(
    level: Level,
    weights: &Weights,
    bags: &Bags,
    columns: usize,
    normalize: Option<NormGuard>,
) -> Vec<f32> {
    let mut pooler = Pooler::new(weights, &[], level, columns);
    let mut rows = vec![f32::NAN; bags.len() * columns];
    for (ids, row) in bags.iter().zip(rows.chunks_exact_mut(columns)) {
        // A pooler takes every id.
        let _ = pooler.push_all(ids);
        pooler.finish(row);
        if let Some(guard) = normalize {
            level.normalize(row, guard);
        }
    }
    rows
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::F32 => "F32",
        Kind::F16 => "F16",
        Kind::I8 => "I8",
    }
}

/// A table of random rows; each id has one, directly or by a mapping.
fn random_weights(
    random: &mut Random,
    kind: Kind,
    dim: usize,
    factors: bool,
    mapping: bool,
) -> Weights {
    let rows = if mapping { ROWS } else { VOCABULARY };
    let count = rows * dim;
    let elements = match kind {
        Kind::F32 => Elements::F32(Stored::Converted((0..count).map(|_| random.unit()).collect())),
        Kind::F16 => {
            let bits = |random: &mut Random| f16::from_f32(random.unit()).to_bits();
            Elements::F16(Stored::Converted((0..count).map(|_| bits(random)).collect()))
        }
        Kind::I8 => {
            let byte = |random: &mut Random| random.next().to_le_bytes()[0].cast_signed();
            Elements::I8(Stored::Converted((0..count).map(|_| byte(random)).collect()))
        }
    };
    let factors = if factors {
        TokenWeights::Single((0..VOCABULARY).map(|_| random.unit() + 1.0).collect())
    } else {
        TokenWeights::None
    };
    let mapping = mapping.then(|| (0..VOCABULARY).map(|_| random.id(ROWS)).collect());
    Weights { elements, rows, dim, factors, mapping, table_name: "random".to_owned() }
}

/// Bags of up to 80 tokens, most of them short, beside an empty one at both ends, one token, one token
/// many times, and, if wanted, a very long one.
fn random_bags(random: &mut Random, count: usize, long: bool) -> Bags {
    let mut bags = Bags::new();
    bags.close();
    let mut bag = |ids: &mut dyn FnMut() -> u32, length: usize| {
        bags.open().extend((0..length).map(|_| ids()));
        bags.close();
    };
    let last = u32::try_from(VOCABULARY - 1).expect("small");
    bag(&mut || last, 1);
    bag(&mut || 7, 300);
    if long {
        bag(&mut || random.id(VOCABULARY), LONG);
    }
    for _ in 0..count {
        let most = if random.below(4) == 0 { 80 } else { 12 };
        let length = random.below(most + 1);
        bag(&mut || random.id(VOCABULARY), length);
    }
    bag(&mut || 0, 0);
    bags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::available;

    /// Prints and counts what it could not do: a test that did nothing should not look like one that
    /// passed.
    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test is told")]
    fn every_device_agrees_with_the_definition() -> Result<(), DeviceError> {
        let devices: Vec<Device> =
            available().into_iter().filter(|device| *device != Device::Cpu).collect();
        if devices.is_empty() {
            eprintln!(
                "SKIPPED 1 device test: this machine has no device that this program can use"
            );
        }
        for device in devices {
            let report = run(device, 500, 1)?;
            eprintln!("{report}");
            assert!(report.passed(), "{device} deviates");
        }
        Ok(())
    }

    #[test]
    fn the_processor_works() -> Result<(), DeviceError> {
        let case = try_out(Device::Cpu)?;
        assert!(case.passed(), "{case:?}");
        assert!(try_out(Device::Auto).is_err(), "no device of that name");
        Ok(())
    }

    /// A device that does what the processor does, except for what it is told to do wrong.
    #[derive(Debug)]
    struct Fake {
        weights: Weights,
        wrong_by: f32,
    }

    impl PoolRows for Fake {
        fn pool(&self, task: Task<'_>) -> Result<(), DeviceError> {
            let Task { bags, columns, normalize, out } = task;
            out.copy_from_slice(&pooled(Level::best(), &self.weights, bags, columns, normalize));
            out[columns] += self.wrong_by;
            Ok(())
        }

        fn name(&self) -> &'static str {
            "fake"
        }

        fn counts(&self) -> Counts {
            Counts::default()
        }
    }

    #[test]
    fn a_deviation_is_found() -> Result<(), DeviceError> {
        for (wrong_by, found) in [(0.0, false), (1e-3, true), (f32::NAN, true)] {
            let mut random = Random::new(2);
            let weights = || random_weights(&mut Random::new(3), Kind::F32, 4, true, true);
            let fake = Fake { weights: weights(), wrong_by };
            let bags = random_bags(&mut random, 10, false);
            let mut case = Case { kind: "F32", dim: 4, rows: 0, normalized: 0.0, raw: 0.0 };
            let batches = compare(&fake, (&weights(), Level::best()), &bags, &mut case)?;
            assert_eq!((batches, case.rows), (9, 9 * bags.len()));
            assert_eq!(case.raw == 0.0 && case.normalized == 0.0, !found);
            let counts = Counts { launches: batches, read_backs: batches };
            let mut report = Report { device: "fake".into(), cases: vec![case], batches, counts };
            assert_eq!(report.passed(), !found);
            report.counts.read_backs += 1;
            assert!(!report.passed());
        }
        Ok(())
    }
}
