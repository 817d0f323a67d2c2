"""Random mixes of operations over weft, in several groups, from several threads, waited for late and in any order: the results of gloo.

    mixes.py [COUNT]     so many mixes (1000), on 2, 3 and 4 ranks in turn; SEED=N begins elsewhere (1)

Gloo, the twin, does the same one operation after the other, from one thread. Values are small whole numbers, so that sums are exact in any order.
A mix that differs is named with its seed, the rank, the thread and the operation, and how to run it alone.
"""

import hashlib
import os
import random
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401

from ranks import group_backend, run

KINDS = ("all_reduce", "broadcast", "all_gather", "all_gather_list", "reduce_scatter", "reduce_scatter_list", "all_to_all", "all_to_all_uneven", "reduce",
         "gather", "scatter", "ring", "batched_ring", "barrier", "objects", "then", "coalesced", "strided")
NUMBERS = (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT}
AT_ONCE = 40  # mixes that one start of the ranks carries out


def size_of(seed):
    return 2 + seed % 3


class Thread:
    """The operations of one thread: which they are is drawn alike on every rank, and what each rank brings is drawn by rank."""

    def __init__(self, rank, seed, number, groups, is_twin):
        self.rank, self.is_twin, self.groups = rank, is_twin, groups
        self.draw = random.Random(f"{seed} {number}")
        self.generator = torch.Generator().manual_seed(1000 * seed + 10 * number + rank)
        self.waiting, self.results = [], []
        self.error = None

    def numbers(self, count, dtype, op="sum"):
        low, high = (0, 4) if dtype == torch.uint8 else (-3, 4)
        if op == "product":
            low, high = (1, 3) if dtype == torch.uint8 else (-2, 3)
        return torch.randint(low, high, (count,), generator=self.generator).to(dtype)

    def later(self, work, keep):
        """Waits for it now or, over weft, perhaps later."""
        if self.is_late:
            self.waiting.append((work, keep))
        else:
            work.wait()  # once: gloo's messages wait for ever the second time

    def carry_out(self, operations):
        for i in range(operations):
            members, group = self.draw.choice(self.groups)
            kind = self.draw.choice(KINDS)
            shape = {"count": self.draw.choice([1, 5, 100, 5000]), "dtype": self.draw.choice(NUMBERS), "op": self.draw.choice(sorted(OPS)),
                     "root": self.draw.choice(members), "sizes": [self.draw.randrange(4) for _ in range(64)]}
            self.is_late = self.draw.random() < 0.6 and not self.is_twin
            shuffles = self.draw.random() if self.draw.random() < 0.2 else None
            if self.rank in members:
                result = self.start(kind, group, members, **shape)
                self.results.append((f"operation {i}, {kind} of {shape['count']} {shape['dtype']} in ranks {members}", result))
            if shuffles is not None:
                random.Random(shuffles).shuffle(self.waiting)
                self.wait_for_all()
        self.wait_for_all()

    def wait_for_all(self):
        for work, _ in self.waiting:
            work.wait()
        self.waiting.clear()

    def start(self, kind, group, members, count, dtype, op, root, sizes):
        return getattr(self, kind)(group, members, count=count, dtype=dtype, op=op, root=root, sizes=sizes)

    def all_reduce(self, group, members, count, dtype, op, **_):
        one = self.numbers(count, dtype, op)
        self.later(dist.all_reduce(one, op=OPS[op], group=group, async_op=True), one)
        return one

    def strided(self, group, members, count, dtype, **_):
        memory = self.numbers(6 * count, dtype).reshape(2, -1)
        one = memory[:, ::3] if not self.is_twin else memory[:, ::3].contiguous()  # gloo refuses or misreads some
        self.later(dist.all_reduce(one, group=group, async_op=True), memory)
        return one

    def broadcast(self, group, members, count, dtype, root, **_):
        one = self.numbers(count, dtype)
        self.later(dist.broadcast(one, src=root, group=group, async_op=True), one)
        return one

    def all_gather(self, group, members, count, dtype, **_):
        one, result = self.numbers(count, dtype), torch.zeros(count * len(members), dtype=dtype)
        self.later(dist.all_gather_into_tensor(result, one, group=group, async_op=True), one)
        return result

    def all_gather_list(self, group, members, count, dtype, **_):
        one, result = self.numbers(count, dtype), [torch.zeros(count, dtype=dtype) for _ in members]
        self.later(dist.all_gather(result, one, group=group, async_op=True), one)
        return result

    def reduce_scatter(self, group, members, count, dtype, op, **_):
        many, result = self.numbers(count * len(members), dtype, op), torch.zeros(count, dtype=dtype)
        self.later(dist.reduce_scatter_tensor(result, many, op=OPS[op], group=group, async_op=True), many)
        return result

    def reduce_scatter_list(self, group, members, count, dtype, op, **_):
        many, result = [self.numbers(count, dtype, op) for _ in members], torch.zeros(count, dtype=dtype)
        self.later(dist.reduce_scatter(result, many, op=OPS[op], group=group, async_op=True), many)
        return result

    def all_to_all(self, group, members, count, dtype, **_):
        many, result = self.numbers(count * len(members), dtype), torch.zeros(count * len(members), dtype=dtype)
        self.later(dist.all_to_all_single(result, many, group=group, async_op=True), many)
        return result

    def all_to_all_uneven(self, group, members, count, dtype, sizes, **_):
        own, n = members.index(self.rank), len(members)
        sent, received = [sizes[own * n + peer] for peer in range(n)], [sizes[peer * n + own] for peer in range(n)]
        many, result = self.numbers(sum(sent), dtype), torch.zeros(sum(received), dtype=dtype)
        self.later(dist.all_to_all_single(result, many, received, sent, group=group, async_op=True), many)
        return result

    def reduce(self, group, members, count, dtype, op, root, **_):
        one = self.numbers(count, dtype, op)
        self.later(dist.reduce(one, dst=root, op=OPS[op], group=group, async_op=True), one)
        return one if self.rank == root else []

    def gather(self, group, members, count, dtype, root, **_):
        one = self.numbers(count, dtype)
        result = [torch.zeros(count, dtype=dtype) for _ in members] if self.rank == root else None
        self.later(dist.gather(one, result, dst=root, group=group, async_op=True), one)
        return result or []

    def scatter(self, group, members, count, dtype, root, **_):
        many, result = [self.numbers(count, dtype) for _ in members] if self.rank == root else None, torch.zeros(count, dtype=dtype)
        self.later(dist.scatter(result, many, src=root, group=group, async_op=True), many)
        return result

    def ring(self, group, members, count, dtype, **_):
        own, n = members.index(self.rank), len(members)
        one, result = self.numbers(count, dtype), torch.zeros(count, dtype=dtype)
        sent = dist.isend(one, members[(own + 1) % n], group=group)
        self.later(dist.irecv(result, members[(own - 1) % n], group=group), result)
        self.later(sent, one)
        return result

    def batched_ring(self, group, members, count, dtype, **_):
        own, n = members.index(self.rank), len(members)
        one, result = self.numbers(count, dtype), torch.zeros(count, dtype=dtype)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, one, members[(own + 1) % n], group=group),
                                            dist.P2POp(dist.irecv, result, members[(own - 1) % n], group=group)]):
            self.later(work, one)
        return result

    def barrier(self, group, members, **_):
        self.later(dist.barrier(group=group, async_op=True), None)
        return []

    def objects(self, group, members, count, **_):
        result = [None] * len(members)
        dist.all_gather_object(result, {"rank": self.rank, "words": "x" * (count % 97)}, group=group)
        return torch.tensor([100 * each["rank"] + len(each["words"]) for each in result])

    def then(self, group, members, count, dtype, **_):
        one = self.numbers(count, dtype)
        work = dist.all_reduce(one, group=group, async_op=True)
        if self.is_twin:
            work.wait()
            return 2 * one
        result = torch.zeros_like(one)
        self.waiting.append((work.get_future().then(lambda future: result.copy_(2 * future.value()[0])), one))
        return result

    def coalesced(self, group, members, count, dtype, op, **_):
        several = [self.numbers(count + i, dtype, op) for i in range(3)]
        if self.is_twin:
            for one in several:
                dist.all_reduce(one, op=OPS[op], group=group)
            return several
        with dist._coalescing_manager(group=group, async_ops=True) as manager:
            for one in several:
                dist.all_reduce(one, op=OPS[op], group=group)
        self.later(manager, several)
        return several


