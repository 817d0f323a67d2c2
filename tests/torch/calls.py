"""Every call of the backend, with what it gives: for tests that try all of them in one way.

A call is a function of a Case, which starts it and returns (work, what it writes, what that must be, what it reads). Values are small whole numbers that each
rank can compute for all, so that nothing is exchanged to know what is right.
"""

import dataclasses
import random

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d


@dataclasses.dataclass
class Case:
    """One call: all ranks have the same but for the rank."""

    group: dist.ProcessGroup
    rank: int
    size: int
    seed: int = 0
    count: int = 64
    asynchronous: bool = False
    make: object = lambda values: values  # the memory that a call gets: a tensor of these values

    @property
    def root(self):
        return self.seed % self.size

    def values(self, rank, part=0, count=None):
        draw = random.Random(f"{self.seed} {rank} {part}")
        first, step = draw.randrange(5), draw.randrange(3)
        return (torch.arange(count or self.count, dtype=torch.float32) * step + first) % 7

    def mine(self, part=0, count=None):
        return self.make(self.values(self.rank, part, count))

    def room(self, count=None):
        return self.make(torch.full((count or self.count,), -1.0))

    def rooms(self, number=None, count=None):
        return [self.room(count) for _ in range(number or self.size)]

    def sum(self, part=0, count=None):
        return sum(self.values(rank, part, count) for rank in range(self.size))

    def all(self, part=0, count=None):
        return [self.values(rank, part, count) for rank in range(self.size)]

    def options(self, kind, **fields):
        options = kind()
        if hasattr(options, "asyncOp"):
            options.asyncOp = self.asynchronous
        for name, value in fields.items():
            setattr(options, name, value)
        return options


def all_reduce(case):
    tensor = case.mine()
    return case.group.allreduce([tensor], case.options(c10d.AllreduceOptions)), [tensor], [case.sum()], []


def all_reduce_coalesced(case):
    tensors = [case.mine(part, case.count + part) for part in range(3)]
    work = case.group.allreduce_coalesced(tensors, case.options(c10d.AllreduceCoalescedOptions))
    return work, tensors, [case.sum(part, case.count + part) for part in range(3)], []


def all_reduce_sparse(case):
    values, size = case.values(case.rank, 0, 4), case.count + 20
    tensor = torch.sparse_coo_tensor(torch.tensor([[case.rank, 10, 11, 12 + case.rank]]), values, (size,), check_invariants=True)
    whole = sum(torch.zeros(size).index_add_(0, torch.tensor([rank, 10, 11, 12 + rank]), case.values(rank, 0, 4)) for rank in range(case.size))
    return case.group.allreduce([tensor], case.options(c10d.AllreduceOptions)), [tensor], [whole], []


def broadcast(case):
    tensor = case.mine()
    return (case.group.broadcast([tensor], case.options(c10d.BroadcastOptions, rootRank=case.root)), [tensor], [case.values(case.root)], [])


def reduce(case):
    tensor = case.mine()
    work = case.group.reduce([tensor], case.options(c10d.ReduceOptions, rootRank=case.root))
    return work, [tensor], [case.sum() if case.rank == case.root else case.values(case.rank)], []


def all_gather(case):
    source, places = case.mine(), case.rooms()
    return case.group.allgather([places], [source], case.options(c10d.AllgatherOptions)), places, case.all(), [source]


def all_gather_uneven(case):
    counts = [case.count + rank for rank in range(case.size)]
    source, places = case.mine(0, counts[case.rank]), [case.room(count) for count in counts]
    work = case.group.allgather([places], [source], case.options(c10d.AllgatherOptions))
    return work, places, [case.values(rank, 0, count) for rank, count in enumerate(counts)], [source]


def all_gather_into_tensor(case):
    source, place = case.mine(), case.room(case.count * case.size)
    return case.group._allgather_base(place, source, case.options(c10d.AllgatherOptions)), [place], [torch.cat(case.all())], [source]


def all_gather_into_tensor_coalesced(case):
    sources, places = [case.mine(part) for part in range(3)], [case.room(case.count * case.size) for _ in range(3)]
    work = case.group.allgather_into_tensor_coalesced(places, sources, case.options(c10d.AllgatherOptions))
    return work, places, [torch.cat(case.all(part)) for part in range(3)], sources


def all_gather_coalesced(case):
    sources, places = [case.mine(part) for part in range(2)], [case.rooms(2) for _ in range(case.size)]
    work = case.group.allgather_coalesced(places, sources, case.options(c10d.AllgatherOptions))
    return work, sum(places, []), [case.values(rank, part) for rank in range(case.size) for part in range(2)], sources


def reduce_scatter(case):
    sources, place = [case.mine(part) for part in range(case.size)], case.room()
    work = case.group.reduce_scatter([place], [sources], case.options(c10d.ReduceScatterOptions))
    return work, [place], [case.sum(case.rank)], sources


