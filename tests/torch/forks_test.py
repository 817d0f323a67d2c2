"""A process that is forked while its parent has groups: what it calls in them is refused, makes groups of its own, and ends without a trace in the parent."""

import gc
import os
import signal
import tempfile
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch

from ranks import run


def refused(call):
    try:
        work = call()
        if work is not None:
            work.wait()
    except Exception as error:
        return str(error)
    return "nothing"


def calls(size, group=None):
    """Each call that communicates, by its name."""
    one = torch.full((1000,), 100.0)
    parts = [torch.zeros(1000) for _ in range(size)]
    peer = (dist.get_rank() + 1) % size
    return {
        "all_reduce": lambda: dist.all_reduce(one, group=group),
        "async": lambda: dist.all_reduce(one, group=group, async_op=True),
        "broadcast": lambda: dist.broadcast(one, 0, group=group),
        "reduce": lambda: dist.reduce(one, 0, group=group),
        "all_gather": lambda: dist.all_gather(parts, one, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(torch.zeros(1000 * size), one, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(torch.zeros(1000), torch.zeros(1000 * size), group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.zeros(size), torch.zeros(size), group=group),
        "gather": lambda: dist.gather(one, parts if dist.get_rank() == 0 else None, 0, group=group),
        "scatter": lambda: dist.scatter(one, parts if dist.get_rank() == 0 else None, 0, group=group),
        "barrier": lambda: dist.barrier(group=group),
        "monitored_barrier": lambda: dist.monitored_barrier(group=group, timeout=timedelta(seconds=5)),
        "send": lambda: dist.send(one, peer, group=group),
        "recv": lambda: dist.recv(one, peer, group=group),
        "isend": lambda: dist.isend(one, peer, group=group),
        "objects": lambda: dist.all_gather_object([None] * size, "child", group=group),
    }


def in_a_child(body, seconds=60):
    """What body() returns in a child; the status that it ended with, where it could not say."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            signal.alarm(seconds)
            torch.save(body(), folder + "/said")
            weft.torch._C.stop()  # as at the end of a program
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return torch.load(folder + "/said", weights_only=False) if status == 0 else status


def sums(size, group=None):
    ones = torch.ones(1000)
    dist.all_reduce(ones, group=group)
    later = torch.ones(1000)
    dist.all_reduce(later, group=group, async_op=True).wait()
    return [ones.unique().tolist(), later.unique().tolist()]


def a_child_calls_all(rank, size):
    part = dist.new_group(list(range(size)))
    before = sums(size) + sums(size, part)
    dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()  # the threads of progress run
    said = None
    if rank == 1:
        said = in_a_child(lambda: {name: refused(call) for group in (None, part) for name, call in calls(size, group).items()})
    return before, said, sums(size) + sums(size, part), os.getpid()


def a_child_ends_with_all(rank, size, ended):
    """It drops works and groups of its parent's, which are under way until it has ended."""
    work = dist.all_reduce(torch.ones(1000), async_op=True) if rank == 1 else None
    tensor = torch.zeros(1000)
    message = dist.irecv(tensor, 0) if rank == 1 else None

    def body():
        said = refused(lambda: message)
        nonlocal work
        work = None
        gc.collect()
        dist.destroy_process_group()
        gc.collect()
        return said

    said = in_a_child(body) if rank == 1 else None
    if rank == 1:
        open(ended, "w").close()
    if rank == 0:
        while not os.path.exists(ended):
            time.sleep(0.01)
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        dist.send(torch.full((1000,), 7.0), 1)
    work.wait()
    if rank == 1:
        message.wait()
    return said, tensor.unique().tolist(), sums(size)


def children_make_their_own(rank, size, store):
    def body():
        dist.destroy_process_group()
        dist.init_process_group("weft", init_method="file://" + store, rank=rank, world_size=size, timeout=timedelta(seconds=30))
        said = sums(size) + [dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda one: one.value()[0].tolist()).wait()]
        dist.destroy_process_group()
        return said

    return in_a_child(body), sums(size)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.tensor(float(index))


def workers_load_data(rank, size):
    total = torch.zeros(1)
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
        dist.all_reduce(batch)
        total += batch.sum()
    return total.item()


def a_child_drops_what_the_caller_would_wait_for(rank, size, ended):
    """A synchronous call under way, whose work the child drops: how many threads it begins for that, and the parent's sum."""
    options = dist.AllreduceOptions()
    options.asyncOp = False
    tensor = torch.ones(1000)
    if rank == 0:
        while not os.path.exists(ended):
            time.sleep(0.01)
        dist.all_reduce(tensor)
        return 0, tensor.unique().tolist()
    held = [dist.group.WORLD.allreduce([tensor], options)]

    def drop():
        before = len(os.listdir("/proc/self/task"))
        held.clear()
        gc.collect()
        return len(os.listdir("/proc/self/task")) - before

    threads = in_a_child(drop)
    open(ended, "w").close()
    held[0].wait()
    return threads, tensor.unique().tolist()


class Forks(unittest.TestCase):
    def test_a_child_that_drops_a_call_of_its_parent_leaves_it_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for threads, values in run(a_child_drops_what_the_caller_would_wait_for, 2, ended=folder + "/ended"):
                self.assertEqual((threads, values), (0, [2.0]))

    def test_what_a_child_calls_is_refused_and_says_whose_it_is(self):
        for size in (2, 3):
            said = run(a_child_calls_all, size)
            right = [[float(size)]] * 4
            for before, _, after, _ in said:
                self.assertEqual((before, after), (right, right))
            self.assertIsInstance(said[1][1], dict)
            for name, line in said[1][1].items():
                self.assertRegex(line, rf"process \d+ uses group .* of process {said[1][3]}, rank 1 of {size}, which forked it", name)

    def test_a_child_that_drops_its_parents_works_and_groups_disturbs_none(self):
        with tempfile.TemporaryDirectory() as folder:
            said = run(a_child_ends_with_all, 2, ended=folder + "/ended")
        self.assertRegex(said[1][0], "which forked it")
        self.assertEqual(said[1][1], [7.0])
        for _, _, after in said:
            self.assertEqual(after, [[2.0]] * 2)

    def test_children_make_groups_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            for said, after in run(children_make_their_own, 2, store=folder + "/store"):
                self.assertEqual(said, [[2.0], [2.0], [2.0] * 3])
                self.assertEqual(after, [[2.0]] * 2)

    def test_workers_of_a_data_loader(self):
        self.assertEqual(run(workers_load_data, 2), [2 * sum(range(40))] * 2)


if __name__ == "__main__":
    unittest.main()
