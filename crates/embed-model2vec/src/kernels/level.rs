//! Which instructions the kernels may use.
//!
//! A model asks once, when it is loaded, and keeps the answer. All levels give the same bits: the
//! choice is about speed alone. A [`Level`] cannot be made outside this module, and a level beyond the
//! baseline is only made after the processor has said that it has the instructions: whoever holds one
//! may use it.

use embed_core::NormGuard;

use super::base::Base;
use super::block::Block;
use super::columns::{self, Target};
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{norm, scalar};

/// An implementation that this machine can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level(Name);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Scalar,
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The definition, which every machine can run.
    pub(crate) const SCALAR: Self = Self(Name::Scalar);

    /// All levels of this machine, the best one last.
    pub(crate) fn available() -> Vec<Self> {
        let mut levels = vec![Self::SCALAR, Self(Name::Base)];
        #[cfg(target_arch = "x86_64")]
        levels.extend(detected());
        levels
    }

    /// The fastest level of this machine.
    pub(crate) fn best() -> Self {
        *Self::available().last().expect("two levels are always there")
    }

    /// What the level is called in descriptions of a model.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Name::Scalar => "scalar",
            Name::Base => "base",
            #[cfg(target_arch = "x86_64")]
            Name::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Name::Avx512 => "AVX-512",
        }
    }

    /// Scales a row to length 1.
    pub(crate) fn normalize(self, row: &mut [f32], guard: NormGuard) {
        match self.0 {
            Name::Scalar | Name::Base => norm::base(row, guard),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a function for a detected instruction set")]
            // SAFETY: only `detected` makes this value, after the processor has said so.
            Name::Avx2 => unsafe { norm::avx2(row, guard) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a function for a detected instruction set")]
            // SAFETY: only `detected` makes this value, after the processor has said so.
            Name::Avx512 => unsafe { norm::avx512(row, guard) },
        }
    }

    /// Pools a block of ids.
    pub(super) fn pool(self, block: &Block<'_>, target: Target<'_>) {
        match self.0 {
            Name::Scalar => scalar::pool(block, target),
            Name::Base => columns::pool::<Base>(block, target),
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a function for a detected instruction set")]
            // SAFETY: only `detected` makes this value, after the processor has said so.
            Name::Avx2 => unsafe { x86::avx2(block, target) },
            #[cfg(target_arch = "x86_64")]
            #[expect(unsafe_code, reason = "calls a function for a detected instruction set")]
            // SAFETY: only `detected` makes this value, after the processor has said so.
            Name::Avx512 => unsafe { x86::avx512(block, target) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detected() -> impl Iterator<Item = Level> {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq");
    let level = |detected: bool, name| detected.then_some(Level(name));
    [level(avx2, Name::Avx2), level(avx512, Name::Avx512)].into_iter().flatten()
}
