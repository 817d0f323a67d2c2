"""Tables of cases: what each rank does, carried out over gloo and over weft, and how equal the results must be."""

import dataclasses
import typing
import unittest

import torch
import torch._dynamo  # noqa: F401  (optimizers take two seconds to import it; here once, and not in every rank)
import torch.distributed as dist
import weft.torch  # noqa: F401

from ranks import group_backend, over_both


@dataclasses.dataclass(frozen=True)
class Equality:
    """Bitwise up to so many ranks, and within a tolerance on more, for a reason."""

    bitwise_to: int
    rtol: float = 0
    atol: float = 0
    why: str = ""

    def compare(self, gloo, weft_, size, where):
        exact = size <= self.bitwise_to
        tolerances = {"rtol": 0, "atol": 0} if exact else {"rtol": self.rtol, "atol": self.atol}
        kind = "bitwise" if exact else f"within rtol {self.rtol}, atol {self.atol} ({self.why})"
        # A NaN is equal to nothing, and so a failure.
        torch.testing.assert_close(weft_, gloo, msg=lambda text: f"{where}: gloo and weft are not equal {kind}: {text}", **tolerances)


# Nothing is summed over ranks, or over groups of two: a + b is b + a.
BITWISE = Equality(1 << 30)
# From three ranks on gloo adds in the order of its ring and weft in the order of ranks; steps carry the rounding on.
SUMS = Equality(2, 1e-4, 1e-6, "sums over three ranks and more have another order")
SUMS_OF_16_BITS = Equality(2, 2e-2, 2e-3, "sums of bfloat16 over three ranks and more have another order, and 8 bits of mantissa")


class Case(typing.NamedTuple):
    name: str
    body: typing.Callable  # body(rank, size, **arguments) returns tensors, in lists and dictionaries
    sizes: tuple
    equality: Equality
    calls: int  # at least so many collectives and messages on each rank
    arguments: dict = {}


def _counted(rank, size, case):
    """What the case gives, and the backend and calls of each group that this rank is in."""
    result = case.body(rank, size, **case.arguments)
    groups = {}
    for group, (backend, _) in dist.distributed_c10d._world.pg_map.items():
        groups[group.group_name] = backend, group_backend(group).operations if backend == "weft" else 0
    return result, groups


def _expect_used(test, outcomes, case, backend):
    for rank, (_, groups) in enumerate(outcomes):
        names = {name for name, _ in groups.values()}
        test.assertEqual(names, {backend}, f"{case.name}: rank {rank} has groups of {sorted(names)}")
        if backend == "weft":
            calls = sum(count for _, count in groups.values())
            test.assertGreaterEqual(calls, case.calls, f"{case.name}: rank {rank} made {calls} calls of weft's groups")


def _test_of(case):
    def test(self):
        for size in case.sizes:
            with self.subTest(case=case.name, ranks=size):
                gloo, weft_ = over_both(_counted, size, case=case)
                _expect_used(self, gloo, case, "gloo")
                _expect_used(self, weft_, case, "weft")
                for rank in range(size):
                    left, right = gloo[rank][0], weft_[rank][0]
                    self.assertTrue(len(left) > 0, f"{case.name}: rank {rank} gives nothing")
                    case.equality.compare(left, right, size, f"{case.name}, rank {rank} of {size}")
    return test


def tests_of(table):
    """A TestCase with a test for each line of the table."""
    if len({case.name for case in table}) < len(table):
        raise ValueError("two cases have one name")
    return type("Cases", (unittest.TestCase,), {f"test_{case.name}": _test_of(case) for case in table})


def whole(tensor):
    """A tensor that outlives its group."""
    if isinstance(tensor, torch.distributed.tensor.DTensor):
        tensor = tensor.full_tensor()
    return tensor.detach().clone()
