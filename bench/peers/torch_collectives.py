#!/usr/bin/env python3
"""torch.distributed's collectives over weft beside the same over gloo: one script, two groups, calls in turn, ratios of medians.

    bench/peers/torch_collectives.py                   2 ranks here
    bench/peers/torch_collectives.py --ranks 4 --json FILE

Needs a torch with weft in it: pip install --no-build-isolation . (docs/pytorch.md). `ordinary` is torch's own memory, `heap` what the backend's
allocate_tensor() gives. In each round each backend makes a few calls; a rank's time of a round is the mean, the figure the median of rounds.
`copy` is no exchange: each rank copies as many bytes as the collectives' tensor has. A rank's share of an all_reduce over 2 ranks reads and
writes as much, if nothing is copied between: nothing can be faster where memory limits.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

SIZES = [1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "copy"]


def operations(group, ranks, size, memory):
    """name -> call; a rank's part has `size` bytes."""
    def tensor(count):
        if memory == "heap":
            backend = group._get_backend(torch.device("cpu"))
            return backend.allocate_tensor(count, dtype=torch.float32, device=torch.device("cpu")).fill_(1)
        return torch.ones(count)

    count = size // 4
    part = max(count // ranks, 1)
    whole, own = tensor(part * ranks), tensor(part)
    other = tensor(part * ranks)
    calls = {"all_reduce": lambda: dist.all_reduce(whole, group=group)}
    calls["all_gather"] = lambda: dist.all_gather_into_tensor(whole, own, group=group)
    calls["reduce_scatter"] = lambda: dist.reduce_scatter_tensor(own, whole, group=group)
    calls["all_to_all"] = lambda: dist.all_to_all_single(other, whole, group=group)
    calls["copy"] = lambda: other.copy_(whole)
    return calls, whole


def rounds_of(size):
    return (20, 20) if size <= 1 << 16 else (15, 5) if size <= 1 << 20 else (9, 2)


def compare(name, size, made, groups, options):
    """Rows of one operation: over gloo, over weft with torch's own memory and with the heap's, in turn."""
    rounds, calls = rounds_of(size)
    times = {contestant: [] for contestant in made}
    for number in range(rounds + 2):
        for contestant, (all_calls, whole) in made.items():
            call = all_calls[name]
            whole.fill_(1.0)
            dist.barrier(groups["gloo" if contestant == "gloo" else "weft"])
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            if number >= 2:  # the first warm up
                times[contestant].append((time.perf_counter() - begin) / calls)
    medians = {contestant: statistics.median(all_times) for contestant, all_times in times.items()}
    return [{"op": name, "memory": memory, "bytes": size, "ranks": options.ranks, "gloo": medians["gloo"], "weft": medians[memory],
             "ratio": medians[memory] / medians["gloo"]} for memory in ("ordinary", "heap")]


def body(rank, options, folder):
    torch.set_num_threads(1)
    import weft.torch  # noqa: F401

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks)
    groups = {"gloo": dist.group.WORLD, "weft": dist.new_group(backend="weft")}
    rows = []
    for size in [size for size in SIZES if size <= options.largest]:
        made = {"gloo": operations(groups["gloo"], options.ranks, size, "ordinary")}
        for memory in ("ordinary", "heap"):
            made[memory] = operations(groups["weft"], options.ranks, size, memory)
        for name in options.operations or made["gloo"][0]:
            rows += compare(name, size, made, groups, options)
            if rank == 0:
                for row in rows[-2:]:
                    print(f"{name:15}{row['memory']:10}{size:10}  gloo {row['gloo'] * 1e6:10.1f} us  weft {row['weft'] * 1e6:10.1f} us  ratio {row['ratio']:.3f}",
                          flush=True)
    if rank == 0 and options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "results": rows}, file, indent=1)
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, help="these alone")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="no larger tensors than this (64 MiB)")
    parser.add_argument("--json", help="writes the rows")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(body, (options, folder), options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
