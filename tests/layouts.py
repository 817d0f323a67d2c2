#!/usr/bin/env python3
"""Every collective, type and operation of weft-bench, on 1 to 8 ranks in every layout of 1 to 4 nodes: no element is wrong.

usage: layouts.py [COUNT [BIN]]    so many of the layouts, drawn with SEED (default: all)

A layout says how many ranks each node has, in the order of ranks. The nodes are simulated on this machine: ranks that are told
different node identities reach each other over MPI alone. Ends with 1 if a result is wrong, with 77 without mpirun.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent
SIZES = ["-b", "8", "-e", "320K", "-f", "200"]  # bytes: a few elements, some, more than a staging area


def layouts(ranks, nodes):
    """All lists of `nodes` numbers of 1 or more that add up to `ranks`."""
    if nodes == 1:
        return [[ranks]] if ranks > 0 else []
    return [[first, *rest] for first in range(1, ranks) for rest in layouts(ranks - first, nodes - 1)]


def run(layout, programs):
    environment = dict(os.environ, LAYOUT=" ".join(map(str, layout)), WEFT_FLIGHT_DIR="off", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(sum(layout)),
               str(TREE / "tests/conformance/on_many_nodes.sh"), str(programs / "weft-bench"), "all", *SIZES,
               "-d", "all", "-o", "all", "-n", "1", "-w", "0", "--format", "csv"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    rows = [line for line in done.stdout.splitlines() if line.count(",") > 10 and not line.startswith("op,")]
    return done.returncode, rows, done.stdout + done.stderr


def main():
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun")
        return 77
    every = [layout for ranks in range(1, 9) for nodes in range(1, 5) for layout in layouts(ranks, nodes)]
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else len(every)
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    chosen = every if count >= len(every) else random.Random(int(os.environ.get("SEED", "1"))).sample(every, count)
    wrong = measured = 0
    for layout in chosen:
        status, rows, output = run(layout, programs)
        measured += len(rows)
        if status != 0 or not rows:
            wrong += 1
            print(f"FAILED: ranks by node {layout}: status {status}")
            print("\n".join("    | " + line for line in output.splitlines()[-20:]))
    print(f"{len(chosen)} of {len(every)} layouts, {measured} rows, {wrong} layouts wrong")
    return 1 if wrong else 0


sys.exit(main())
