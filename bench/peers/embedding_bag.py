#!/usr/bin/env python3
"""torch.nn.EmbeddingBag, and FBGEMM's table-batched embedding where fbgemm_gpu is installed, at the work of bench_embedding: one core, 2,048 samples of 20
rows. FBGEMM's rule is row-wise AdaGrad, as that of bench_embedding; torch's is SGD on its sparse gradient, the cheapest that it has.

usage: embedding_bag.py [ROWS COLUMNS [ROUNDS]]    default: 4,000,000 rows of 64, 21 rounds
Prints million rows a second, median, least and greatest of the rounds."""

import statistics
import sys
import time

import torch

SAMPLES, ROWS_OF_SAMPLE = 2048, 20


def rates(name, seconds):
    count = SAMPLES * ROWS_OF_SAMPLE * 1e-6
    print(f"{name:36} {count / statistics.median(seconds):7.1f} million rows a second ({count / max(seconds):.1f} to {count / min(seconds):.1f})")


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def torch_bag(rows, columns):
    bag = torch.nn.EmbeddingBag(rows, columns, mode="sum", sparse=True, include_last_offset=True)
    optimizer = torch.optim.SGD(bag.parameters(), lr=0.01)
    state = {}

    def forward(indices, offsets):
        state["out"] = bag(indices, offsets)

    def step(gradient):
        state["out"].backward(gradient)
        optimizer.step()
        optimizer.zero_grad()

    return forward, step


def fbgemm(rows, columns):
    try:
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen
    except ImportError as error:
        print(f"fbgemm_gpu is not here: {error}")
        return None
    bags = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, columns, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.01, eps=1e-8, pooling_mode=PoolingMode.SUM,
    )
    state = {}

    def forward(indices, offsets):
        state["out"] = bags(indices, offsets)

    def step(gradient):
        state["out"].backward(gradient)

    return forward, step


def main():
    rows, columns, rounds = (int(x) for x in (sys.argv[1:] + ["4000000", "64", "21"][len(sys.argv) - 1 :]))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    gradient = torch.full((SAMPLES, columns), 1e-3)
    offsets = torch.arange(0, SAMPLES * ROWS_OF_SAMPLE + 1, ROWS_OF_SAMPLE)
    for name, make in (("torch.nn.EmbeddingBag", torch_bag), ("FBGEMM", fbgemm)):
        made = make(rows, columns)
        if made is None:
            continue
        forward, step = made
        seconds = {"forward": [], "step": []}
        for round_ in range(rounds + 1):
            indices = torch.randint(rows, (SAMPLES * ROWS_OF_SAMPLE,))
            forward_seconds = timed(lambda indices=indices: forward(indices, offsets))
            step_seconds = timed(lambda: step(gradient))
            if round_ > 0:
                seconds["forward"].append(forward_seconds)
                seconds["step"].append(step_seconds)
        for what, all_of_it in seconds.items():
            rates(f"{name} {what}", all_of_it)


main()
