"""What dist.all_reduce of CUDA tensors costs over weft and over ProcessGroupNCCL, on two ranks of one GPU: a JSON object a line.

    device_costs.py                 both, in turn, each in processes of its own
    device_costs.py --only weft

Microseconds a call: until it is handed over (the thread that calls; nothing waits), and until the device has done all of them. Medians of rounds.
Over an emulated CUDA (tests/torch/torch_test.sh emulated device_costs.py) it says whether it runs.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

try:
    import weft.torch

    EMULATED = weft.torch.cuda_tensors().startswith("EMULATED")
except ImportError:
    EMULATED = False
import ranks

DEVICE = torch.device("cpu" if EMULATED else "cuda:0")
BYTES = (1024,) if EMULATED else (1 << 10, 1 << 20, 1 << 26)
CALLS = {1 << 10: 100, 1 << 20: 50, 1 << 26: 5}
ROUNDS = 3 if EMULATED else 15


def synchronize():
    if not EMULATED:
        torch.cuda.synchronize()


def measured(rank, call, count):
    """Medians over rounds of both times, in microseconds."""
    handed, done = [], []
    for _ in range(ROUNDS):
        dist.barrier()
        synchronize()
        begin = time.perf_counter()
        works = [call() for _ in range(count)]
        between = time.perf_counter()
        for work in works:
            if work is not None:
                work.wait()
        synchronize()
        handed.append((between - begin) * 1e6 / count)
        done.append((time.perf_counter() - begin) * 1e6 / count)
    return statistics.median(handed), statistics.median(done)


def costs(rank, size):
    os.environ["NCCL_HOSTID"] = f"weft-{rank}"  # NCCL below 2.30.3 takes two ranks on one device where their hosts differ
    if not EMULATED:
        torch.cuda.set_device(0)
    rows = []
    for size_in_bytes in BYTES:
        tensor = torch.ones(size_in_bytes // 4, device=DEVICE)
        for how, call in (("awaited by the stream", lambda: dist.all_reduce(tensor)),
                          ("async", lambda: dist.all_reduce(tensor, async_op=True))):
            for _ in range(3):
                work = call()
                if work is not None:
                    work.wait()
            handed, done = measured(rank, call, CALLS[size_in_bytes])
            rows.append({"bytes": size_in_bytes, "how": how, "us_handed_over": round(handed, 2), "us_done": round(done, 2)})
            tensor.fill_(1)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["weft", "nccl"], help="one of them alone")
    options = parser.parse_args()
    backends = ["weft"] if EMULATED else ["weft", "nccl", "weft", "nccl"]
    failed = 0
    for backend in backends:
        if options.only in (None, backend):
            try:
                for row in ranks.run(costs, 2, backend, timeout=50)[0]:
                    print(json.dumps({"figure": "torch all_reduce", "backend": backend, **row}), flush=True)
            except AssertionError as error:
                failed = 1
                print(f"{backend}: {error}", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
