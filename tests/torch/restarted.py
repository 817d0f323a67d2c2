"""A rank that torchrun starts again: all sum, one ends, the others hear of it and end, too; in the last attempt all sum twice.

usage: torchrun ... restarted.py VICTIM TIMES MOMENT HOW     VICTIM ends in its agent's first TIMES attempts; MOMENT: meet, sum; HOW: kill, exit, raise
"""

import os
import random
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401

victim, times, moment, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rank = int(os.environ["RANK"])


def may_end(now: str) -> None:
    if now != moment or rank != victim or int(os.environ["TORCHELASTIC_RESTART_COUNT"]) >= times:
        return
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise RuntimeError("the victim ends")
    os._exit(3)


def all_sum() -> None:
    ones = torch.ones(1000)
    dist.all_reduce(ones)
    assert ones.tolist() == [dist.get_world_size()] * 1000


time.sleep(random.random() * float(os.environ.get("MOST_LATE", "0.5")))
may_end("meet")
dist.init_process_group(os.environ.get("BACKEND", "weft"), timeout=timedelta(seconds=60))
all_sum()
part = dist.new_group(list(range(dist.get_world_size())))
may_end("sum")
all_sum()
ones = torch.ones(1)
dist.all_reduce(ones, group=part)
assert ones.item() == dist.get_world_size()
print(f"rank {rank} finished", flush=True)
dist.destroy_process_group()
