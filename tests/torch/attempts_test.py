"""Groups in a store that keeps what earlier ones left: processes that make their group again, or were started again, and ranks that come late."""

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401

from ranks import run


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class KeptStore:
    """A process that keeps a store, as torchrun's agent does."""

    def __enter__(self):
        self.port = free_port()
        self.process = multiprocessing.get_context("fork").Process(target=self._keep, daemon=True)
        self.process.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()

    def _keep(self):
        store = dist.TCPStore("127.0.0.1", self.port, is_master=True, wait_for_workers=False)  # noqa: F841
        time.sleep(600)


def meets(port, rank, size):
    store = dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=60))
    dist.init_process_group("weft", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    ones = torch.ones(10)
    dist.all_reduce(ones)
    part = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        dist.all_reduce(ones, group=part)
    dist.monitored_barrier()
    return ones[0].item()


def makes_it_again(rank, size, port):
    dist.destroy_process_group()
    said = []
    for time_ in range(4):
        time.sleep(0.1 * ((rank + time_) % size))  # each comes first once
        said.append(meets(port, rank, size))
        dist.destroy_process_group()
    return said


def is_started_again(rank, size, port, attempt, first):
    dist.destroy_process_group()
    if rank != first:
        time.sleep(0.3)
    said = meets(port, rank, size)
    if attempt < 2 and rank == attempt:
        os.kill(os.getpid(), signal.SIGKILL)
    return said


LATE = """
    import datetime, sys
    import torch.distributed as dist
    import weft.torch
    store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False, wait_for_workers=False)
    try:
        dist.init_process_group("weft", store=store, rank=0, world_size=2, timeout=datetime.timedelta(seconds=3))
    except Exception as error:
        print("said:", error, flush=True)
"""


class Attempts(unittest.TestCase):
    def test_processes_make_their_group_again(self):
        with KeptStore() as kept:
            said = run(makes_it_again, 3, port=kept.port)
        self.assertEqual(said, [[6.0] * 4, [3.0] * 4, [6.0] * 4])

    def test_processes_are_started_again(self):
        with KeptStore() as kept:
            for attempt in range(3):
                for first in range(2):
                    said = run(is_started_again, 2, port=kept.port, attempt=attempt, first=first, may_die=(0, 1) if attempt < 2 else ())
                    survivors = [one for one in said if one is not None]
                    self.assertEqual(survivors, [4.0] * (2 if attempt == 2 else 1))

    def test_a_rank_that_does_not_come_is_named_and_the_log_is_quiet(self):
        # TCPStore's constructor would wait for the late rank: rank 0 keeps no store.
        with KeptStore() as kept:
            rank = subprocess.run([sys.executable, "-c", textwrap.dedent(LATE), str(kept.port)], capture_output=True, text=True, timeout=100)
        said = rank.stdout + rank.stderr
        self.assertRegex(said, r"said: weft: Timed out waiting: rank 0: rank 1 of 2 did not arrive within 3.0 s")
        self.assertIn("the timeout= argument of init_process_group", said)
        self.assertNotIn("WEFT_CONNECT_TIMEOUT", said)
        self.assertEqual(len(re.findall("weft:", said)), 1, said)
        self.assertNotIn("waitForInput", said)


if __name__ == "__main__":
    unittest.main()
