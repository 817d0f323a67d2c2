"""Works that are dropped, waited for too shortly, interrupted and garbage-collected at random, in groups that are aborted and destroyed meanwhile.

    drops.py [COUNT]     so many trials (1000), on 2, 3 and 4 ranks in turn, within a node, over TCP and over UCX; SEED=N begins elsewhere (1)

Every call of the backend (calls.py) is made on every trial's group. What its memory becomes when it is freed is taken at once by canaries, which must
stay as they are; results that are waited for, or whose tensors are kept, must be right where the group ends well. Memory comes back, and a
group whose works were dropped ends without an error. Run under the address sanitizer (tests/soak.sh torch_drops asan), it also sees reads.
"""

import functools
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401
from torch.multiprocessing.reductions import StorageWeakRef

import calls
from ranks import group_backend, run

AT_ONCE = 6  # trials that one start of the ranks carries out
ENDS = ("well", "well", "aborted", "destroyed", "disagrees")
CANARY = -7.0
LONG = 120  # what a group waits for; a rank waits half as long for what was dropped, so that it says what did not come before the others give up


class Interrupted(Exception):
    """What a signal handler raises in a wait."""


class Cycle:
    """What only the garbage collector frees."""

    def __init__(self, *kept):
        self.kept, self.itself = kept, self


def wait_for(holds, deadline):
    """Until it holds, or the deadline. What was dropped in a cycle may have to be collected first, and one gc.collect() is not enough: it does nothing while
    another thread collects. It keeps Python's lock all the while, which the thread that carries operations on needs to free a tensor: so not often."""
    turn = 0
    while not holds() and time.monotonic() < deadline:
        if turn % 10 == 0:
            gc.collect()
        turn += 1
        time.sleep(0.05)


class Drops:
    """One thread's calls in one group."""

    def __init__(self, group, rank, size, seed, is_main):
        self.group, self.rank, self.size, self.is_main = group, rank, size, is_main
        self.common, self.own = random.Random(f"calls {seed}"), random.Random(f"drops {seed} {rank}")
        self.seed, self.waiting, self.kept, self.canaries, self.storages = seed, [], [], [], []
        self.cycles, self.fails, self.wrong = [], False, []
        self.backend = group_backend(group)

    def memory(self, values):
        """Of torch, of weft's heap, or a view that is not contiguous."""
        kind = self.own.choice(["torch", "torch", "heap", "strided"])
        if kind == "heap":
            return self.backend.allocate_tensor(len(values), dtype=torch.float32, device=torch.device("cpu")).copy_(values)
        return torch.stack([values, values], 1)[:, 0] if kind == "strided" else values

    def canary(self, count):
        """Where what was dropped lay, if it was freed."""
        self.canaries.append(torch.full((count,), CANARY))
        self.canaries.append(self.backend.allocate_tensor(count, dtype=torch.float32, device=torch.device("cpu")).fill_(CANARY))

    def carry_out(self, operations):
        for number in range(operations):
            call = self.common.choice(calls.BETWEEN_NODES if "shared" not in self.backend.transport else calls.ALL)
            case = calls.Case(self.group, self.rank, self.size, self.common.randrange(1 << 20), self.common.choice([1, 64, 64, 5000, 100_000]),
                              self.own.random() < 0.5, self.memory)
            if not self.attempt(lambda: self.start(number, call, case)) and self.fails:
                return
            if self.own.random() < 0.1:
                gc.collect()

    def start(self, number, call, case):
        work, written, expected, read = call(case)
        self.storages += [StorageWeakRef(tensor.untyped_storage()) for tensor in written + read if not tensor.is_sparse]
        fate = self.own.choice(["wait", "later", "drop", "drop", "forget", "forget", "cycle", "future", "then", "short", "ask", "interrupt"])
        name = f"trial {self.seed}, operation {number}, {call.__name__} of {case.count}, {fate}"
        if fate == "wait":
            work.wait()
            self.check(name, written, expected)
        elif fate == "later":
            self.waiting.append((name, work, written, expected))
        elif fate == "drop":
            self.kept.append((name, written, expected, read))
        elif fate == "cycle":
            self.cycles.append(weakref.ref(Cycle(work, written, read)))
        elif fate == "future":
            self.kept.append((name, written, expected, (read, work.get_future())))
        elif fate == "then":
            work.get_future().then(lambda future: future.value())
        elif fate == "short":
            self.attempt(functools.partial(work.wait, timedelta(microseconds=self.own.choice([1, 300, 3000]))), may_fail=True)
        elif fate == "ask":
            for _ in range(self.own.randrange(3)):
                work.is_completed()
        elif fate == "interrupt" and self.is_main:
            self.interrupt(work)
            # destroy_process_group() does not wait for what an interrupted caller has left: the program may be ending.
            self.kept.append((name, written, expected, read))
        del work, written, read
        self.canary(case.count)

    def interrupt(self, work):
        armed = [True]

        def handler(*_):
            if armed[0]:
                raise Interrupted

        before = signal.signal(signal.SIGALRM, handler)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self.own.choice([0.0005, 0.003]))
                work.wait()
            finally:
                armed[0] = False
        except Interrupted:
            armed[0] = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def attempt(self, call, may_fail=False):
        """Whether it went well; errors are for groups that end badly."""
        try:
            call()
            return True
        except dist.DistBackendError:
            if not (self.fails or may_fail):
                raise
            return False

    def check(self, name, written, expected):
        wrong = calls.wrong(written, expected)
        if wrong and not self.fails:
            self.wrong.append(f"{name}: {wrong}")

    def end(self):
        """Waits for the rest in any order; what was dropped comes in time."""
        self.own.shuffle(self.waiting)
        for name, work, written, expected in self.waiting:
            if self.attempt(work.wait):
                self.check(name, written, expected)
        self.waiting.clear()
        # A synchronous call's work that lives on is driven by who waits for it.
        deadline = time.monotonic() + LONG / 2
        wait_for(lambda: all(cycle() is None for cycle in self.cycles), deadline)
        for name, written, expected, _ in self.kept:
            if not self.fails:
                wait_for(lambda: not calls.wrong(written, expected), deadline)
            self.check(name, written, expected)
        self.kept.clear()

    def finish(self):
        """When its group has ended."""
        gc.collect()
        deadline = time.monotonic() + LONG / 2
        wait_for(lambda: all(storage.expired() for storage in self.storages), deadline)
        left = sum(not storage.expired() for storage in self.storages)
        spoiled = sum(not torch.equal(canary, torch.full_like(canary, CANARY)) for canary in self.canaries)
        if left or spoiled:
            self.wrong.append(f"trial {self.seed}: {left} of {len(self.storages)} storages stay, {spoiled} of {len(self.canaries)} canaries are overwritten")
        return self.wrong


