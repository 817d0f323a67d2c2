"""Ctrl-C in a wait for ranks that do not come: every blocking call ends with what Python's handler raises, and the process with it."""

import os
import signal
import sys
import tempfile
import time
import traceback
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch

import calls

LATER = timedelta(seconds=200)  # the group's deadline


def waits(what, rank, size, say):
    """Rank 0 waits for others in vain."""
    if what == "barrier":
        dist.barrier()
    elif what == "monitored barrier":
        dist.group.WORLD.monitored_barrier(LATER)
    elif what == "destroy":
        dist.all_reduce(torch.ones(4), async_op=True)
        dist.destroy_process_group()
    elif what == "new group":
        dist.new_group(list(range(size)))
    elif what == "with a future":
        dist.all_reduce(torch.ones(4), async_op=True).get_future()
        dist.all_reduce(torch.ones(4))
    elif what == "compress":
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64), init_sync=False)
        weft.torch.compress(model, "powersgd", rank=1, start_step=0)
        model(torch.ones(1, 64)).sum().backward()
    elif what == "handler":
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        say(f"sum {int(tensor[0])}")
        dist.barrier()
    else:
        case = calls.Case(dist.group.WORLD, rank, size, asynchronous="async" in what)
        getattr(calls, what.split()[0])(case)[0].wait()


class Rank:
    """A process forked from this one, so that torch is imported once, whose main thread ends as a program's does."""

    def __init__(self, what, rank, size, folder, environment):
        self.words, theirs = os.pipe()
        go_on, self.go_on = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid != 0:
            os.close(theirs)
            os.close(go_on)
            self.file = os.fdopen(self.words)
            return
        os.environ.update(environment)
        code = 0
        try:
            self.carry_out(what, rank, size, folder, lambda word: os.write(theirs, f"{word}\n".encode()), go_on)
        except BaseException as error:
            os.write(theirs, f"{type(error).__name__}\n".encode())
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
            if code == 1:
                traceback.print_exc()
        # What Python does at the end of a program: its handlers of the end, and the objects that are left.
        weft.torch._C.stop()
        dist.distributed_c10d._world.pg_map.clear()
        dist.distributed_c10d._update_default_pg(None)
        os._exit(code)

    @staticmethod
    def carry_out(what, rank, size, folder, say, go_on):
        torch.set_num_threads(1)
        if what == "init":
            say("waits")
        dist.init_process_group("weft", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=LATER)
        dist.barrier()
        if what == "handler":
            signal.signal(signal.SIGINT, lambda *_: say("handled"))
        say("waits")
        if rank == 0:
            return waits(what, rank, size, say)
        os.read(go_on, 1)
        if what == "handler":
            dist.all_reduce(torch.ones(4))
            dist.barrier()

    def line(self):
        return self.file.readline().rstrip()

    def ended(self):
        """Its exit code; none after a minute."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        return None

    def end(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.file.close()
        os.close(self.go_on)


class Interrupts(unittest.TestCase):
    def ranks(self, what, size=2, starts=None, wire=None):
        """Those that are started, which wait; over a wire each is a node."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ranks = [Rank(what, rank, size, folder.name, {"WEFT_TRANSPORT": wire, "WEFT_HOST_ID": f"node {rank}"} if wire else {})
                 for rank in (starts or range(size))]
        for rank in ranks:
            self.addCleanup(rank.end)
        for rank in ranks:
            self.assertEqual(rank.line(), "waits", what)
        return ranks

    def interrupted(self, rank, what):
        time.sleep(0.1)  # most likely it waits by now; if not, it ends as well
        os.kill(rank.pid, signal.SIGINT)
        code = rank.ended()
        self.assertIsNotNone(code, f"{what}: it still waits, a minute after SIGINT")
        self.assertEqual((rank.line(), code), ("KeyboardInterrupt", 130), what)

    def test_every_call_that_blocks(self):
        names = [call.__name__ for call in calls.ALL if call not in (calls.broadcast, calls.scatter)]
        for what in names + ["barrier", "monitored barrier", "destroy", "new group", "with a future", "compress", "all_reduce async"]:
            with self.subTest(what=what):
                self.interrupted(self.ranks(what)[0], what)

    def test_while_ranks_meet(self):
        for starts in ([0], [1]):
            with self.subTest(starts=starts):
                self.interrupted(self.ranks("init", 3, starts)[0], "init")

    def test_over_a_wire(self):
        for wire in ("tcp", "ucx"):
            if wire.upper() in weft.torch.built_with():
                self.interrupted(self.ranks("all_reduce", wire=wire)[0], wire)

    def test_a_handler_runs_and_the_wait_goes_on(self):
        first, second = self.ranks("handler")
        time.sleep(0.1)
        os.kill(first.pid, signal.SIGINT)
        self.assertEqual(first.line(), "handled")
        os.write(second.go_on, b"\n")
        self.assertEqual(first.line(), "sum 2")
        self.assertEqual(first.ended(), 0)


if __name__ == "__main__":
    unittest.main()
