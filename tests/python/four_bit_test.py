#!/usr/bin/env python3
"""The hooks int4 and fp4 beside their definition in NumPy, bit by bit.

usage: four_bit_test.py [unittest's arguments]; ends with 77 where python3 has no NumPy.
"""
import sys
import unittest

import weft

try:
    import numpy as np
except ImportError:
    print(f"skipped: {sys.executable} has no numpy")
    sys.exit(77)

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def rounded(hook, scaled):
    if hook == "int4":
        return np.rint(scaled)
    away = np.abs(np.abs(scaled)[:, None] - E2M1)
    nearest = np.argmin(away, axis=1)
    ties = (nearest < 7) & (nearest % 2 == 1) & (away[np.arange(len(scaled)), nearest] == away[np.arange(len(scaled)), np.minimum(nearest + 1, 7)])
    return np.copysign(E2M1[nearest + ties], scaled)  # argmin takes the first of two: the next one where that is odd


def decoded(hook, values):
    values = values + np.float32(0)  # the hook adds what is left of earlier steps: -0 becomes 0
    result = np.empty_like(values)
    for begin in range(0, len(values), 64):
        some = values[begin:begin + 64]
        top, largest = np.float32(7 if hook == "int4" else 6), np.abs(some).max()
        bits = (largest / top).view(np.uint32)
        scale = ((bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(np.float32)
        if scale * top < largest:
            scale = (scale.view(np.uint32) + np.uint32(0x10000)).view(np.float32)
        scale = max(scale, np.float32(2.0**-126))
        result[begin:begin + 64] = rounded(hook, some * (np.float32(1) / scale)) * scale + np.float32(0 if hook == "int4" else -0.0)
    return result


def means(hook, values):
    def body(comm):
        with weft.Reducer(comm, {"weight": np.zeros_like(values)}, hook=hook, hook_start_step=0) as reducer:
            reducer.begin()
            reducer.ready("weight", values)
            reducer.finish()
            return np.array(memoryview(reducer.gradients[0]), np.float32).reshape(-1)

    return weft.run_as_threads(1, body, timeout=60)[0]


class FourBit(unittest.TestCase):
    def test_the_means_of_one_rank_are_what_the_definition_decodes(self):
        draw = np.random.default_rng(1)
        for hook in ("int4", "fp4"):
            for count in (1, 2, 63, 64, 65, 1000, 4097):
                for exponent in (-150, -128, -120, -40, 0, 60, 110):
                    values = np.ldexp(draw.standard_normal(count).astype(np.float32), exponent)
                    got = means(hook, values)
                    np.testing.assert_array_equal(got.view(np.uint32), decoded(hook, values).view(np.uint32), f"{hook}, {count} elements around 2^{exponent}")


if __name__ == "__main__":
    unittest.main()
