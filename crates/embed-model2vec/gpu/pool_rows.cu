// Pooling on CUDA: bags of token ids to mean rows, normalized if wanted, in one launch.
//
// What is computed is defined in src/kernels/mod.rs. A column is added up in token order, in f32; a
// product with a token's factor is rounded before it is added (no fused multiply-add); the sum is
// divided once by the number of tokens. A bag without tokens gives zeros.
//
// How the work is laid out
//
// - A group of lanes owns a bag: 8, 16 or 32 lanes of a warp, and never more than one warp. The lanes
//   share out the columns, 16 bytes of a row at a time, so that neighboring lanes read neighboring
//   bytes. A lane keeps the sums of its columns in registers from the first token to the last: no
//   shared memory, no barrier, no atomic, and an order of additions that nothing can change.
// - A group covers SPAN vectors of 16 bytes in one pass over its bag. A row of 256 columns is one pass
//   in every type: 64 vectors of f32 (two for each lane of a warp), 32 of f16, 16 of i8 (so that a warp
//   owns two bags). A wider row takes several passes over the same ids.
// - The lanes read ids together, one each, look up row and factor of their own id, and hand them round
//   by shuffles. So the chain id -> mapping -> row is waited for once in LANES tokens, and not at all
//   from the second round on, because the next round's ids are read while this one is added.
// - The vectors of AHEAD tokens are requested before the first of them is added. This is what hides the
//   way to memory: four vectors of 16 bytes on their way for each lane. Two are too few where a vector
//   holds many elements, and eight or sixteen take registers from the other warps of a processor, which
//   hide the way to memory as well (H200, 65,536 bags of 32 random rows).
// - Rows are read through the first-level cache, although they are random: told not to allocate there,
//   an H200 took a fifth to two fifths longer for F32 and F16 tables within the second-level cache, and
//   never less.
// - Results are written with a hint that nobody reads them soon, so that they do not push the table out
//   of the second-level cache.
//
// What is multiplied without need: every element by its token's factor, which is 1 where there are
// none. The product is exact, costs one instruction beside four bytes of memory traffic, and halves the
// number of kernels. Likewise a lane adds zeros for tokens beyond the end of its bag: a sum begins as
// +0, so that adding +0 never changes it.
//
// A table whose rows are not made of whole vectors is read element by element, by the same code with
// vectors of one element.
//
// Made into pool_rows.ptx by `cargo xtask ptx`: for compute_75 and later, without fused operations and
// without fast math.

// Vectors that a lane requests before it adds the first one.
#ifndef VECTORS_AHEAD
#define VECTORS_AHEAD 4
#endif

// How a vector of a row is read.
#ifndef ROW_LOAD
#define ROW_LOAD "ld.global.nc.v4.u32"
#endif

// Threads of a block; the launch has to use the same number.
#ifndef THREADS
#define THREADS 128
#endif

#define ALL_LANES 0xffffffffu
#define INLINE static __device__ __forceinline__

// Reads 16 bytes if they are wanted, and leaves `vector` alone otherwise. The instruction carries its
// own condition, so that the compiler has no branch to place between the requests.
INLINE void load_vector(uint4 &vector, const void *address, bool wanted) {
    asm("{\n\t"
        ".reg .pred wanted;\n\t"
        "setp.ne.u32 wanted, %5, 0;\n\t"
        "@wanted " ROW_LOAD " {%0, %1, %2, %3}, [%4];\n\t"
        "}"
        : "+r"(vector.x), "+r"(vector.y), "+r"(vector.z), "+r"(vector.w)
        : "l"(address), "r"((unsigned)wanted));
}

// A 32-bit part of a vector; the index is a constant wherever this is used.
INLINE unsigned word(const uint4 &vector, int index) {
    return index == 0 ? vector.x : index == 1 ? vector.y : index == 2 ? vector.z : vector.w;
}

INLINE float widen_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// The kinds of tables: what is read at once, how many elements it holds, and their values.

struct F32 {
    typedef uint4 Vector;
    enum { WIDTH = 4 };
    INLINE Vector zero() { return make_uint4(0, 0, 0, 0); }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        load_vector(vector, address, wanted);
    }
    INLINE float element(const Vector &vector, int index) {
        return __uint_as_float(word(vector, index));
    }
};

struct F16 {
    typedef uint4 Vector;
    enum { WIDTH = 8 };
    INLINE Vector zero() { return make_uint4(0, 0, 0, 0); }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        load_vector(vector, address, wanted);
    }
    INLINE float element(const Vector &vector, int index) {
        return widen_f16((unsigned short)(word(vector, index / 2) >> (index % 2 * 16)));
    }
};

