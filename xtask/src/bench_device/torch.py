"""Times PyTorch on the same work: run by `cargo xtask bench-device --torch PYTHON`.

Takes a JSON object on standard input: {"tables": [[rows, dim], ...], "bags": n, "tokens": n, "times": n}.
Prints one JSON object: versions, copy bandwidth, and for each table and type the median milliseconds of
embedding_bag(mean), by the faster of both types of ids, and of a padded gather with a mean.
"""

import json
import statistics
import sys

import torch
from torch.nn.functional import embedding_bag


def median_ms(work, times):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(times)
    ]
    for start, end in events:
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def measure(rows, dim, dtype, bags, tokens, times):
    table = torch.rand((rows, dim), device="cuda", dtype=torch.float32).sub_(0.5).to(dtype)
    ids = torch.randint(0, rows, (bags * tokens,), device="cuda", dtype=torch.int64)
    offsets = torch.arange(0, bags * tokens, tokens, device="cuda", dtype=torch.int64)
    bag_ms = {}
    for name, kind in [("int64", torch.int64), ("int32", torch.int32)]:
        typed_ids, typed_offsets = ids.to(kind), offsets.to(kind)
        bag_ms[name] = median_ms(
            lambda: embedding_bag(typed_ids, table, typed_offsets, mode="mean"), times
        )
    padded = ids.view(bags, tokens)
    gather_ms = median_ms(lambda: table[padded].mean(1), times)
    return {
        "rows": rows,
        "dim": dim,
        "type": "f16" if dtype == torch.float16 else "f32",
        "bag_ms": min(bag_ms.values()),
        "bag_ids": min(bag_ms, key=bag_ms.get),
        "gather_ms": gather_ms,
    }


def main():
    task = json.load(sys.stdin)
    bags, tokens, times = task["bags"], task["tokens"], task["times"]
    results = []
    with torch.inference_mode():
        source = torch.zeros(1 << 30, device="cuda", dtype=torch.uint8)
        target = torch.empty_like(source)
        copy_ms = median_ms(lambda: target.copy_(source), times)
        del source, target
        for rows, dim in task["tables"]:
            for dtype in (torch.float32, torch.float16):
                results.append(measure(rows, dim, dtype, bags, tokens, times))
                torch.cuda.empty_cache()
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
                "device": torch.cuda.get_device_name(),
                "copy_bytes_per_second": 2 * (1 << 30) / (copy_ms / 1e3),
                "results": results,
            }
        )
    )


main()
