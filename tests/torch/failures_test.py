"""What goes wrong: a killed rank, timeouts, arguments that are refused. Users catch torch's own types of errors."""

import itertools
import os
import signal
import socket
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401

from ranks import run


def caught(call):
    """The error of a call, as (type, line, seconds)."""
    begin = time.monotonic()
    try:
        call()
    except Exception as error:
        return type(error), str(error), time.monotonic() - begin
    return None, "", time.monotonic() - begin


def one_dies(rank, size):
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return caught(lambda: dist.all_reduce(tensor))


def one_dies_while_others_wait(rank, size):
    if rank == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future()
    outcome = caught(work.wait)
    return outcome + (caught(future.wait)[0],)


def one_is_late(rank, size):
    if rank == 1:
        time.sleep(2)
        return None
    options = dist.distributed_c10d.BarrierOptions()  # which torch 2.7 has, too
    options.timeout = timedelta(milliseconds=300)
    return caught(lambda: dist.distributed_c10d._get_default_group().barrier(opts=options).wait())


def wait_is_short(rank, size):
    tensor = torch.ones(10)
    if rank == 1:
        time.sleep(1)
    work = dist.all_reduce(tensor, async_op=True)
    outcome = caught(lambda: work.wait(timedelta(milliseconds=100))) if rank == 0 else None
    work.wait()  # it has gone on
    return outcome, tensor.tolist()


def different_counts(rank, size):
    return caught(lambda: dist.all_reduce(torch.ones(10 + rank)))


def bad_arguments(rank, size):
    float8 = torch.zeros(4, dtype=torch.float8_e4m3fn)
    return [
        caught(lambda: dist.all_reduce(float8)),
        caught(lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND)),
        caught(lambda: dist.all_gather_into_tensor(torch.zeros(3), torch.zeros(3))),
        caught(lambda: dist.all_to_all_single(torch.zeros(3 * size), torch.zeros(3 * size), [1] * size, [3] * size)),
        caught(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=dist.ReduceOp.AVG)),
    ]


def a_closed_group(rank, size):
    group = dist.new_group()
    backend = group._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group(group)
    return caught(lambda: backend.allreduce([torch.ones(1)], dist.AllreduceOptions()))


def a_barrier_that_says_who(rank, size):
    if rank != 0:
        if rank == size - 1:
            time.sleep(1.5)
        return caught(lambda: dist.group.WORLD.monitored_barrier(timedelta(milliseconds=500), wait_all_ranks=True)) if rank != size - 1 else None
    return caught(lambda: dist.group.WORLD.monitored_barrier(timedelta(milliseconds=500), wait_all_ranks=True))


def passes_barrier(seconds, sleeps):
    """The error of a monitored barrier of so many seconds, which this rank comes to after sleeping; nothing where it does not come."""
    if sleeps is None:
        time.sleep(2.5 * seconds)
        return None
    time.sleep(sleeps)
    return caught(lambda: dist.group.WORLD.monitored_barrier(timedelta(seconds=seconds)))


def a_barrier_whose_rank_0_is_late(rank, size):
    outcome = passes_barrier(1, (0.8, 0, None)[rank])
    dist.barrier()  # the group is intact
    return outcome


def a_barrier_without_rank_0(rank, size):
    outcome = passes_barrier(0.5, (None, 0, 0)[rank])
    return outcome if rank else caught(lambda: dist.group.WORLD.monitored_barrier(timedelta(milliseconds=500)))


def a_late_rank(rank, size, late, store):
    """A group of which one rank is late by more than the time after which weft looks who has gone."""
    base = dist.TCPStore("127.0.0.1", port_of(rank), size, rank == 0) if store == "tcp" else dist.distributed_c10d._get_default_store()
    if rank == late:
        time.sleep(1.2)
    backend = weft.torch._C.connect(dist.PrefixStore("late", base), rank, size, timedelta(seconds=30), "late", list(range(size)))
    tensor = torch.ones(2)
    backend.allreduce([tensor], dist.AllreduceOptions()).wait()
    dist.barrier()
    return tensor.tolist()


def port_of(rank):
    """A port that rank 0 has found free."""
    port = torch.zeros(1, dtype=torch.int64)
    if rank == 0:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port[0] = free.getsockname()[1]
    dist.broadcast(port, 0)
    return int(port)


def one_leaves_before_the_others(rank, size, wire, keeps):
    """The last rank leaves well; what the others get. DDP keeps its group for longer than the program."""
    if wire:
        os.environ["WEFT_HOST_ID"], os.environ["WEFT_TRANSPORT"] = f"node {rank}", wire
    group = dist.new_group(list(range(size)))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group) if keeps else None
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=group)
    if rank == size - 1:
        dist.destroy_process_group(group)
        del group
        dist.barrier()  # a process that has ended would be something else
        return model is not None
    outcome = caught(lambda: model(torch.ones(2, 4)).sum().backward() if keeps else dist.all_reduce(tensor, group=group))
    dist.barrier()
    return outcome


