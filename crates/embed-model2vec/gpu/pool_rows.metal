// Pools bags of token ids on a Metal device: one threadgroup a bag, threads over columns.
//
// A thread owns the columns c, c + threads, c + 2 * threads, ... of its bag. It adds up a column in token
// order, each product rounded before it is added, and divides once, by the number of tokens: the bits
// are those of the processor's kernels as long as no value is subnormal, which GPUs may flush to zero.
// The length of a row is formed in another order, so that normalized rows agree to rounding.
//
// The host checks everything before it launches: offsets do not decrease and end at the number of ids,
// ids have a row and a factor, columns <= dim. Nothing is checked here.
//
// This file is compiled twice: by Metal, and as C++ by the tests, which run it on Linux (gpu/host). It
// keeps to what both understand: threadgroup memory is an argument, there are no vectors and no
// function-local threadgroup arrays.

#include <metal_stdlib>

// The compile options alone do not forbid fused multiply-adds.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

using namespace metal;

// Values of `Shape::normalize`.
#define NORMALIZE_NONE 0
#define NORMALIZE_ADD_TINY 1
#define NORMALIZE_CLAMP_TINY 2

// What is the same for all bags; the host has the same fields in the same order.
struct Shape {
    // Elements of a row of the table.
    uint dim;
    // Leading columns that are wanted; also the width of a row of `pooled`.
    uint columns;
    uint normalize;
    // Whether `factors` and `mapping` mean something; if not, any buffer is bound in their place.
    uint has_factors;
    uint has_mapping;
};

// The sum of one number of each thread, for all of them: halves are folded until one number is left.
inline float sum_over_threads(float value, threadgroup float *partial, uint thread_index, uint threads) {
    partial[thread_index] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint left = threads;
    while (left > 1) {
        uint kept = (left + 1) / 2;
        if (thread_index + kept < left) {
            partial[thread_index] = partial[thread_index] + partial[thread_index + kept];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        left = kept;
    }
    return partial[0];
}

template <typename Element>
inline void pool_bag(
    device const Element *table,
    device const uint *ids,
    device const uint *offsets,
    device const float *factors,
    device const uint *mapping,
    device float *pooled,
    constant Shape &shape,
    threadgroup float *partial,
    uint bag,
    uint thread_index,
    uint threads
) {
    uint first = offsets[bag];
    uint end = offsets[bag + 1];
    float count = float(end - first);
    device float *row = pooled + ulong(bag) * ulong(shape.columns);

    float squares = 0.0f;
    for (uint column = thread_index; column < shape.columns; column += threads) {
        float sum = 0.0f;
        for (uint token = first; token < end; token += 1) {
            uint id = ids[token];
            uint table_row = shape.has_mapping ? mapping[id] : id;
            float value = float(table[ulong(table_row) * ulong(shape.dim) + ulong(column)]);
            if (shape.has_factors) {
                value = value * factors[id];
            }
            sum = sum + value;
        }
        float mean = first < end ? sum / count : 0.0f;
        row[column] = mean;
        float square = mean * mean;
        squares = squares + square;
    }
    if (shape.normalize == NORMALIZE_NONE) {
        return;
    }

    // A thread reads back what it wrote itself: no barrier on the rows is needed.
    float norm = precise::sqrt(sum_over_threads(squares, partial, thread_index, threads));
    float divisor = norm + 1e-32f;
    if (shape.normalize == NORMALIZE_CLAMP_TINY) {
        // `max` would hide a NaN.
        divisor = norm < 1e-12f ? 1e-12f : norm;
    }
    for (uint column = thread_index; column < shape.columns; column += threads) {
        row[column] = row[column] / divisor;
    }
}

// One entry point for each type of the table's elements. `partial` has one float for each thread.
#define POOL_ROWS(NAME, ELEMENT)                                                                        \
    kernel void NAME(                                                                                   \
        device const ELEMENT *table [[buffer(0)]],                                                      \
        device const uint *ids [[buffer(1)]],                                                           \
        device const uint *offsets [[buffer(2)]],                                                       \
        device const float *factors [[buffer(3)]],                                                      \
        device const uint *mapping [[buffer(4)]],                                                       \
        device float *pooled [[buffer(5)]],                                                             \
        constant Shape &shape [[buffer(6)]],                                                            \
        threadgroup float *partial [[threadgroup(0)]],                                                  \
        uint bag [[threadgroup_position_in_grid]],                                                      \
        uint thread_index [[thread_position_in_threadgroup]],                                           \
        uint threads [[threads_per_threadgroup]]                                                        \
    ) {                                                                                                 \
        pool_bag<ELEMENT>(                                                                              \
            table, ids, offsets, factors, mapping, pooled, shape, partial, bag, thread_index, threads   \
        );                                                                                              \
    }

POOL_ROWS(pool_rows_f32, float)
POOL_ROWS(pool_rows_f16, half)
POOL_ROWS(pool_rows_i8, int8_t)
