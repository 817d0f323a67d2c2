#!/usr/bin/env python3
"""Every layout of ranks on nodes has one order of sums.

usage: layouts.py [COUNT [BIN]]    ONLY=trainings or ONLY=elements: that half alone

COUNT (200) random layouts of 1 to 4 nodes with 1 to 3 ranks each, drawn with SEED: one node after the other, in turn, or in any order. In
each soak_layouts trains under ddp, every stage of ZeRO, offload, 16-bit gradients and PowerSGD: all end with the bits of data parallelism. The
layouts take UCX, TCP and MPI in turn. Then weft-bench's collectives, types and operations run on 1 to 8 ranks in as many of the 162 layouts in
which the ranks of a node follow each other: no element is wrong.

The nodes are simulated on this machine: ranks that are told different node identities reach each other over the network alone.
Ends with 1 if a result is wrong, with 77 without mpirun.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent
ON_NODES = str(TREE / "tests/conformance/on_many_nodes.sh")
SIZES = ["-b", "8", "-e", "320K", "-f", "200"]  # bytes: a few elements, some, more than a staging area
STEPS = "3"


def layouts(ranks, nodes):
    """All lists of `nodes` numbers of 1 or more that add up to `ranks`."""
    if nodes == 1:
        return [[ranks]] if ranks > 0 else []
    return [[first, *rest] for first in range(1, ranks) for rest in layouts(ranks - first, nodes - 1)]


def drawn(chance):
    """The node of each rank."""
    left = [chance.randint(1, 3) for _ in range(chance.randint(1, 4))]
    nodes = [node for node, ranks in enumerate(left) for _ in range(ranks)]
    placement = chance.choice(["in order", "in turn", "in any order"])
    if placement == "in any order":
        chance.shuffle(nodes)
    if placement == "in turn":
        nodes = [node for turn in range(3) for node, ranks in enumerate(left) if turn < ranks]
    return nodes


def run(launcher, ranks, program, **environment):
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    command = (mpirun if launcher == "mpirun" else [launcher, "-n", str(ranks)]) + [ON_NODES, *program]
    environment = dict(os.environ, WEFT_FLIGHT_DIR="off", WEFT_TIMEOUT="120", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_mpi_yield_when_idle="1", OPENBLAS_NUM_THREADS="1", **environment)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def failed(what, done):
    print(f"FAILED: {what}: status {done.returncode}")
    print("\n".join("    | " + line for line in (done.stdout + done.stderr).splitlines()[-20:]), flush=True)
    return 1


def trainings(count, programs, chance):
    wrong, tally = 0, {}
    for number in range(count):
        nodes = drawn(chance)
        transport = ("ucx", "tcp", "mpi")[number % 3]
        launcher = "mpirun" if transport == "mpi" else str(programs / "weft-launch")
        done = run(launcher, len(nodes), [str(programs / "soak_layouts"), STEPS], NODES=" ".join(map(str, nodes)), WEFT_TRANSPORT=transport,
                   UCX_TLS="tcp,self")
        over = f"{transport}, {len(set(nodes))} nodes"
        tally[over] = tally.get(over, 0) + 1
        if done.returncode != 0 or ", 0 failed" not in done.stdout:
            wrong += failed(f"trainings over {transport} on nodes {nodes}", done)
    print("trainings: " + ", ".join(f"{over} {times}" for over, times in sorted(tally.items())))
    return wrong


def elements(count, programs, chance):
    every = [layout for ranks in range(1, 9) for nodes in range(1, 5) for layout in layouts(ranks, nodes)]
    chosen = every if count >= len(every) else chance.sample(every, count)
    wrong = measured = 0
    for layout in chosen:
        program = [str(programs / "weft-bench"), "all", *SIZES, "-d", "all", "-o", "all", "-n", "1", "-w", "0", "--format", "csv"]
        done = run("mpirun", sum(layout), program, LAYOUT=" ".join(map(str, layout)))
        rows = [line for line in done.stdout.splitlines() if line.count(",") > 10 and not line.startswith("op,")]
        measured += len(rows)
        if done.returncode != 0 or not rows:
            wrong += failed(f"weft-bench, ranks by node {layout}", done)
    print(f"weft-bench: {len(chosen)} of {len(every)} layouts, {measured} rows")
    return wrong


def main():
    if shutil.which("mpirun") is None:
        print("skipped: no mpirun")
        return 77
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 200
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    chance = random.Random(int(os.environ.get("SEED", "1")))
    halves = {"trainings": trainings, "elements": elements}
    if not (programs / "soak_layouts").exists():
        print("trainings are left out, for this build has no soak_layouts")
        del halves["trainings"]
    if os.environ.get("ONLY") in halves:
        halves = {os.environ["ONLY"]: halves[os.environ["ONLY"]]}
    wrong = sum(half(count, programs, chance) for half in halves.values())
    print(f"{count} layouts, {wrong} wrong")
    return 1 if wrong else 0


sys.exit(main())
