#!/usr/bin/env python3
"""weft in Python beside NumPy: its arrays go in and come out, and what it says of those that cannot.

usage: numpy_test.py [unittest's arguments]; ends with 77 where python3 has no NumPy.
"""
import gc
import sys
import unittest

import weft

try:
    import numpy as np
except ImportError:
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)

RANKS = 3
TYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]


def draw(rank, shape, dtype):
    return np.random.default_rng(rank).integers(0, 8, shape).astype(dtype)


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Arrays(unittest.TestCase):
    def test_sums_of_every_type_and_shape(self):
        def body(comm):
            for dtype in TYPES:
                for shape in ((), (1,), (1000,), (7, 5), (2, 3, 4), (0, 3)):
                    mine = draw(comm.rank, shape, dtype)
                    if shape == ():
                        mine = np.array(mine)
                    expected = sum(draw(rank, shape, dtype) for rank in range(RANKS))
                    out = np.empty_like(mine)
                    comm.all_reduce(mine, out).wait()
                    np.testing.assert_array_equal(out, expected)
                    comm.all_reduce(mine).wait()
                    np.testing.assert_array_equal(mine, expected)

        weft.run_as_threads(RANKS, body)

    def test_parts_of_matrices(self):
        def body(comm):
            mine, whole = draw(comm.rank, (4, 5), np.float32), np.empty((RANKS, 4, 5), np.float32)
            comm.all_gather(mine, whole).wait()
            np.testing.assert_array_equal(whole, np.stack([draw(rank, (4, 5), np.float32) for rank in range(RANKS)]))
            part = np.empty((4, 5), np.float32)
            comm.reduce_scatter(whole, part).wait()
            np.testing.assert_array_equal(part, RANKS * whole[comm.rank])
            comm.all_reduce(whole[1], op="max").wait()  # a row of a matrix is contiguous
            comm.broadcast(whole.reshape(-1)[10:20], root=1).wait()

        weft.run_as_threads(RANKS, body)

    def test_memory_of_the_node_and_dlpack(self):
        def body(comm):
            mine = np.asarray(comm.allocate(20)).reshape(4, 5)
            self.assertEqual(mine.dtype, np.float32)
            mine[:] = draw(comm.rank, (4, 5), np.float32)
            out = np.empty((4, 5), np.float32)
            comm.all_reduce(OnlyDlpack(mine), out).wait()
            np.testing.assert_array_equal(out, sum(draw(rank, (4, 5), np.float32) for rank in range(RANKS)))
            return mine

        kept = weft.run_as_threads(RANKS, body)
        gc.collect()
        for rank, array in enumerate(kept):
            np.testing.assert_array_equal(array, draw(rank, (4, 5), np.float32))

    def test_what_cannot_be_given(self):
        good = np.zeros((4, 4), np.float32)
        read_only = good.copy()
        read_only.flags.writeable = False
        with weft.alone() as comm:
            for array, words in ((good.T[:2], "not contiguous"), (np.asfortranarray(np.zeros((2, 3))), "not contiguous"), (good[:, ::2], "not contiguous"),
                                 (good.astype(">f4"), "byte order of another machine"), (read_only, "read-only"), (good > 0, "of booleans"),
                                 (good.astype(np.complex64), "of complex64, which weft has no type for"), (np.zeros(3, np.uint16), "16 bits"),
                                 (np.array(["a"]), "no type for"), (np.zeros(3, "f4,i4"), "no type for"), (np.array([None]), "no type for"),
                                 (np.zeros(3, "M8[s]"), "no type for"), (np.float32(3), "read-only")):
                with self.assertRaises(weft.UsageError) as caught:
                    comm.all_reduce(array)
                self.assertIn(words, str(caught.exception))
                self.assertTrue(str(caught.exception).startswith("weft: `data` "), caught.exception)

    def test_bfloat16_of_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("skipped: there is no ml_dtypes")
        with weft.alone() as comm:
            mine, out = np.arange(6).astype(ml_dtypes.bfloat16), np.zeros(6, ml_dtypes.bfloat16)
            comm.all_reduce(mine, out).wait()
            self.assertEqual(out.tolist(), [0, 1, 2, 3, 4, 5])


if __name__ == "__main__":
    unittest.main()