def digest(result):
    """A few letters for a result, of its types and all its bytes."""
    all_bytes = hashlib.sha1()
    for tensor in result if isinstance(result, list) else [result]:
        all_bytes.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        all_bytes.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return all_bytes.hexdigest()[:12]


def groups_of(draw, size, count):
    """So many groups of two ranks or more; all ranks make all of them."""
    groups = []
    for _ in range(count):
        members = sorted(draw.sample(range(size), draw.randint(2, size)))
        groups.append((members, dist.new_group(members)))
    return groups


def mix(rank, size, seed):
    """What each operation of each thread gave, as words and a digest."""
    is_twin = dist.get_backend() == "gloo"
    draw = random.Random(seed)
    count, operations = draw.choice([1, 1, 2, 3]), draw.randint(8, 25)
    groups = [groups_of(draw, size, draw.randint(1, 3)) for _ in range(count)]
    everyone = [(list(range(size)), dist.group.WORLD)]
    own = [dist.group.WORLD] + [group for members, group in sum(groups, []) if rank in members]
    before = 0 if is_twin else calls(own)
    threads = [Thread(rank, seed, i, groups[i] + (everyone if i == 0 else []), is_twin) for i in range(count)]

    def work(thread):
        try:
            thread.carry_out(operations)
        except BaseException:
            thread.error = traceback.format_exc()

    started = [] if is_twin else [threading.Thread(target=work, args=(thread,)) for thread in threads[1:]]
    for each in started:
        each.start()
    for thread in threads if is_twin else threads[:1]:
        work(thread)
    for each in started:
        each.join()
    errors = [thread.error for thread in threads if thread.error]
    if errors:
        raise RuntimeError(f"seed {seed}, rank {rank}: {errors[0]}")
    found = [(f"thread {i}, {words}", digest(result)) for i, thread in enumerate(threads) for words, result in thread.results]
    if not is_twin and calls(own) - before < len(found):
        raise RuntimeError(f"seed {seed}, rank {rank}: {len(found)} operations, of which weft had {calls(own) - before}")
    for group in own[1:]:
        dist.destroy_process_group(group)
    return found


