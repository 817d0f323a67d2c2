"""Memory lives as long as its transfer, whoever drops the work, and no longer: every call of the backend, on 2 and 3 ranks."""

import gc
import os
import subprocess
import sys
import tempfile
import time
import unittest

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401
from torch.multiprocessing.reductions import StorageWeakRef

import calls
from ranks import group_backend, run

CANARY = -7.0


def storages(tensors):
    return [StorageWeakRef(part.untyped_storage()) for tensor in tensors
            for part in ([tensor._indices(), tensor._values()] if tensor.is_sparse else [tensor])]


def dropped(rank, size, names, rounds, count, asynchronous=False, group=None):
    """What each call overwrote that was not its own, and whether its memory came back."""
    found = []
    for name in names:
        canaries, kept = [], []
        for seed in range(rounds):
            case = calls.Case(group or dist.group.WORLD, rank, size, seed, count, asynchronous)
            work, written, _, read = getattr(calls, name)(case)
            kept += storages(written + read)
            del work, written, read
            canaries += [torch.full((max(count + part, 1),), CANARY) for part in (0, 0, 1, 2)]  # where what was dropped lay, if it was freed
        dist.barrier(group)
        spoiled = sum(not torch.equal(each, torch.full_like(each, CANARY)) for each in canaries)
        deadline = time.monotonic() + 20
        while any(not storage.expired() for storage in kept) and time.monotonic() < deadline:
            time.sleep(0.001)
        found.append((name, spoiled, sum(not storage.expired() for storage in kept)))
    return found


def dropped_work_of_a_kept_tensor(rank, size):
    """The results of calls whose works were dropped at once."""
    found = []
    for call in calls.ALL:
        for count in (64, 100_000):
            case = calls.Case(dist.group.WORLD, rank, size, count, count)
            work, written, expected, _ = call(case)
            del work
            deadline = time.monotonic() + 20
            while calls.wrong(written, expected) and time.monotonic() < deadline:
                time.sleep(0.001)
            found.append((call.__name__, calls.wrong(written, expected)))
            dist.barrier()
    return found


def a_view_that_is_not_contiguous(rank, size):
    """What was dropped is still copied to where it belongs."""
    whole = torch.full((100, 2), float(rank + 1))
    options = dist.AllreduceOptions()
    options.asyncOp = False
    dist.group.WORLD.allreduce([whole[:, 0]], options)
    deadline = time.monotonic() + 20
    while whole[0, 0] != sum(range(size + 1)) and time.monotonic() < deadline:
        time.sleep(0.001)
    dist.barrier()
    return whole.sum(0).tolist()


def dropped_before_the_group_ends(rank, size):
    """Nothing of what was dropped holds up the end, or is given up by it."""
    for round_ in range(5):
        group = dist.new_group(list(range(size)))
        for call in calls.ALL:
            call(calls.Case(group, rank, size, round_))
        if rank == 0:
            time.sleep(0.02)
        backend = group_backend(group)
        dist.destroy_process_group(group)
        del group
    gc.collect()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor.tolist(), backend.operations


def dropped_while_a_group_is_aborted(rank, size):
    """A call that the others never take part in, dropped, and its group aborted: its memory comes back."""
    group = dist.new_group(list(range(size)))
    kept = []
    if rank == 0:
        for call in calls.ALL:
            try:
                _, written, _, read = call(calls.Case(group, rank, size))
                kept += storages(written + read)
                del written, read
            except dist.DistBackendError:
                pass
        group_backend(group).abort()
        deadline = time.monotonic() + 20
        while any(not each.expired() for each in kept) and time.monotonic() < deadline:
            time.sleep(0.001)
    left = sum(not each.expired() for each in kept)
    dist.barrier()
    return len(kept), left


def each_a_node(rank, size, wire, names):
    """In a group of ranks that share no memory."""
    os.environ["WEFT_HOST_ID"] = f"node {rank}"
    os.environ["WEFT_TRANSPORT"] = wire
    group = dist.new_group(list(range(size)))
    assert wire.upper() in group_backend(group).transport, group_backend(group).transport
    return dropped(rank, size, names, 10, 64, group=group) + dropped(rank, size, names, 2, 100_000, group=group)


