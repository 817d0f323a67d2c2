#!/usr/bin/env python3
"""How long dist.new_group() takes over weft and over gloo, calls in turn, and how much address space each takes.

    bench/peers/torch_groups.py                   2 ranks here, 30 groups of each backend
    bench/peers/torch_groups.py --ranks 4 --groups 50 --json FILE

The ranks begin together. The time of a group is the slowest rank's, with the first barrier in it, which gloo connects for. All
groups stay, so address space (VmSize) is that of one group more. Needs a torch with weft in it (docs/pytorch.md).
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


def address_space():
    """Bytes, of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def make(backend, world):
    """Seconds of a new group, of those and a barrier, and bytes of address space; each the largest of all ranks."""
    dist.barrier(world)
    before, begin = address_space(), time.perf_counter()
    group = dist.new_group(backend=backend)
    made = time.perf_counter()
    dist.barrier(group)
    row = torch.tensor([made - begin, time.perf_counter() - begin, address_space() - before], dtype=torch.float64)
    dist.all_reduce(row, op=dist.ReduceOp.MAX, group=world)
    return row.tolist()


def body(rank, options):
    torch.set_num_threads(1)
    import weft.torch  # noqa: F401

    dist.init_process_group("gloo", init_method=options.store, rank=rank, world_size=options.ranks)
    world = dist.group.WORLD
    rows = {"gloo": [], "weft": []}
    for _ in range(options.groups):
        for backend, made in rows.items():
            made.append(make(backend, world))
    if rank == 0:
        report(rows, options)
    dist.destroy_process_group()


def report(rows, options):
    found = []
    for backend, made in rows.items():
        alone, used, space = zip(*made[1:])
        row = {"backend": backend, "ranks": options.ranks, "groups": options.groups, "first_ms": made[0][0] * 1e3, "first_bytes": made[0][2],
               "ms": statistics.median(alone) * 1e3, "least_ms": min(alone) * 1e3, "most_ms": max(alone) * 1e3,
               "with_barrier_ms": statistics.median(used) * 1e3, "bytes": statistics.median(space), "most_bytes": max(space)}
        found.append(row)
        print(f"{backend}: first {row['first_ms']:.2f} ms, {row['first_bytes'] / 1e9:.2f} GB; each further {row['ms']:.2f} ms "
              f"({row['least_ms']:.2f} to {row['most_ms']:.2f}), with a barrier {row['with_barrier_ms']:.2f} ms, "
              f"{row['bytes'] / 1e6:.1f} MB of address space (at most {row['most_bytes'] / 1e6:.1f})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "results": found}, file, indent=1)


def free_port():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--groups", type=int, default=30, help="of each backend (30), of which the first is reported apart")
    parser.add_argument("--store", choices=("tcp", "file"), default="tcp", help="where the ranks meet: as torchrun has it, or a file")
    parser.add_argument("--json", help="writes the rows")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        options.store = f"tcp://127.0.0.1:{free_port()}" if options.store == "tcp" else f"file://{folder}/store"
        processes.spawn(body, (options,), options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
