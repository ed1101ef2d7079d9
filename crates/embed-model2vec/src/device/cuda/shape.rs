//! Which kernel serves a table, and how a launch is laid out.

use crate::device::Kind;

/// Threads of a block, as the kernels are compiled.
pub(in crate::device) const THREADS: u32 = 128;

/// Bytes that a lane reads at once.
const VECTOR_BYTES: usize = 16;

/// How many lanes share a bag, and what they read in one pass over it: the kernels of a table differ
/// in nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) enum Shape {
    /// So many vectors of 16 bytes.
    Vectors(u32),
    /// Single elements, where rows are not made of whole vectors.
    One,
}

impl Shape {
    /// All of them, the narrow ones first.
    pub(super) const ALL: [Self; 5] =
        [Self::Vectors(8), Self::Vectors(16), Self::Vectors(32), Self::Vectors(64), Self::One];

    /// The narrowest shape that takes `columns` columns in one pass, or the widest one.
    pub(in crate::device) fn of(kind: Kind, dim: usize, columns: usize) -> Self {
        if !Self::fits_vectors(kind, dim, columns) {
            return Self::One;
        }
        let vectors = columns * kind.size() / VECTOR_BYTES;
        let wide_enough = |shape: &Self| match shape {
            Self::Vectors(span) => vectors <= *span as usize,
            Self::One => false,
        };
        Self::ALL.into_iter().find(wide_enough).unwrap_or(Self::Vectors(64))
    }

    /// Whether every row begins and ends with a vector. Tables begin where the driver places memory,
    /// which is at a multiple of 256 bytes.
    pub(super) fn fits_vectors(kind: Kind, dim: usize, columns: usize) -> bool {
        let whole = |elements: usize| (elements * kind.size()).is_multiple_of(VECTOR_BYTES);
        whole(dim) && whole(columns)
    }

    /// The kernel's name in the source.
    pub(in crate::device) fn kernel(self, kind: Kind) -> String {
        let kind = match kind {
            Kind::F32 => "f32",
            Kind::F16 => "f16",
            Kind::I8 => "i8",
        };
        match self {
            Self::Vectors(span) => format!("pool_rows_{kind}_{span}"),
            Self::One => format!("pool_rows_{kind}_one"),
        }
    }

    /// Blocks of a launch: in `x` for the bags, in `y` for the columns.
    ///
    /// Without normalizing, the passes over the columns of a wide row are work for different blocks,
    /// all bags' first columns before all bags' second ones, so that less of the table is in use at a
    /// time. A norm needs the whole row: then one block goes through all passes.
    pub(in crate::device) fn grid(
        self,
        kind: Kind,
        threads: u32,
        bags: usize,
        columns: usize,
        whole_rows: bool,
    ) -> [u32; 2] {
        const MOST_IN_Y: usize = 65_535;
        let (lanes, span) = match self {
            Self::Vectors(span) => (span.min(32), span as usize * VECTOR_BYTES / kind.size()),
            Self::One => (32, 64),
        };
        let blocks = bags.div_ceil((threads / lanes) as usize);
        let passes = if whole_rows { 1 } else { columns.div_ceil(span).min(MOST_IN_Y) };
        [blocks, passes].map(|count| u32::try_from(count).expect("bags are counted by a u32"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, dim: usize, columns: usize, expected: Shape) {
        assert_eq!(Shape::of(kind, dim, columns), expected);
    }

    #[test]
    fn rows_of_256_columns_take_one_pass() {
        check(Kind::F32, 256, 256, Shape::Vectors(64));
        check(Kind::F16, 256, 256, Shape::Vectors(32));
        check(Kind::I8, 256, 256, Shape::Vectors(16));
        check(Kind::I8, 256, 64, Shape::Vectors(8));
        check(Kind::F32, 1024, 1024, Shape::Vectors(64));
    }

    #[test]
    fn rows_without_whole_vectors_are_read_by_elements() {
        check(Kind::F32, 1, 1, Shape::One);
        check(Kind::F32, 63, 60, Shape::One);
        check(Kind::F32, 100, 100, Shape::Vectors(32));
        check(Kind::F16, 100, 100, Shape::One);
        check(Kind::I8, 256, 100, Shape::One);
    }

    #[test]
    fn a_grid_has_a_group_for_every_bag() {
        let grid = |shape: Shape, bags, columns, whole| {
            shape.grid(Kind::F32, THREADS, bags, columns, whole)
        };
        assert_eq!(grid(Shape::Vectors(64), 5, 256, false), [2, 1]);
        assert_eq!(grid(Shape::Vectors(64), 4, 512, false), [1, 2]);
        assert_eq!(grid(Shape::Vectors(64), 4, 512, true), [1, 1]);
        assert_eq!(grid(Shape::Vectors(8), 17, 32, true), [2, 1]);
        assert_eq!(grid(Shape::One, 1, 65, false), [1, 2]);
    }

    #[test]
    fn every_kernel_is_in_the_source() {
        for kind in [Kind::F32, Kind::F16, Kind::I8] {
            for shape in Shape::ALL {
                let entry = format!("KERNEL({}, ", shape.kernel(kind));
                assert!(super::super::code::SOURCE.contains(&entry), "{entry}");
            }
        }
        let threads = format!("#define THREADS {THREADS}\n");
        assert!(super::super::code::SOURCE.contains(&threads));
    }
}
