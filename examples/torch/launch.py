"""Starts an example that was started alone again, as two ranks of this machine."""

import os
import sys


def as_two_ranks():
    """Under torchrun it does nothing; else torchrun takes this process's place and starts the same program."""
    if "RANK" not in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        os.execv(sys.executable, run + sys.argv)