def futures_are_asked_for(rank, size):
    """While the thread of progress lets go of tensors, for which it waits for Python's lock: this thread keeps that for 2 ms."""
    for _ in range(100):
        work = dist.all_gather_into_tensor(torch.ones(4 * size), torch.ones(4), async_op=True)
        sparse = dist.all_reduce(torch.eye(4).to_sparse(), async_op=True)
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            sparse.is_completed()
        for one in (work, sparse):
            one.get_future()
            one.is_completed()
        del work, sparse
    return True


# The program ends in the middle of its calls: without waiting, with works kept or dropped, with or without destroy_process_group(). No
# rank ends before the other has made its calls: a call after a rank has ended is refused.
AT_THE_END = """
import pathlib, sys, time
sys.path.insert(0, {tests!r})
import torch, torch.distributed as dist
import weft.torch
import calls
rank, size, folder, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group("weft", init_method="file://" + folder + "/store", rank=rank, world_size=size)
dist.barrier()
kept = []
for call in calls.ALL if rank == 0 or "both" in how else ():
    for count in (64, 300_000):
        made = call(calls.Case(dist.group.WORLD, rank, size, 0, count, "async" in how))
        if "kept" in how:
            kept.append(made)
made = None
have_called = [pathlib.Path(folder, "called " + str(each)) for each in range(size)]
have_called[rank].touch()
while not all(each.exists() for each in have_called):
    time.sleep(0.001)
if "destroyed" in how and "both" in how:
    dist.destroy_process_group()
print("ends", flush=True)
"""


class Lifetimes(unittest.TestCase):
    def test_a_thread_that_has_pythons_lock_does_not_wait_for_one_that_wants_it(self):
        self.assertEqual(run(futures_are_asked_for, 2), [True] * 2)

    def test_a_program_may_end_in_the_middle(self):
        program = AT_THE_END.format(tests=os.path.dirname(os.path.abspath(__file__)))
        for how in ("dropped by one", "kept by one", "async kept by one", "dropped by both", "kept by both", "async dropped by both", "dropped by both, destroyed",
                    "async kept by both, destroyed"):
            with self.subTest(how=how), tempfile.TemporaryDirectory() as folder:
                ranks = [subprocess.Popen([sys.executable, "-c", program, str(rank), "2", folder, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                         for rank in range(2)]
                for process in ranks:
                    out, error = process.communicate(timeout=120)
                    self.assertEqual((out, process.returncode), ("ends\n", 0), error)

    def hold(self, results):
        for rank, found in enumerate(results):
            for name, spoiled, left in found:
                self.assertEqual((spoiled, left), (0, 0), f"{name}, rank {rank}: canaries overwritten, and storages that stay")

    def test_what_a_caller_drops_lives_until_it_is_over(self):
        names = [call.__name__ for call in calls.ALL]
        for size in (2, 3):
            self.hold(run(dropped, size, names=names, rounds=20, count=64))
            self.hold(run(dropped, size, names=names, rounds=3, count=100_000))
            self.hold(run(dropped, size, names=names, rounds=10, count=64, asynchronous=True))

    def test_a_dropped_work_gives_its_results(self):
        for found in run(dropped_work_of_a_kept_tensor, 3):
            self.assertEqual([each for each in found if each[1]], [])
        for sums in run(a_view_that_is_not_contiguous, 2):
            self.assertEqual(sums[0], 300)

    def test_a_group_ends_with_what_was_dropped(self):
        for values, operations in run(dropped_before_the_group_ends, 3):
            self.assertEqual(values, [3.0] * 3)
            self.assertGreaterEqual(operations, len(calls.ALL))
        for kept, left in run(dropped_while_a_group_is_aborted, 2):
            self.assertEqual(left, 0, f"of {kept}")

    def test_over_a_wire_between_nodes(self):
        names = [call.__name__ for call in calls.BETWEEN_NODES]
        for wire in ("tcp", "ucx"):
            if wire.upper() not in weft.torch.built_with():
                continue
            self.hold(run(each_a_node, 2, wire=wire, names=names))


if __name__ == "__main__":
    unittest.main()