struct I8 {
    typedef uint4 Vector;
    enum { WIDTH = 16 };
    INLINE Vector zero() { return make_uint4(0, 0, 0, 0); }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        load_vector(vector, address, wanted);
    }
    // The byte with its sign bit turned is its value + 128. Put below the bits of 2^23 it makes the
    // number 2^23 + 128 + value, from which the value is one exact subtraction away. On many GPUs this
    // is faster than the conversion instruction, which has a quarter of the units.
    INLINE float element(const Vector &vector, int index) {
        const unsigned bytes = word(vector, index / 4) ^ 0x80808080u;
        const unsigned number = __byte_perm(bytes, 0x4b000000u, 0x7440u + index % 4);
        return __fsub_rn(__uint_as_float(number), 8388736.0f);
    }
};

struct F32One {
    typedef float Vector;
    enum { WIDTH = 1 };
    INLINE Vector zero() { return 0; }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        if (wanted) vector = __ldg((const Vector *)address);
    }
    INLINE float element(Vector vector, int) { return vector; }
};

struct F16One {
    typedef unsigned short Vector;
    enum { WIDTH = 1 };
    INLINE Vector zero() { return 0; }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        if (wanted) vector = __ldg((const Vector *)address);
    }
    INLINE float element(Vector vector, int) { return widen_f16(vector); }
};

struct I8One {
    typedef signed char Vector;
    enum { WIDTH = 1 };
    INLINE Vector zero() { return 0; }
    INLINE void load(Vector &vector, const void *address, bool wanted) {
        if (wanted) vector = __ldg((const Vector *)address);
    }
    INLINE float element(Vector vector, int) { return (float)vector; }
};

// What a launch is given.
struct Task {
    const char *table;           // [rows, dim], without gaps
    const float *factors;        // one for each id, or null: every row counts once
    const unsigned *mapping;     // the row of each id, or null: ids are rows
    const unsigned *ids;         // of all bags, one after the other
    const unsigned *offsets;     // [bags + 1]: where a bag begins and ends among the ids
    float *out;                  // [bags, columns]
    unsigned bags;
    unsigned row_bytes;          // of the table
    unsigned columns;            // the first so many of a row are wanted
    unsigned normalize;          // 0: no; 1: divide by norm + 1e-32; 2: by norm, or 1e-12 if that is more
};

// A token as it is handed round.
struct Token {
    unsigned row;
    float factor;
};

// The token at `position` of a bag; beyond its end, one that does no harm.
INLINE Token token_at(const Task &task, unsigned begin, unsigned count, unsigned position) {
    Token token = {0, 1.0f};
    if (position < count) {
        const unsigned id = __ldg(task.ids + begin + position);
        token.row = task.mapping ? __ldg(task.mapping + id) : id;
        if (task.factors) token.factor = __ldg(task.factors + id);
    }
    return token;
}

template <int WIDTH> INLINE void store(float *out, const float (&values)[WIDTH]) {
    if (WIDTH == 1) {
        __stcs(out, values[0]);
    } else {
#pragma unroll
        for (int i = 0; i + 3 < WIDTH; i += 4) {
            __stcs((float4 *)(out + i),
                   make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]));
        }
    }
}

// What a row is divided by: `squares` is the sum over this lane's columns. Every lane of a group gets the
// same number, because the two operands of each addition are only exchanged.
template <int LANES> INLINE float divisor(float squares, unsigned normalize) {
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        squares = __fadd_rn(squares, __shfl_xor_sync(ALL_LANES, squares, distance));
    }
    const float norm = __fsqrt_rn(squares);
    if (normalize == 1) return __fadd_rn(norm, 1e-32f);
    // `fmaxf` would hide a NaN.
    return norm < 1e-12f ? 1e-12f : norm;
}