def one_ends_with_an_exception(rank, size):
    """A rank whose program fails destroys its group on the way out."""
    group = dist.new_group(list(range(size)))
    dist.all_reduce(torch.ones(4), group=group)
    outcome = None
    if rank == 1:
        try:
            try:
                raise KeyError("no such batch")
            finally:
                dist.destroy_process_group(group)
        except KeyError:
            pass
    else:
        outcome = caught(lambda: dist.all_reduce(torch.ones(4), group=group))
    dist.barrier()
    return outcome


class Failures(unittest.TestCase):
    def test_a_rank_whose_exception_destroys_its_group_says_which(self):
        for kind, line, _ in (outcome for outcome in run(one_ends_with_an_exception, 3) if outcome):
            self.assertIs(kind, dist.DistBackendError, line)
            self.assertIn("KeyError: 'no such batch'", line)
            self.assertNotIn("without an error", line)

    def test_a_rank_that_left_well_is_said_to_have_left(self):
        for wire, keeps in itertools.product(("", "tcp", "ucx"), (False, True)):
            if wire.upper() not in weft.torch.built_with():
                continue
            for size in (2, 3):
                with self.subTest(wire=wire, keeps=keeps, size=size):
                    outcomes = run(one_leaves_before_the_others, size, wire=wire, keeps=keeps)[:-1]
                    for kind, line, _ in outcomes:
                        self.assertTrue(issubclass(kind, RuntimeError), line)
                        self.assertIn(f"rank {size - 1} has left the communicator without an error", line)
                        self.assertNotIn("GradientReducer", line)
                    self.assertTrue(any("join()" in line for _, line, _ in outcomes), outcomes)

    def test_a_group_waits_for_a_late_rank_over_any_store(self):
        for store in ("file", "tcp"):
            for late in range(3):
                with self.subTest(store=store, late=late):
                    self.assertEqual(run(a_late_rank, 3, late=late, store=store), [[3.0, 3.0]] * 3)

    def test_a_killed_rank_ends_the_others_with_its_name(self):
        for body in (one_dies, one_dies_while_others_wait):
            for size in (2, 3):
                results = run(body, size, may_die=(1,))
                for rank in (rank for rank in range(size) if rank != 1):
                    kind, line, seconds = results[rank][:3]
                    self.assertIs(kind, dist.DistBackendError, line)
                    self.assertIn("rank 1", line)
                    self.assertLess(seconds, 5)
        self.assertIs(results[0][3], dist.DistBackendError)

    def test_a_timeout_of_one_call_names_who_is_missing(self):
        kind, line, seconds = run(one_is_late, 2)[0]
        self.assertIs(kind, dist.DistBackendError, line)
        self.assertIn("rank 1", line)
        self.assertIn("Timed out", line)
        self.assertLess(seconds, 1.5)

    def test_a_wait_that_is_too_short_leaves_the_operation_alone(self):
        results = run(wait_is_short, 2)
        self.assertIs(results[0][0][0], dist.DistBackendError)
        for _, values in results:
            self.assertEqual(values, [2.0] * 10)

    def test_different_counts_are_told_on_every_rank(self):
        for kind, line, _ in run(different_counts, 2):
            self.assertIs(kind, dist.DistBackendError, line)
            self.assertIn("10", line)
            self.assertIn("11", line)

    def test_what_cannot_be_done_is_refused_with_what_to_do(self):
        for outcomes in run(bad_arguments, 2):
            for kind, line, _ in outcomes:
                self.assertIn(kind, (ValueError, NotImplementedError), line)
                self.assertTrue(line)

    def test_a_destroyed_group_says_so(self):
        for kind, line, _ in run(a_closed_group, 2):
            self.assertIs(kind, dist.DistBackendError)
            self.assertIn("closed", line)

    def test_a_monitored_barrier_names_the_missing_and_breaks_nothing(self):
        results = run(a_barrier_that_says_who, 3)
        for kind, line, _ in results[:2]:
            self.assertIs(kind, dist.DistBackendError)
            self.assertIn("Rank 2 failed to pass monitoredBarrier", line)

    def test_a_monitored_barrier_whose_rank_0_is_late_does_not_name_it(self):
        late, early, _ = run(a_barrier_whose_rank_0_is_late, 3)
        for kind, line, _ in (late, early):
            self.assertIs(kind, dist.DistBackendError)
            self.assertIn("Rank 2 failed to pass monitoredBarrier in 1000 ms", line)
        self.assertIn("Rank 1 successfully reached monitoredBarrier", early[1])

    def test_a_monitored_barrier_without_rank_0_names_it_and_rank_0_hears_of_who_gave_up(self):
        later, *others = run(a_barrier_without_rank_0, 3)
        for kind, line, _ in others:
            self.assertIs(kind, dist.DistBackendError)
            self.assertIn("Rank 0 failed to pass monitoredBarrier in 500 ms", line)
        self.assertIn("Rank 1 failed to pass monitoredBarrier in 500 ms", later[1])


if __name__ == "__main__":
    unittest.main()
