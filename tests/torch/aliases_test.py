"""Tensors that share memory, and tensors of every kind: the result is that of separate plain ones, or the call is refused before anything is written."""

import itertools
import os
import random
import unittest

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401
from torch._C import _distributed_c10d as c10d

import calls
from ranks import group_backend, run


def in_one_buffer(rank, size, seeds):
    """Calls whose tensors lie at random in one buffer. Inputs have their values of the call, and outputs are written in the order of their lists."""
    found = []
    for seed in seeds:
        for call in calls.ALL:
            if call in (calls.all_reduce_sparse, calls.send_and_receive, calls.receive_from_any, calls.coalescing, calls.barrier):
                continue  # of one tensor, or of several calls, whose memory is the caller's to keep apart
            found.append((seed, call.__name__, shared(call, rank, size, seed)))
    return [each for each in found if each[2]]


class Around:
    """A group whose calls get what `change` makes of each tensor."""

    def __init__(self, group, change):
        self.group, self.change = group, change

    def __getattr__(self, name):
        def changed(value):
            if isinstance(value, torch.Tensor):
                return self.change(value)
            return [changed(each) for each in value] if isinstance(value, (list, tuple)) else value

        return lambda *arguments: getattr(self.group, name)(*[changed(argument) for argument in arguments])


def shared(call, rank, size, seed):
    """The call with memory that is shared, and then with copies of it, which are put where they belong: what differs."""
    count = random.Random(seed).choice([1, 6, 200])
    draw = random.Random(f"{seed} {call.__name__} {rank}")
    buffer = torch.randint(0, 5, (count * size * draw.choice([1, 2, 3]) + 8,), generator=torch.Generator().manual_seed(10 * seed + rank)).float()
    before, views, copies = buffer.clone(), [], {}

    def somewhere(values):
        """Often where another is, or right behind it, so that tensors are parts of one."""
        offset = draw.choice([view.storage_offset() + behind * len(view) for view in views for behind in (0, 1)] + [draw.randrange(len(buffer))])
        offset = max(0, min(offset, len(buffer) - len(values)))
        views.append(buffer[offset:offset + len(values)])
        return views[-1]

    def copied(tensor):
        copies.setdefault(id(tensor), []).append(tensor.clone())
        return copies[id(tensor)][-1]

    call(calls.Case(dist.group.WORLD, rank, size, seed, count, make=somewhere))[0].wait()
    after = buffer.clone()
    buffer.copy_(before)
    again = iter(list(views))
    work, written, _, _ = call(calls.Case(Around(dist.group.WORLD, copied), rank, size, seed, count, make=lambda values: next(again)))
    work.wait()
    for tensor in written:
        tensor.copy_(copies[id(tensor)].pop(0))
    if torch.equal(after, buffer):
        return ""
    return f"views {[(view.storage_offset(), len(view)) for view in views]} of {len(buffer)} differ at {(after != buffer).nonzero().flatten()[:5].tolist()}"


def one_tensor_twice(rank, size):
    tensor = torch.full((4,), float(rank + 1))
    dist.all_reduce_coalesced([tensor, tensor])
    place = torch.zeros(2)
    dist.all_gather([place] * size, torch.full((2,), float(rank + 1)))
    many = torch.arange(float(2 * size)) + 10 * rank
    dist.all_to_all_single(many, many.clone())
    expected = many.clone()
    again = torch.arange(float(2 * size)) + 10 * rank
    dist.all_to_all_single(again, again)
    return tensor.tolist(), place.tolist(), torch.equal(again, expected)


def nothing_at_all(rank, size):
    """Empty lists, of a call and of its torch object."""
    outcomes = []
    options = (c10d.AllreduceCoalescedOptions(), c10d.AllgatherOptions(), c10d.ReduceScatterOptions(), c10d.AllToAllOptions(), c10d.BroadcastOptions(),
               c10d.AllreduceOptions(), c10d.ReduceOptions(), c10d.GatherOptions(), c10d.ScatterOptions())
    for target in (dist.group.WORLD, group_backend()):
        pairs = [("allreduce_coalesced", [[]], 0), ("allgather_into_tensor_coalesced", [[], []], 1), ("reduce_scatter_tensor_coalesced", [[], []], 2),
                 ("allgather_coalesced", [[], []], 1), ("allgather_coalesced", [[[]] * size, []], 1), ("alltoall", [[], []], 3), ("broadcast", [[]], 4),
                 ("allreduce", [[]], 5), ("reduce", [[]], 6), ("allgather", [[], []], 1), ("allgather", [[[]], []], 1), ("allgather", [[[]], [torch.ones(1)]], 1),
                 ("reduce_scatter", [[], []], 2), ("reduce_scatter", [[], [[]]], 2), ("reduce_scatter", [[torch.ones(1)], [[]]], 2), ("gather", [[], []], 7),
                 ("gather", [[[]], [torch.ones(1)]], 7), ("scatter", [[], []], 8), ("scatter", [[torch.ones(1)], [[]]], 8), ("send", [[], 0, 1], None),
                 ("recv", [[], 0, 1], None), ("recv_anysource", [[], 1], None), ("alltoall", [[torch.ones(1)] * size, []], 3)]
        for name, arguments, option in pairs:
            if not hasattr(target, name) or (rank != 0 and name in ("gather", "scatter") and arguments[0]):
                continue
            try:
                work = getattr(target, name)(*arguments, *([options[option]] if option is not None else []))
                work.wait()
                work.get_future().wait()
                outcomes.append(f"{name}: done")
            except (ValueError, RuntimeError, TypeError, IndexError) as error:
                outcomes.append(f"{name}: {type(error).__name__}")
    group_backend()._start_coalescing() if hasattr(group_backend(), "_start_coalescing") else dist.group.WORLD._start_coalescing(torch.device("cpu"))
    dist.group.WORLD._end_coalescing(torch.device("cpu")).wait()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return outcomes, tensor.item()