def reduce_scatter_uneven(case):
    sources, place = [case.mine(part, case.count + part) for part in range(case.size)], case.room(case.count + case.rank)
    work = case.group.reduce_scatter([place], [sources], case.options(c10d.ReduceScatterOptions))
    return work, [place], [case.sum(case.rank, case.count + case.rank)], sources


def reduce_scatter_tensor(case):
    source, place = case.mine(0, case.count * case.size), case.room()
    work = case.group._reduce_scatter_base(place, source, case.options(c10d.ReduceScatterOptions))
    return work, [place], [case.sum(0, case.count * case.size).chunk(case.size)[case.rank]], [source]


def reduce_scatter_tensor_coalesced(case):
    sources, places = [case.mine(part, case.count * case.size) for part in range(3)], case.rooms(3)
    work = case.group.reduce_scatter_tensor_coalesced(places, sources, case.options(c10d.ReduceScatterOptions))
    return work, places, [case.sum(part, case.count * case.size).chunk(case.size)[case.rank] for part in range(3)], sources


def gather(case):
    source, places = case.mine(), case.rooms() if case.rank == case.root else []
    work = case.group.gather([places] if places else [], [source], case.options(c10d.GatherOptions, rootRank=case.root))
    return work, places, case.all() if places else [], [source]


def scatter(case):
    place, sources = case.room(), [case.mine(part) for part in range(case.size)] if case.rank == case.root else []
    work = case.group.scatter([place], [sources] if sources else [], case.options(c10d.ScatterOptions, rootRank=case.root))
    return work, [place], [case.values(case.root, case.rank)], sources


def all_to_all(case):
    sources, places = [case.mine(part) for part in range(case.size)], case.rooms()
    work = case.group.alltoall(places, sources, case.options(c10d.AllToAllOptions))
    return work, places, [case.values(rank, case.rank) for rank in range(case.size)], sources


def all_to_all_single(case):
    source, place = case.mine(0, case.count * case.size), case.room(case.count * case.size)
    work = case.group.alltoall_base(place, source, [], [], case.options(c10d.AllToAllOptions))
    return work, [place], [torch.cat([part.chunk(case.size)[case.rank] for part in case.all(0, case.count * case.size)])], [source]


def send_and_receive(case):
    source, place = case.mine(), case.room()
    sent = case.group.send([source], (case.rank + 1) % case.size, 5)
    work = case.group.recv([place], (case.rank - 1) % case.size, 5)
    return Both(work, sent), [place], [case.values((case.rank - 1) % case.size)], [source]


def receive_from_any(case):
    source, place = case.mine(), case.room()
    work = case.group.recv_anysource([place], 6)
    return Both(work, case.group.send([source], (case.rank + 1) % case.size, 6)), [place], [case.values((case.rank - 1) % case.size)], [source]


def coalescing(case):
    """Calls between start and end of a group of them."""
    source, place, tensor = case.mine(), case.room(), case.mine(1)
    case.group._start_coalescing(torch.device("cpu"))
    case.group.send([source], (case.rank + 1) % case.size, 7)
    case.group.recv([place], (case.rank - 1) % case.size, 7)
    case.group.allreduce([tensor], case.options(c10d.AllreduceOptions))
    return case.group._end_coalescing(torch.device("cpu")), [place, tensor], [case.values((case.rank - 1) % case.size), case.sum(1)], [source]


def barrier(case):
    return case.group.barrier(case.options(c10d.BarrierOptions)), [], [], []


class Both:
    """Two works as one."""

    def __init__(self, *works):
        self.works = works

    def wait(self, *timeout):
        for work in self.works:
            work.wait(*timeout)

    def is_completed(self):
        return all(work.is_completed() for work in self.works)

    def get_future(self):
        return self.works[0].get_future()


ALL = (all_reduce, all_reduce_coalesced, all_reduce_sparse, broadcast, reduce, all_gather, all_gather_uneven, all_gather_into_tensor,
       all_gather_into_tensor_coalesced, all_gather_coalesced, reduce_scatter, reduce_scatter_uneven, reduce_scatter_tensor,
       reduce_scatter_tensor_coalesced, gather, scatter, all_to_all, all_to_all_single, send_and_receive, receive_from_any, coalescing, barrier)

# Between nodes a receive names its sender.
BETWEEN_NODES = tuple(call for call in ALL if call is not receive_from_any)


def wrong(written, expected):
    """The first that is not as expected, as words."""
    for i, (tensor, right) in enumerate(zip(written, expected)):
        dense = tensor.to_dense() if tensor.is_sparse else tensor
        if not torch.equal(dense.resolve_neg(), right):
            if dense.shape != right.shape:
                return f"output {i} has shape {list(dense.shape)}, not {list(right.shape)}"
            differs = (dense.resolve_neg() != right).flatten()
            at = int(differs.int().argmax())
            near = slice(at, at + 8)
            return (f"output {i} differs in {int(differs.sum())} of {right.numel()} elements, from {at} on: it is {dense.flatten()[near].tolist()}, "
                    f"not {right.flatten()[near].tolist()}")
    return ""
