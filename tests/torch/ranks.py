"""Ranks as processes for tests: forked, so that torch is imported once; each in a group of its own."""

import os
import pathlib
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

torch.set_num_threads(1)


def run(body, size: int, backend: str = "weft", timeout: float = 60, may_die=(), **arguments):
    """Runs body(rank, size, **arguments) on `size` ranks of a group and returns what each returned.

    The first failure is raised again, with the rank's traceback; a rank of `may_die` may end as it likes (None). All are killed after `timeout`
    seconds, which is a failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        children = []
        sys.stdout.flush()
        for rank in range(size):
            child = os.fork()
            if child == 0:
                _child(body, rank, size, backend, folder, timeout, arguments)
            children.append(child)
        return _gather(children, folder, timeout, may_die)


def _child(body, rank, size, backend, folder, timeout, arguments):
    code = 0
    # After a fork torch makes its pool of threads anew at the first use, without a lock: two threads of autograd that begin at once end the process.
    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
        torch.save(body(rank, size, **arguments), f"{folder}/result{rank}")
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        with open(f"{folder}/error{rank}", "w") as file:
            traceback.print_exc(file=file)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _look_at(child, rank, codes):
    """Whether it has ended; then its status is in `codes`."""
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        codes[rank] = status
    return bool(done)


def _gather(children, folder, timeout, may_die):
    deadline = time.monotonic() + timeout
    codes = {}
    while len(codes) < len(children):
        for rank, child in enumerate(children):
            if rank in codes:
                continue
            _look_at(child, rank, codes)
        if time.monotonic() > deadline or any(code != 0 and rank not in may_die for rank, code in codes.items()):
            time.sleep(0.5 if codes else 0)
            for rank, child in enumerate(children):
                if rank in codes:
                    continue
                if _look_at(child, rank, codes):
                    continue
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                codes[rank] = "was killed at the end"
        time.sleep(0.001)
    for rank in sorted(codes, key=lambda rank: codes[rank] == "was killed at the end"):
        if codes[rank] != 0 and rank not in may_die:
            path = f"{folder}/error{rank}"
            why = pathlib.Path(path).read_text() if os.path.exists(path) else f"ended with {codes[rank]}"
            raise AssertionError(f"rank {rank} of {len(children)}: {why}")
    return [torch.load(f"{folder}/result{rank}", weights_only=False) if os.path.exists(f"{folder}/result{rank}") else None
            for rank in range(len(children))]


def over_both(body, size: int, **arguments):
    """The results by rank over gloo and over weft."""
    return run(body, size, "gloo", **arguments), run(body, size, "weft", **arguments)


def group_backend(group=None):
    """weft's object behind a group."""
    return (group or dist.distributed_c10d._get_default_group())._get_backend(torch.device("cpu"))
