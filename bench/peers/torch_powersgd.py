#!/usr/bin/env python3
"""PyTorch's PowerSGD hook beside weft's on the gradients of GPT-2 XL's matrices, one rank on one card: compression and
reconstruction, for one rank has nothing to send. One command prints both and how often weft's step goes into torch's.

  python3 bench/peers/torch_powersgd.py --weft build/gpu/bin/gpu_low_rank_figures
  python3 bench/peers/torch_powersgd.py --device cpu --blocks 1 --weft build/dev/bin/gpu_low_rank_figures

Both have buckets of 25 MiB and warm start; torch keeps its errors in f32, weft in 16 bits. weft's step is all of it, from
the first gradient to the last mean. Of torch, what DDP takes around a hook that does nothing is subtracted: it copies
gradients into its buckets, which weft's have been in from the start. Medians of 11 steps; the two run one after the
other. Prints one JSON object a line. Exit status: 0 done, 42 wrong usage, 70 when weft's program fails.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

WARM_UP_STEPS = 4  # of which the first two are not compressed: error feedback allows no earlier start
TIMED_STEPS = 11
POWER_SGD_START = 2


def shapes(blocks):
    """As tests/gpu/low_rank_figures.cpp has them."""
    return [(50257, 1600), (1024, 1600)] + [(4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400)] * blocks


class Give(torch.autograd.Function):
    """Has the gradient that it is given, and costs nothing beside."""

    @staticmethod
    def forward(context, parameter, gradient):
        context.gradient = gradient
        return parameter.new_zeros(())

    @staticmethod
    def backward(context, _):
        return context.gradient, None


class Model(torch.nn.Module):
    def __init__(self, blocks, device):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape, device=device))
                                              for shape in shapes(blocks))
        self.noise = torch.randn(50257 * 1600, device=device)

    def forward(self):
        return sum(Give.apply(one, self.noise[:one.numel()].view_as(one)) for one in self.weights)


def nothing(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def power_sgd(state, bucket):
    """Over gloo a bucket at a time, for PyTorch's hook starts sums from callbacks (see torch_ddp.py)."""
    reduced = powerSGD_hook.powerSGD_hook(state, bucket)
    if dist.get_backend() == "gloo":
        reduced.wait()
    return reduced


def median_step(hook, state, options):
    torch.manual_seed(1)
    model = DistributedDataParallel(Model(options.blocks, options.device), gradient_as_bucket_view=True, bucket_cap_mb=25)
    model.register_comm_hook(state, hook)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    seconds = []
    for _ in range(WARM_UP_STEPS + TIMED_STEPS):
        loss = model()
        wait()
        begin = time.perf_counter()
        loss.backward()
        wait()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[WARM_UP_STEPS:])


def torch_milliseconds(options):
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo", rank=0, world_size=1,
                                init_method="file://" + os.path.join(folder, "store"))
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=options.rank,
                                            start_powerSGD_iter=POWER_SGD_START)
        with_hook = median_step(power_sgd, state, options)
        state = None
        without = median_step(nothing, None, options)
        dist.destroy_process_group()
    return with_hook * 1e3, without * 1e3


def weft_milliseconds(options):
    command = [options.weft, "powersgd", str(options.rank), str(options.blocks)]
    environment = dict(os.environ, WEFT_DEVICE="cuda" if options.device == "cuda" else "host")
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(print(f"torch_powersgd.py: {' '.join(command)} ended with status {ran.returncode}", file=sys.stderr) or 70)
    print(ran.stdout, end="", flush=True)
    return json.loads(ran.stdout.splitlines()[-1])["step_ms"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", metavar="PROGRAM", help="gpu_low_rank_figures; without it torch alone is measured")
    parser.add_argument("--rank", type=int, default=4, help="of the approximation (4)")
    parser.add_argument("--blocks", type=int, default=48, help="of the model (48, which are 1.56 billion elements)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.error = refuse
    options = parser.parse_args()
    if options.rank < 1 or options.blocks < 1:
        refuse(f"--rank {options.rank} and --blocks {options.blocks} must be 1 or more")
    if options.device == "cuda" and not torch.cuda.is_available():
        refuse("this torch sees no card; --device cpu measures the host")
    return options


def refuse(line):
    print(f"torch_powersgd.py: {line}", file=sys.stderr)
    sys.exit(42)


def main():
    options = parse()
    weft = weft_milliseconds(options) if options.weft else None
    with_hook, without = torch_milliseconds(options)
    print(json.dumps({"figure": "powersgd", "torch": torch.__version__, "device": options.device, "rank": options.rank,
                      "blocks": options.blocks, "step_ms": with_hook, "without_hook_ms": without,
                      "hook_ms": with_hook - without}))
    if weft is not None:
        print(json.dumps({"figure": "powersgd beside torch", "torch_over_weft": (with_hook - without) / weft}))


if __name__ == "__main__":
    main()