def marked(values, kind):
    """A tensor of these values that is only marked: negated, conjugated, strided, of a graph, of inference."""
    values = values.float()
    if kind == "negative":
        return torch._neg_view(-values)
    if kind == "imaginary":
        return torch.complex(torch.zeros_like(values), -values).conj().imag
    if kind == "strided":
        return torch.stack([values, torch.full_like(values, -9.0)], dim=1)[:, 0]
    if kind == "backwards":
        return values.flip(0).clone().flip(0)
    if kind == "leaf":
        return values.clone().requires_grad_()
    if kind == "of a graph":
        return values.clone().requires_grad_() * 1
    if kind == "inference":
        with torch.inference_mode():
            return values.clone()
    return values.clone()


KINDS = ("plain", "negative", "imaginary", "strided", "backwards", "leaf", "of a graph", "inference")


def of_every_kind(rank, size):
    found = []
    for kind, call in itertools.product(KINDS, calls.ALL):
        with torch.no_grad():
            work, written, expected, read = call(calls.Case(dist.group.WORLD, rank, size, 3, 40, make=lambda values: marked(values, kind)))
            before = [tensor.clone() for tensor in read]
            work.wait()
            wrong = calls.wrong(written, expected)
        if wrong or any(not torch.equal(left, right) for left, right in zip(before, read)):
            found.append((kind, call.__name__, wrong or "an input was changed"))
    return found


def conjugates(rank, size):
    """Complex tensors, of which torch's own functions make views of reals: straight to the backend."""
    values = torch.complex(torch.arange(4.0) + rank, torch.full((4,), 1.0 + rank))
    summed = values.conj()
    dist.group.WORLD.allreduce([summed], c10d.AllreduceOptions()).wait()
    options = c10d.BroadcastOptions()
    options.rootRank = 0
    other = torch.zeros(4, dtype=torch.complex64).conj() if rank else (torch.arange(4.0) + 1j).conj()
    dist.group.WORLD.broadcast([other], options).wait()
    real = sum(torch.arange(4.0) + each for each in range(size))
    imaginary = -sum(torch.full((4,), 1.0 + each) for each in range(size))
    return (torch.equal(torch.view_as_real(summed.resolve_conj()), torch.stack([real, imaginary], 1)),
            torch.equal(torch.view_as_real(other.resolve_conj()), torch.stack([torch.arange(4.0), torch.full((4,), -1.0)], 1)))


def refused(rank, size):
    """What no call takes, each as input or output of every call, and the kind of error."""
    def bad(which):
        if which == "expanded":
            return torch.zeros(1).expand(40)
        if which == "sparse":
            return torch.eye(4).to_sparse_csr()
        if which == "quantized":
            return torch.quantize_per_tensor(torch.ones(40), 0.1, 0, torch.qint8)
        if which == "meta":
            return torch.ones(40, device="meta")
        if which == "zero":
            return torch._efficientzerotensor(40)
        if which == "emptied":
            tensor = torch.ones(40)
            tensor.untyped_storage().resize_(0)
            return tensor
        return torch.nested.nested_tensor([torch.ones(20), torch.ones(20)])

    outcomes = []
    for which in ("expanded", "sparse", "quantized", "meta", "zero", "emptied", "nested"):
        for call in (calls.all_reduce, calls.all_reduce_coalesced, calls.all_gather, calls.all_gather_into_tensor, calls.reduce_scatter,
                     calls.reduce_scatter_tensor, calls.all_to_all, calls.scatter, calls.receive_from_any):
            class Bad(calls.Case):
                def room(self, count=None):
                    return bad(which)

                def mine(self, part=0, count=None):
                    return bad(which) if call in (calls.all_reduce, calls.all_reduce_coalesced) else super().mine(part, count)

            case = Bad(group_backend(), rank, size, 0, 40)
            try:
                call(case)[0].wait()
                outcomes.append((which, call.__name__, "taken"))
            except Exception as error:
                outcomes.append((which, call.__name__, type(error).__name__, str(error)))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return outcomes, tensor.item()


class Aliases(unittest.TestCase):
    def test_tensors_that_share_memory_are_as_separate_ones(self):
        count = int(os.environ.get("COUNT", "12"))
        for size in (2, 3):
            for found in run(in_one_buffer, size, seeds=list(range(count))):
                self.assertEqual(found, [])

    def test_one_tensor_twice_is_summed_once(self):
        for size in (2, 3):
            for reduced, last, same in run(one_tensor_twice, size):
                self.assertEqual(reduced, [float(sum(range(size + 1)))] * 4)
                self.assertEqual(last, [float(size)] * 2)
                self.assertTrue(same)

    def test_no_tensor_at_all_is_nothing_or_refused(self):
        for outcomes, item in run(nothing_at_all, 2):
            self.assertIn("allreduce_coalesced: done", outcomes)
            self.assertEqual(item, 2.0)

    def test_tensors_of_every_kind_have_the_values_that_python_sees(self):
        for size in (2, 3):
            for found in run(of_every_kind, size):
                self.assertEqual(found, [])
            for sums in run(conjugates, size):
                self.assertEqual(sums, (True, True))

    def test_what_cannot_be_written_is_refused_before_anything_is(self):
        for outcomes, item in run(refused, 2):
            self.assertEqual(item, 2.0)
            for outcome_ in outcomes:
                self.assertIn(outcome_[2], ("ValueError", "NotImplementedError"), outcome_)
                self.assertIn("; ", outcome_[3], outcome_)


if __name__ == "__main__":
    unittest.main()
