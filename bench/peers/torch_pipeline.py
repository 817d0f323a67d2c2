#!/usr/bin/env python3
"""PyTorch's pipeline schedules over sleeping stages: the twin of `bench_pipeline sleep`.

    torchrun --nproc-per-node 4 bench/peers/torch_pipeline.py [MILLISECONDS [ROUNDS]]       default: 10 ms, 7 rounds

One device a rank, 4 microbatches a device, stages that differ by up to 40 %, values of 786 kB over gloo. A stage sleeps in its
forward, where the gradient of its input is computed, and where that of its weight is, each for as long as there. The makespan is
from the first begin of a computation to the last end, over all ranks; a line for each schedule, medians over rounds. Not
ScheduleZBVZeroBubble: when it sets up its stages a rank sends to itself, which gloo refuses (PyTorch 2.11).
"""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

SHAPE = (4, 128, 384)
times = []  # of computations: begin and end


def take(seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    times.append((begin, time.monotonic_ns()))


class SleepsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        take(ctx.seconds)
        return gradient.contiguous(), None  # that of a sum is one number, expanded


class SleepingStage(torch.nn.Module):
    """Two paths to the output, one from the input and one from the weight, so that each gradient costs its own."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        take(self.seconds)
        weight = SleepsInBackward.apply(self.weight, self.seconds * 3 / 4)
        return SleepsInBackward.apply(x, self.seconds) + weight


def over_ranks(value, op):
    tensor = torch.tensor([value], dtype=torch.int64)
    dist.all_reduce(tensor, op=op)
    return tensor.item()


def make(name, rank, size, unit):
    kind, chunks = {
        "gpipe": (schedules.ScheduleGPipe, 1),
        "1f1b": (schedules.Schedule1F1B, 1),
        "interleaved": (schedules.ScheduleInterleaved1F1B, 2),
        "interleaved-zero-bubble": (schedules.ScheduleInterleavedZeroBubble, 2),
    }[name]
    total = size * chunks
    mine = [rank + i * size for i in range(chunks)]
    stages = []
    for stage in mine:
        seconds = unit * (10 + (3 * stage + 1) % 5) / 10 / chunks
        stages.append(PipelineStage(SleepingStage(seconds), stage, total, torch.device("cpu")))

    def loss(output, target):
        return output.sum() * 0 + 1

    microbatches = 4 * size
    return kind(stages[0] if chunks == 1 else stages, microbatches, loss_fn=loss), total - 1 in mine


def main():
    milliseconds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    names = ["gpipe", "1f1b", "interleaved", "interleaved-zero-bubble"]
    made = {name: make(name, rank, size, milliseconds * 1e-3) for name in names}
    batch = torch.zeros(4 * size * SHAPE[0], *SHAPE[1:])
    measured = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name, (schedule, is_last) in made.items():
            dist.barrier()
            times.clear()
            # The first stage's input needs no gradient; the twin computes it in all stages, so here too.
            inputs = (batch.clone().requires_grad_(),) if rank == 0 else ()
            schedule.step(*inputs, **({"target": batch} if is_last else {}))
            begin = over_ranks(min(one[0] for one in times), dist.ReduceOp.MIN)
            end = over_ranks(max(one[1] for one in times), dist.ReduceOp.MAX)
            if turn > 0:
                measured[name].append((end - begin) * 1e-6)
    if rank == 0:
        print(f"torch {torch.__version__}, {size} devices, {4 * size} microbatches")
        for name, took in measured.items():
            print(f"{name:24} measured {statistics.median(took):8.2f} ms ({min(took):.2f} to {max(took):.2f})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
