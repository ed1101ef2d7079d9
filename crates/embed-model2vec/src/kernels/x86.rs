//! The vector kernel for x86-64 processors with AVX2 or AVX-512.
//!
//! Each instruction set is a type with the operations of [`Isa`], each of them one to three
//! instructions, and one function that [`pool`](columns::pool) is compiled into with these
//! instructions enabled. Everything between the two is inlined, always; otherwise the operations
//! would be calls and the instructions would not be enabled where they are used.
#![expect(unsafe_code, reason = "instructions that only some processors have")]
#![expect(
    clippy::inline_always,
    reason = "what is not inlined is compiled without the instructions of its caller"
)]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, __m512, _mm_bsrli_si128, _mm_loadu_si128, _mm256_add_epi16,
    _mm256_add_ps, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
    _mm256_cvtepi8_epi32, _mm256_cvtepi16_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi16,
    _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_div_ps,
    _mm256_extracti128_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_mul_ps, _mm256_set1_ps,
    _mm256_slli_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_add_ps, _mm512_castsi512_ps,
    _mm512_cvtepi8_epi32, _mm512_cvtepi16_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32,
    _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_div_ps, _mm512_loadu_ps, _mm512_mul_ps,
    _mm512_set1_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use super::block::Block;
use super::columns::{self, CHUNK, Isa, Target};

/// Pools a block of ids with AVX2.
#[target_feature(enable = "avx2,f16c")]
pub(super) fn avx2(block: &Block<'_>, target: Target<'_>) {
    columns::pool::<Avx2>(block, target);
}

/// Pools a block of ids with AVX-512.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn avx512(block: &Block<'_>, target: Target<'_>) {
    columns::pool::<Avx512>(block, target);
}

/// AVX2 and F16C; used by nothing but [`avx2`].
struct Avx2;

/// AVX-512 F, BW, VL and DQ over those; used by nothing but [`avx512`].
struct Avx512;

/// An expression with intrinsics.
macro_rules! enabled {
    ($expression:expr) => {
        // SAFETY: the operations of `Avx2` and `Avx512` are only reached through `avx2` and `avx512`,
        // which enable every instruction that is used here, and which `level.rs` only calls on
        // processors that have them. Loads and stores do not need alignment and get pointers to
        // arrays of at least their size.
        unsafe { $expression }
    };
}

/// The same operation on both registers. Not `array::map`: its closures are not always inlined.
macro_rules! both {
    ($halves:expr, $half:ident => $operation:expr) => {{
        let [left, right] = $halves;
        let left = {
            let $half = left;
            $operation
        };
        let right = {
            let $half = right;
            $operation
        };
        [left, right]
    }};
}

/// The sums of 16 bits, the same for both.
macro_rules! i16_operations {
    () => {
        type I16s = __m256i;

        #[inline(always)]
        fn load_i8(values: &[i8; CHUNK]) -> __m256i {
            enabled!(_mm256_cvtepi8_epi16(_mm_loadu_si128(values.as_ptr().cast())))
        }

        #[inline(always)]
        fn load_u8(values: &[u8; CHUNK]) -> __m256i {
            enabled!(_mm256_cvtepu8_epi16(_mm_loadu_si128(values.as_ptr().cast())))
        }

        #[inline(always)]
        fn store_i16(values: __m256i) -> [i16; CHUNK] {
            let mut stored = [0; CHUNK];
            enabled!(_mm256_storeu_si256(stored.as_mut_ptr().cast(), values));
            stored
        }

        #[inline(always)]
        fn add_i16(left: __m256i, right: __m256i) -> __m256i {
            enabled!(_mm256_add_epi16(left, right))
        }
    };
}

/// Two registers of 8 columns.
impl Isa for Avx2 {
    // Eight of the sixteen registers: the others hold what is being added.
    const F32_CHUNKS: usize = 4;
    const I16_CHUNKS: usize = 8;

    type F32s = [__m256; 2];

    i16_operations!();

    #[inline(always)]
    fn load_f32(values: &[f32; CHUNK]) -> [__m256; 2] {
        let start = values.as_ptr();
        enabled!([_mm256_loadu_ps(start), _mm256_loadu_ps(start.add(8))])
    }

