#!/usr/bin/env python3
"""weft's all_reduce of NumPy arrays beside mpi4py's Allreduce over the same ranks: one process a rank has both, they take turns, ratios of medians.

    python3 -m venv peers && peers/bin/pip install numpy mpi4py
    export PYTHONPATH=python LD_LIBRARY_PATH=build/release/lib
    mpirun -n 2 peers/bin/python bench/peers/numpy_mpi4py.py [--json FILE]

Of float32, in place, sums that are checked. `array` is NumPy's own memory, `allocate` what weft.Communicator.allocate() gives, which the ranks of a node
reach without a copy. A round makes a few calls after a barrier; its time is the slowest rank's, for one call. The figure is the median of rounds.
"""
import argparse
import importlib.util
import json
import statistics
import sys
import time

missing = [name for name in ("numpy", "mpi4py") if importlib.util.find_spec(name) is None]
if missing:
    print(f"numpy_mpi4py.py: {sys.executable} has no {' and no '.join(missing)}; pip install numpy mpi4py in an environment of its own", file=sys.stderr)
    sys.exit(42)

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

import weft  # noqa: E402

SIZES = [8, 64, 512, 4096, 32768, 262144, 2 << 20, 16 << 20, 64 << 20]


def rounds_of(size):
    """(rounds, calls of a round)"""
    return (60, 50) if size <= 4096 else (40, 20) if size <= 262144 else (15, 3) if size <= 2 << 20 else (9, 1)


def measured(size, comm):
    """{contestant: medians of seconds}, and whether every sum was right."""
    count = size // 4
    memory = {"mpi4py": np.empty(count, np.float32), "array": np.empty(count, np.float32), "allocate": np.asarray(comm.allocate(count))}

    def call(name):
        if name == "mpi4py":
            return lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, memory[name], MPI.SUM)
        return lambda: comm.all_reduce(memory[name]).wait()

    contestants, (rounds, calls), taken = {name: call(name) for name in memory}, rounds_of(size), {name: [] for name in memory}
    for number in range(rounds + 2):
        order = list(contestants.items())
        for name, one in order[number % 3 :] + order[: number % 3]:  # none is always after the same other
            memory[name][:] = comm.rank + 1
            one()
            if not (memory[name] == comm.size * (comm.size + 1) / 2).all():
                raise weft.InternalError(f"numpy_mpi4py.py: rank {comm.rank}: {name}: a wrong sum of {size} bytes")
            memory[name][:] = 0
            MPI.COMM_WORLD.Barrier()
            begin = time.perf_counter()
            for _ in range(calls):
                one()
            slowest = MPI.COMM_WORLD.allreduce((time.perf_counter() - begin) / calls, MPI.MAX)
            if number >= 2:  # the first warm up
                taken[name].append(slowest)
    return {name: statistics.median(times) for name, times in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="leaves out what is larger")
    parser.add_argument("--json", metavar="FILE", help="writes the rows")
    options = parser.parse_args()
    rows = []
    with weft.world() as comm:
        if (comm.size, comm.rank) != (MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank):
            raise weft.UsageError(f"numpy_mpi4py.py: weft's rank {comm.rank} of {comm.size} is MPI's {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size}; start it by mpirun")
        if comm.rank == 0:
            print(f"all_reduce of float32 on {comm.size} ranks: weft {weft.version()} over {comm.backend}, {MPI.Get_library_version().split(',')[0]}\n")
            print(f"{'bytes':>10} {'mpi4py':>12} {'array':>12} {'allocate':>12}   array / mpi4py   allocate / mpi4py", flush=True)
        for size in [size for size in SIZES if size <= options.largest]:
            of_size = measured(size, comm)
            row = {"bytes": size, "ranks": comm.size, "seconds": of_size, "array": of_size["array"] / of_size["mpi4py"],
                   "allocate": of_size["allocate"] / of_size["mpi4py"]}
            rows.append(row)
            if comm.rank == 0:
                print(f"{size:>10} {of_size['mpi4py'] * 1e6:>9.1f} us {of_size['array'] * 1e6:>9.1f} us {of_size['allocate'] * 1e6:>9.1f} us   "
                      f"{row['array']:>14.2f}   {row['allocate']:>17.2f}", flush=True)
        if comm.rank == 0 and options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    weft.run(main)
