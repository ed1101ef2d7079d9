// Runs the kernels of a .metal file on the processor: cases come in on stdin, rows go out on stdout.
//
// A case is ten numbers of 32 bits, `kind` (0 F32, 1 F16, 2 I8), `threads` of a group, `rows`, `dim`,
// `columns`, `normalize`, and how many `ids`, `bags`, `factors` and `mapping` entries there are, then the
// table, the ids, one offset more than bags, the factors and the mapping. The answer is
// `bags * columns` floats. Numbers are in this machine's byte order. The end of stdin ends the program.
//
// Groups run one after the other; the threads of a group run side by side. A barrier that only some
// threads reach makes the program hang: an alarm ends it then.

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <unistd.h>

#include KERNELS

#undef kernel
#undef device
#undef constant
#undef threadgroup

namespace {

// Ample for a case, which takes milliseconds.
constexpr unsigned SECONDS_FOR_A_CASE = 60;

template <typename T>
std::vector<T> read(std::size_t count) {
    std::vector<T> values(count);
    if (std::fread(values.data(), sizeof(T), count, stdin) != count) {
        std::fputs("the case is incomplete\n", stderr);
        std::exit(1);
    }
    return values;
}

// Hands out null where there is nothing, so that reading it is noticed.
template <typename T>
const T *pointer(const std::vector<T> &values) {
    return values.empty() ? nullptr : values.data();
}

struct Head {
    uint kind, threads, rows, dim, columns, normalize, ids, bags, factors, mapping;
};

template <typename Element, typename Kernel>
void run(const Head &head, Kernel function) {
    const auto table = read<Element>(std::size_t(head.rows) * head.dim);
    const auto ids = read<uint>(head.ids);
    const auto offsets = read<uint>(head.bags + 1);
    const auto factors = read<float>(head.factors);
    const auto mapping = read<uint>(head.mapping);
    std::vector<float> pooled(std::size_t(head.bags) * head.columns, NAN);
    const Shape shape {
        head.dim, head.columns, head.normalize, uint(!factors.empty()), uint(!mapping.empty())
    };

    // Threadgroup memory is not cleared on a GPU either.
    std::vector<float> partial(head.threads, NAN);
    std::barrier<> barrier(head.threads);
    std::vector<std::thread> threads;
    for (uint index = 0; index < head.threads; index += 1) {
        threads.emplace_back([&, index] {
            host::group = &barrier;
            for (uint bag = 0; bag < head.bags; bag += 1) {
                function(
                    pointer(table), pointer(ids), offsets.data(), pointer(factors), pointer(mapping),
                    pooled.data(), shape, partial.data(), bag, index, head.threads
                );
                barrier.arrive_and_wait();
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    std::fwrite(pooled.data(), sizeof(float), pooled.size(), stdout);
    std::fflush(stdout);
}

}

int main() {
    Head head;
    while (std::fread(&head, sizeof(head), 1, stdin) == 1) {
        alarm(SECONDS_FOR_A_CASE);
        switch (head.kind) {
            case 0: run<float>(head, pool_rows_f32); break;
            case 1: run<half>(head, pool_rows_f16); break;
            default: run<int8_t>(head, pool_rows_i8);
        }
    }
}
