//! The vector kernel for x86-64 beyond the baseline.
#![expect(unsafe_code, reason = "instructions that only some processors have")]

use std::arch::x86_64::{__m128i, __m256, _MM_HINT_T0, _mm_prefetch, _mm256_cvtph_ps};

use super::block::Block;
use super::columns::{self, CHUNK, Isa, Target};

struct Avx2;
struct Avx512;

#[inline(always)]
fn widen(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
    let halves: [__m128i; 2] = bytemuck::cast(*bits);
    let values: [__m256; 2] = unsafe { halves.map(|half| _mm256_cvtph_ps(half)) };
    bytemuck::cast(values)
}

impl Isa for Avx2 {
    const SUMS: usize = 256;

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
        widen(bits)
    }

    #[inline(always)]
    fn prefetch<T>(element: &T) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) }
    }
}

impl Isa for Avx512 {
    const SUMS: usize = 1024;

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> [f32; CHUNK] {
        widen(bits)
    }

    #[inline(always)]
    fn prefetch<T>(element: &T) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast()) }
    }
}

#[target_feature(enable = "avx2,f16c")]
pub(super) fn avx2(block: &Block<'_>, target: Target<'_>) {
    columns::pool::<Avx2>(block, target);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")]
pub(super) fn avx512(block: &Block<'_>, target: Target<'_>) {
    columns::pool::<Avx512>(block, target);
}
