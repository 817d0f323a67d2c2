"""What the examples share: their options, and that one that was started alone starts again as two ranks of this machine."""

import argparse
import os
import sys


class Options(argparse.ArgumentParser):
    """Whose wrong use ends with 42, which weft-launch does not start again; argparse has 2."""

    def __init__(self, description):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(42, f"{self.prog}: {message}\n")


def as_two_ranks():
    """Under torchrun it does nothing; else torchrun takes this process's place and starts the same program."""
    if "RANK" not in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        os.execv(sys.executable, run + sys.argv)
