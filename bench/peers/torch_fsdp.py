#!/usr/bin/env python3
"""FSDP2 over weft beside FSDP2 over gloo: a transformer of GPT blocks that learns real text, steps of all in turn.

    bench/peers/torch_fsdp.py                                     2 ranks here: 4 blocks of width 384, 8 x 64 bytes of text a rank
    bench/peers/torch_fsdp.py --width 768 --layers 2 --sequences 16 --json FILE

Each block is a group of parameters of its own (fully_shard), AdamW, one thread a rank. `heap` is weft with FSDP2's buffers in memory of
the heap (set_allocate_memory_from_process_group_for_comm), `none` the same model unsharded and without communication: nothing can be
faster. A step's time is that of the slower rank; medians over steps. Needs a torch with weft in it (docs/pytorch.md).
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

# Before torch is loaded: the BLAS under it may have threads of its own.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "torch"))

from text import Gpt, Text, loss_of  # noqa: E402

TURN_STEPS = 3
WARM_UP_TURNS = 1


class Contestant:
    """One backend, with a model, an optimizer and a text of its own: all learn the same."""

    def __init__(self, name, group, options):
        self.name, self.options = name, options
        self.model = Gpt(options.layers, options.width, options.width // 64)
        if group:
            mesh = DeviceMesh.from_group(group, "cpu")
            for block in self.model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(self.model, mesh=mesh)
        if name == "heap":
            for module in [*self.model.blocks, self.model]:
                module.set_allocate_memory_from_process_group_for_comm(True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.text = Text(dist.get_rank())
        self.seconds, self.processor_seconds, self.losses = [], [], []

    def step(self):
        begin, used = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad()
        loss = loss_of(self.model, self.text.batch(self.options.sequences))
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)
        self.processor_seconds.append(time.process_time() - used)
        self.losses.append(loss.item())


def body(rank, options, folder):
    torch.set_num_threads(1)
    import weft.torch  # noqa: F401

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=options.ranks)
    world = dist.group.WORLD
    weft_group = dist.new_group(backend="weft")
    contestants = [Contestant("none", None, options), Contestant("gloo", world, options), Contestant("weft", weft_group, options),
                   Contestant("heap", dist.new_group(backend="weft"), options)]
    for turn in range(WARM_UP_TURNS + options.turns):
        for one in contestants if turn % 2 == 0 else contestants[::-1]:
            dist.barrier(world)
            for _ in range(TURN_STEPS):
                one.step()
    rows = []
    for one in contestants:
        slowest = torch.tensor([one.seconds[WARM_UP_TURNS * TURN_STEPS:], one.processor_seconds[WARM_UP_TURNS * TURN_STEPS:]], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=world)
        seconds, used = slowest.tolist()
        rows.append({"backend": one.name, "seconds": statistics.median(seconds), "quartiles": statistics.quantiles(seconds, n=4)[::2],
                     "processor_seconds": statistics.median(used), "loss": one.losses[-1]})
    if rank == 0:
        report(rows, contestants[0].model, options)
    dist.barrier(world)
    dist.destroy_process_group()


def report(rows, model, options):
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{options.layers} blocks of width {options.width}, {parameters} parameters, {options.sequences} x 64 bytes a rank, {options.ranks} ranks")
    gloo = next(row["seconds"] for row in rows if row["backend"] == "gloo")
    for row in rows:
        row["speed_of_gloo"] = gloo / row["seconds"]
        low, high = row["quartiles"]
        print(f"{row['backend']:6}{row['seconds'] * 1e3:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})  {row['speed_of_gloo']:.2f} x gloo's speed, "
              f"{row['processor_seconds'] * 1e3:.0f} ms of processors, loss {row['loss']:.3f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"torch": torch.__version__, "parameters": parameters, "options": vars(options), "results": rows}, file, indent=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=384, help="of the model, a multiple of 64 (384)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sequences", type=int, default=8, help="of 64 bytes, a rank and step (8)")
    parser.add_argument("--turns", type=int, default=8, help=f"timed turns of {TURN_STEPS} steps each (8)")
    parser.add_argument("--json", help="writes the rows")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(body, (options, folder), options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