def calls(groups):
    """How many weft has started."""
    return sum(group_backend(group).operations for group in groups)


def mixes(rank, size, seeds):
    return [mix(rank, size, seed) for seed in seeds]


def repro(seed):
    return f"SEED={seed} tests/soak.sh torch_mixes 1"


def differences(seeds):
    """Lines about the mixes of these seeds, which have one number of ranks: what differs; and how many results were compared."""
    size, lines, compared = size_of(seeds[0]), [], 0
    failure = None
    try:
        gloo, weft_ = (run(mixes, size, backend, timeout=240, seeds=seeds) for backend in ("gloo", "weft"))
    except AssertionError as error:
        failure = str(error)
    if failure and len(seeds) == 1:
        return [f"seed {seeds[0]}, {size} ranks: {failure}\n  again: {repro(seeds[0])}"], 0
    if failure:
        for seed in seeds:  # one of them, alone
            alone, count = differences([seed])
            lines, compared = lines + alone, compared + count
        return lines or [f"seeds {seeds}, {size} ranks, one after the other in one process: {failure}"], compared
    for rank in range(size):
        for seed, left, right in zip(seeds, gloo[rank], weft_[rank]):
            compared += len(left)
            wrong = [words for (words, expected), (_, found) in zip(left, right) if expected != found]
            if wrong or len(left) != len(right):
                lines.append(f"seed {seed}, {size} ranks: rank {rank} has not gloo's result of {len(wrong)} of {len(left)} operations, the first: "
                             f"{wrong[:1]}\n  again: {repro(seed)}")
    return lines, compared


def main(count, first):
    begin, done, compared, wrong = time.monotonic(), 0, 0, []
    by_size = [[seed for seed in range(first, first + count) if size_of(seed) == size] for size in (2, 3, 4)]
    for seeds in by_size:
        for i in range(0, len(seeds), AT_ONCE):
            lines, operations = differences(seeds[i:i + AT_ONCE])
            done, compared, wrong = done + len(seeds[i:i + AT_ONCE]), compared + operations, wrong + lines
            for line in lines:
                print(f"FAILED: {line}", flush=True)
    print(f"{done} mixes, {compared} results, {len(wrong)} failed, {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 1000, int(os.environ.get("SEED", "1"))))