def trial(rank, size, seed):
    draw = random.Random(seed)
    end, wire = draw.choice(ENDS), draw.choice(["", "", "tcp", "ucx"])
    os.environ["WEFT_HOST_ID"] = f"node {rank}" if wire else "node"
    os.environ["WEFT_TRANSPORT"] = wire or "auto"
    groups = [dist.new_group(list(range(size)), timeout=timedelta(seconds=LONG)) for _ in range(draw.choice([1, 1, 2]))]
    threads = [Drops(group, rank, size, f"{seed} {i}", i == 0) for i, group in enumerate(groups)]
    first = threads[0]
    first.fails = end != "well"
    if end == "destroyed":  # so long it waits for what others never call
        groups[0].set_timeout(timedelta(seconds=2))
    errors = []

    def work(one):
        try:
            one.carry_out(draw_counts[one])
            if one is first:
                ending(first, end, draw_rank)
            one.end()
        except BaseException:
            errors.append(f"trial {seed}, rank {rank}, {end}: {traceback.format_exc()}")

    draw_counts = {one: draw.randint(5, 25) for one in threads}
    draw_rank = draw.randrange(size)
    started = [threading.Thread(target=work, args=(one,)) for one in threads[1:]]
    for each in started:
        each.start()
    work(first)
    for each in started:
        each.join()
    for one in threads:
        if end == "well" and one.common.random() < 0.7:
            one.attempt(lambda: one.group.barrier().wait())
        group, one.group, one.backend = one.group, None, None
        dist.destroy_process_group(group)
    del groups, group
    return errors + sum([one.finish() for one in threads], [])


def ending(drops, end, who):
    if end == "aborted" and drops.rank == who:
        drops.backend.abort()
    if end == "disagrees":
        drops.attempt(lambda: drops.group.allreduce([torch.ones(3 + (drops.rank == who))]))
    if end == "destroyed" and drops.rank != who:
        drops.carry_out(3)


def trials(rank, size, seeds):
    found = sum([trial(rank, size, seed) for seed in seeds], [])
    dist.barrier()
    return found


def main(count, first):
    begin, done, wrong = time.monotonic(), 0, []
    for size in (2, 3, 4):
        mine = [seed for seed in range(first, first + count) if 2 + seed % 3 == size]
        for i in range(0, len(mine), AT_ONCE):
            seeds = mine[i:i + AT_ONCE]
            try:
                lines = sum(run(trials, size, timeout=LONG * 3, seeds=seeds), [])
            except AssertionError as error:
                lines = [f"seeds {seeds}, {size} ranks: {error}"]
            done, wrong = done + len(seeds), wrong + lines
            for line in lines:
                print(f"FAILED: {line}\n  again: SEED={seeds[0]} tests/soak.sh torch_drops {3 * len(seeds)}", flush=True)
    print(f"{done} trials, {len(wrong)} failed, {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 1000, int(os.environ.get("SEED", "1"))))