// Pools one bag by LANES lanes, which take CHUNKS vectors each in one pass. All lanes of a warp go
// through all loops together, as shuffles ask for it: the longest bag of a warp decides.
//
// The passes are shared out over the y dimension of the grid. With `normalize` it must be 1, for a
// norm needs the whole row.
template <class Kind, int LANES, int CHUNKS> INLINE void pool(const Task &task) {
    typedef typename Kind::Vector Vector;
    enum {
        WIDTH = Kind::WIDTH,
        SPAN = LANES * CHUNKS,
        FIT = VECTORS_AHEAD / CHUNKS,
        AHEAD = FIT < LANES ? FIT : LANES
    };
    const unsigned lane = threadIdx.x % LANES;
    const unsigned bag = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;

    unsigned begin = 0, count = 0;
    if (bag < task.bags) {
        begin = __ldg(task.offsets + bag);
        count = __ldg(task.offsets + bag + 1) - begin;
    }
    unsigned longest = count;
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
        longest = max(longest, __shfl_xor_sync(ALL_LANES, longest, distance));
    }
    const float divide_by = (float)max(count, 1u);
    float *const out = task.out + (size_t)bag * task.columns;
    const unsigned vectors = task.columns / WIDTH;
    const bool one_pass = vectors <= SPAN;
    float squares = 0;

    for (unsigned first = blockIdx.y * SPAN; first < vectors; first += gridDim.y * SPAN) {
        const char *const column = task.table + (size_t)(first + lane) * sizeof(Vector);
        // A lane without columns in this chunk has no tokens to read.
        unsigned tokens[CHUNKS];
        float sums[CHUNKS][WIDTH];
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            tokens[c] = first + c * LANES + lane < vectors ? count : 0;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) sums[c][i] = 0;
        }

        Token next = token_at(task, begin, count, lane);
        for (unsigned start = 0; start < longest; start += LANES) {
            const Token mine = next;
            next = token_at(task, begin, count, start + LANES + lane);
            const unsigned end = min(longest - start, (unsigned)LANES);
#pragma unroll 1
            for (unsigned step = 0; step < end; step += AHEAD) {
                Vector loaded[AHEAD][CHUNKS];
                float factor[AHEAD];
#pragma unroll
                for (int t = 0; t < AHEAD; ++t) {
                    const unsigned row = __shfl_sync(ALL_LANES, mine.row, step + t, LANES);
                    factor[t] = __shfl_sync(ALL_LANES, mine.factor, step + t, LANES);
                    const char *const address = column + (size_t)row * task.row_bytes;
#pragma unroll
                    for (int c = 0; c < CHUNKS; ++c) {
                        loaded[t][c] = Kind::zero();
                        Kind::load(loaded[t][c], address + c * LANES * sizeof(Vector),
                                   start + step + t < tokens[c]);
                    }
                }
#pragma unroll
                for (int t = 0; t < AHEAD; ++t) {
#pragma unroll
                    for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
                        for (int i = 0; i < WIDTH; ++i) {
                            const float value = Kind::element(loaded[t][c], i);
                            sums[c][i] = __fadd_rn(sums[c][i], __fmul_rn(value, factor[t]));
                        }
                    }
                }
            }
        }

#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                sums[c][i] = __fdiv_rn(sums[c][i], divide_by);
                squares = __fadd_rn(squares, __fmul_rn(sums[c][i], sums[c][i]));
            }
        }
        if (one_pass && task.normalize) {
            const float norm = divisor<LANES>(squares, task.normalize);
#pragma unroll
            for (int c = 0; c < CHUNKS; ++c) {
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) sums[c][i] = __fdiv_rn(sums[c][i], norm);
            }
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            const unsigned vector = first + c * LANES + lane;
            if (bag < task.bags && vector < vectors) store<WIDTH>(out + vector * WIDTH, sums[c]);
        }
    }

    if (!one_pass && task.normalize) {
        // Each lane reads again what it wrote itself.
        const float norm = divisor<LANES>(squares, task.normalize);
        if (bag < task.bags) {
            for (unsigned vector = lane; vector < vectors; vector += LANES) {
                float *const values = out + vector * WIDTH;
#pragma unroll
                for (int i = 0; i < WIDTH; ++i) values[i] = __fdiv_rn(values[i], norm);
            }
        }
    }
}

// The kernels are named by type and by the vectors of one pass; "one" reads element by element.
#define KERNEL(name, kind, lanes, chunks)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) name(                                    \
        const char *table, const float *factors, const unsigned *mapping, const unsigned *ids,     \
        const unsigned *offsets, float *out, unsigned bags, unsigned row_bytes, unsigned columns,  \
        unsigned normalize) {                                                                      \
        const Task task = {table, factors, mapping, ids,     offsets,                              \
                           out,   bags,    row_bytes, columns, normalize};                         \
        pool<kind, lanes, chunks>(task);                                                           \
    }

KERNEL(pool_rows_f32_8, F32, 8, 1)
KERNEL(pool_rows_f32_16, F32, 16, 1)
KERNEL(pool_rows_f32_32, F32, 32, 1)
KERNEL(pool_rows_f32_64, F32, 32, 2)
KERNEL(pool_rows_f32_one, F32One, 32, 2)
KERNEL(pool_rows_f16_8, F16, 8, 1)
KERNEL(pool_rows_f16_16, F16, 16, 1)
KERNEL(pool_rows_f16_32, F16, 32, 1)
KERNEL(pool_rows_f16_64, F16, 32, 2)
KERNEL(pool_rows_f16_one, F16One, 32, 2)
KERNEL(pool_rows_i8_8, I8, 8, 1)
KERNEL(pool_rows_i8_16, I8, 16, 1)
KERNEL(pool_rows_i8_32, I8, 32, 1)
KERNEL(pool_rows_i8_64, I8, 32, 2)
KERNEL(pool_rows_i8_one, I8One, 32, 2)
