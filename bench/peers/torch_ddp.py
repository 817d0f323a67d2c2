#!/usr/bin/env python3
"""PyTorch DistributedDataParallel over gloo at the reference workload mlp-8x1024, beside the same loop without
synchronization: the figures that weft-scaling's ddp and nocomm rows are held against.

Run with Debian's python3-torch:  /usr/bin/python3 bench/peers/torch_ddp.py --ranks 2 --steps 40
One thread a rank, AdamW, batch 32, turns of five steps as weft-scaling takes them. Prints one JSON object.
"""
import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def build():
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def timed_step(model, optimizer, inputs, targets, synchronize):
    begin = time.perf_counter()
    with contextlib.nullcontext() if synchronize else model.no_sync():
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.cross_entropy(model(inputs)[:, :256], targets).backward()
    optimizer.step()
    return time.perf_counter() - begin


def rank_main(rank, ranks, steps, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = DistributedDataParallel(build(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    inputs, targets = torch.randn(32, 1024), torch.randint(0, 256, (32,))
    seconds = {"ddp": [], "no_sync": []}
    for _ in range(0, steps, 5):
        for name in seconds:
            dist.barrier()
            seconds[name] += [timed_step(model, optimizer, inputs, targets, name == "ddp") for _ in range(5)]
    medians = torch.tensor([statistics.median(times[3:]) for times in seconds.values()])
    dist.all_reduce(medians)
    if rank == 0:
        ddp, no_sync = (medians / ranks).tolist()
        results.put({"torch": torch.__version__, "ranks": ranks, "ddp_step_seconds": ddp, "no_sync_step_seconds": no_sync,
                     "efficiency_vs_no_sync": no_sync / ddp})
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    results = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        mp.spawn(rank_main, (arguments.ranks, arguments.steps, store, results), nprocs=arguments.ranks)
        print(json.dumps(results.get()))


if __name__ == "__main__":
    main()