    #[inline(always)]
    fn store_f32(values: [__m256; 2]) -> [f32; CHUNK] {
        let mut stored = [0.0; CHUNK];
        let start = stored.as_mut_ptr();
        enabled!({
            _mm256_storeu_ps(start, values[0]);
            _mm256_storeu_ps(start.add(8), values[1]);
        });
        stored
    }

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> [__m256; 2] {
        let start: *const __m128i = bits.as_ptr().cast();
        enabled!(both!([start, start.add(1)], half => _mm256_cvtph_ps(_mm_loadu_si128(half))))
    }

    #[inline(always)]
    fn widen_bf16(bits: &[u16; CHUNK]) -> [__m256; 2] {
        let start: *const __m128i = bits.as_ptr().cast();
        enabled!(both!([start, start.add(1)], half => {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(half));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }))
    }

    #[inline(always)]
    fn widen_i8(values: &[i8; CHUNK]) -> [__m256; 2] {
        enabled!({
            let bytes = _mm_loadu_si128(values.as_ptr().cast());
            both!([bytes, _mm_bsrli_si128::<8>(bytes)], half => _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half)))
        })
    }

    #[inline(always)]
    fn widen_u8(values: &[u8; CHUNK]) -> [__m256; 2] {
        enabled!({
            let bytes = _mm_loadu_si128(values.as_ptr().cast());
            both!([bytes, _mm_bsrli_si128::<8>(bytes)], half => _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(half)))
        })
    }

    #[inline(always)]
    fn add(left: [__m256; 2], right: [__m256; 2]) -> [__m256; 2] {
        enabled!([_mm256_add_ps(left[0], right[0]), _mm256_add_ps(left[1], right[1])])
    }

    #[inline(always)]
    fn scale(values: [__m256; 2], factor: f32) -> [__m256; 2] {
        enabled!(both!(values, half => _mm256_mul_ps(half, _mm256_set1_ps(factor))))
    }

    #[inline(always)]
    fn divide(values: [__m256; 2], count: f32) -> [__m256; 2] {
        enabled!(both!(values, half => _mm256_div_ps(half, _mm256_set1_ps(count))))
    }

    #[inline(always)]
    fn i16_to_f32(values: __m256i) -> [__m256; 2] {
        enabled!(
            both!([_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values)], half => _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(half)))
        )
    }

    #[inline(always)]
    fn u16_to_f32(values: __m256i) -> [__m256; 2] {
        enabled!(
            both!([_mm256_castsi256_si128(values), _mm256_extracti128_si256::<1>(values)], half => _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(half)))
        )
    }
}

/// One register of 16 columns.
impl Isa for Avx512 {
    // Half of the 32 registers: 256 columns, the usual width of a row, in one pass.
    const F32_CHUNKS: usize = 16;
    const I16_CHUNKS: usize = 16;

    type F32s = __m512;

    i16_operations!();

    #[inline(always)]
    fn load_f32(values: &[f32; CHUNK]) -> __m512 {
        enabled!(_mm512_loadu_ps(values.as_ptr()))
    }

    #[inline(always)]
    fn store_f32(values: __m512) -> [f32; CHUNK] {
        let mut stored = [0.0; CHUNK];
        enabled!(_mm512_storeu_ps(stored.as_mut_ptr(), values));
        stored
    }

    #[inline(always)]
    fn widen_f16(bits: &[u16; CHUNK]) -> __m512 {
        enabled!(_mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())))
    }

    #[inline(always)]
    fn widen_bf16(bits: &[u16; CHUNK]) -> __m512 {
        enabled!({
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(bits.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }

    #[inline(always)]
    fn widen_i8(values: &[i8; CHUNK]) -> __m512 {
        enabled!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(values.as_ptr().cast()))))
    }

    #[inline(always)]
    fn widen_u8(values: &[u8; CHUNK]) -> __m512 {
        enabled!(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(values.as_ptr().cast()))))
    }

    #[inline(always)]
    fn add(left: __m512, right: __m512) -> __m512 {
        enabled!(_mm512_add_ps(left, right))
    }

    #[inline(always)]
    fn scale(values: __m512, factor: f32) -> __m512 {
        enabled!(_mm512_mul_ps(values, _mm512_set1_ps(factor)))
    }

    #[inline(always)]
    fn divide(values: __m512, count: f32) -> __m512 {
        enabled!(_mm512_div_ps(values, _mm512_set1_ps(count)))
    }

    #[inline(always)]
    fn i16_to_f32(values: __m256i) -> __m512 {
        enabled!(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(values)))
    }

    #[inline(always)]
    fn u16_to_f32(values: __m256i) -> __m512 {
        enabled!(_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(values)))
    }
}
