"""A table of cases fails where it should: results that differ, groups that are not weft's, too few calls, nothing to compare."""

import unittest

import torch
import torch.distributed as dist

from table import BITWISE, SUMS, Case, tests_of


def summed(rank, size, off=0.0):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor + (off if dist.get_backend() == "weft" else 0)


def over_gloo(rank, size):
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=dist.new_group(backend="gloo"))
    return tensor


def alone(rank, size):
    return torch.ones(3)


def nothing(rank, size):
    dist.barrier()
    return []


def one_rank_fails(rank, size):
    if rank == 1 and dist.get_backend() == "weft":
        raise ArithmeticError("of rank 1")
    dist.barrier()
    return torch.ones(1)


# The case, and what its failure says; nothing where it passes.
OUTCOMES = [
    (Case("equal", summed, (2,), BITWISE, 1), None),
    (Case("one_bit_apart", summed, (2,), BITWISE, 1, {"off": 2.4e-7}), "not equal bitwise"),
    (Case("one_bit_apart_of_sums", summed, (3,), SUMS, 1, {"off": 2.4e-7}), None),
    (Case("far_apart", summed, (3,), SUMS, 1, {"off": 0.1}), "another order"),
    (Case("not_a_number", summed, (2,), BITWISE, 1, {"off": float("nan")}), "not equal bitwise"),
    (Case("another_backend", over_gloo, (2,), BITWISE, 1), "groups of ['gloo', 'weft']"),
    (Case("too_few_calls", summed, (2,), BITWISE, 2), "made 1 calls"),
    (Case("no_call", alone, (2,), BITWISE, 1), "made 0 calls"),
    (Case("nothing", nothing, (2,), BITWISE, 1), "gives nothing"),
    (Case("one_rank_fails", one_rank_fails, (2,), BITWISE, 1), "ArithmeticError: of rank 1"),
]


class Tables(unittest.TestCase):
    def test_each_fails_as_it_should(self):
        for case, said in OUTCOMES:
            with self.subTest(case=case.name):
                result = unittest.TestResult()
                unittest.defaultTestLoader.loadTestsFromTestCase(tests_of([case])).run(result)
                failures = [text for _, text in result.failures + result.errors]
                if said is None:
                    self.assertEqual(failures, [])
                else:
                    self.assertEqual(len(failures), 1, failures)
                    self.assertIn(said, failures[0])

    def test_two_cases_of_one_name_are_refused(self):
        with self.assertRaises(ValueError):
            tests_of([OUTCOMES[0][0], OUTCOMES[0][0]])


if __name__ == "__main__":
    unittest.main()
