#!/usr/bin/env python3
"""weft.Reducer beside a loop over the ranks, and its mistakes as exceptions with a sentence. Ranks are threads; the standard library alone.

usage: reducer_test.py [unittest's arguments], with libweft.so in LD_LIBRARY_PATH and python/ in PYTHONPATH.
"""
import array
import gc
import math
import time
import unittest

import refusals
import weft

SHAPES = {"embed": (16, 8), "weight": (40,), "bias": (3,), "gain": ()}
RANKS = 3


def parameters():
    return {name: memoryview(bytearray(4 * math.prod(shape))).cast("f", shape) if shape else array.array("f", [0]) for name, shape in SHAPES.items()}


def value(step, rank, number, i):
    return float((step * 3 + rank * 5 + number + i) % 16)


def flat(view):
    return memoryview(view).cast("B").cast("f")


class Reducer(unittest.TestCase):
    def on_ranks(self, body, ranks=RANKS):
        return weft.run_as_threads(ranks, body, timeout=60)

    def expect_means(self, reducer, step, ranks=RANKS, factor=1.0):
        for number, gradient in enumerate(reducer.gradients):
            for i, got in enumerate(flat(gradient)):
                self.assertAlmostEqual(got, factor * sum(value(step, rank, number, i) for rank in range(ranks)) / ranks, places=4)

    def test_means_of_many_steps_while_buckets_are_planned_anew(self):
        for options in ({}, {"bucket_bytes": 64}, {"bucket_bytes": 64, "alone_bytes": 32}, {"order": ["gain", 2, "weight", "embed"]}, {"unused": "find"}):
            def body(comm, options=options):
                with weft.Reducer(comm, parameters(), **options) as reducer:
                    self.assertEqual(reducer.names, list(SHAPES))
                    self.assertEqual([one.shape for one in reducer.gradients], [shape or (1,) for shape in SHAPES.values()])
                    for step in range(20):
                        reducer.begin()
                        for number in reversed(range(len(SHAPES))):
                            values = array.array("f", [value(step, comm.rank, number, i) for i in range(len(flat(reducer.gradients[number])))])
                            if step % 2:
                                reducer.ready(number, values)
                            else:
                                flat(reducer.gradients[number])[:] = values
                                reducer.ready(reducer.names[number])
                            reducer.poll()
                        reducer.finish()
                        self.expect_means(reducer, step)
                    self.assertTrue(reducer.used("bias"))
                    self.assertGreaterEqual(reducer.exposed_seconds, 0)
                    self.assertGreaterEqual(reducer.held_bytes, 4 * sum(math.prod(shape) for shape in SHAPES.values()))
                    accounts = reducer.account()
                    self.assertTrue(accounts)
                    for one in accounts:
                        self.assertTrue(one.slowest_rank is None or 0 <= one.slowest_rank < RANKS, one)
                        self.assertGreaterEqual(one.seconds, one.exposed_seconds)

            self.on_ranks(body)

    def test_hooks_by_name(self):
        def body(comm):
            for hook in ("bf16", "fp16"):
                reducer = weft.Reducer(comm, parameters(), hook=hook, hook_start_step=0)
                reducer.begin()
                for number, gradient in reversed(list(enumerate(reducer.gradients))):
                    flat(gradient)[:] = array.array("f", [value(1, comm.rank, number, i) for i in range(len(flat(gradient)))])
                    reducer.ready(number)
                reducer.finish()
                for number, gradient in enumerate(reducer.gradients):
                    for i, got in enumerate(flat(gradient)):
                        self.assertAlmostEqual(got, sum(value(1, rank, number, i) for rank in range(RANKS)) / RANKS, delta=0.1)
                reducer.close()
            with self.assertRaisesRegex(weft.UsageError, "nothing-like-this"):
                weft.Reducer(comm, parameters(), hook="nothing-like-this")

        self.on_ranks(body)

    def test_micro_steps_add(self):
        def body(comm):
            reducer = weft.Reducer(comm, parameters())
            for micro in range(2):
                reducer.begin(exchange=micro == 1)
                self.assertEqual(reducer.accumulating(), micro == 1)
                for number, gradient in reversed(list(enumerate(reducer.gradients))):
                    view = flat(gradient)
                    for i in range(len(view)):
                        view[i] = value(1, comm.rank, number, i) + (view[i] if micro else 0)
                    reducer.ready(number)
                reducer.finish()
            self.expect_means(reducer, 1)

        self.on_ranks(body)

    def test_ranks_that_run_out_of_batches(self):
        def body(comm):
            reducer, steps = weft.Reducer(comm, parameters(), uneven="mean of the rest"), []
            for _ in range(comm.rank + 1):
                reducer.begin()
                for number, gradient in reversed(list(enumerate(reducer.gradients))):
                    flat(gradient)[:] = array.array("f", [comm.rank] * len(flat(gradient)))
                    reducer.ready(number)
                reducer.finish()
                steps.append(flat(reducer.gradients[0])[0])
            reducer.join(lambda: steps.append(flat(reducer.gradients[0])[0]))
            return steps

        self.assertEqual(self.on_ranks(body), [[1.0, 1.5, 2.0]] * RANKS)

    def test_an_exception_in_a_joined_step_reaches_the_caller(self):
        def body(comm):
            reducer = weft.Reducer(comm, [array.array("f", [0])], uneven="mean of the rest")
            if comm.rank == 0:
                def each():
                    raise ZeroDivisionError("in each")
                reducer.join(each)
            for _ in range(3):
                reducer.begin()
                reducer.ready(0)
                reducer.finish()
                comm.barrier()
            reducer.join()

        with self.assertRaisesRegex(ZeroDivisionError, "in each"):
            self.on_ranks(body, 2)

    def test_bad_values(self):
        def body(comm):
            reducer = weft.Reducer(comm, parameters(), count_bad_values=True)
            reducer.begin()
            for number, gradient in reversed(list(enumerate(reducer.gradients))):
                flat(gradient)[:] = array.array("f", [math.nan if comm.rank == 1 and number == 1 and i < 2 else 1 for i in range(len(flat(gradient)))])
                reducer.ready(number)
            reducer.finish()
            one, = reducer.bad_values()
            self.assertEqual((one.nans, one.infinities, one.rank, one.parameter), (2, 0, 1, "weight"))

        self.on_ranks(body)

    def test_initial_values(self):
        def body(comm):
            mine = {name: array.array("f", [comm.rank + 1] * 5) for name in "ab"}
            with self.assertRaisesRegex(weft.MismatchError, "a"):
                part = comm.split(0)
                weft.sync_initial_values(part, mine, compare=True)
            weft.sync_initial_values(comm, mine)
            self.assertEqual([one.tolist() for one in mine.values()], [[1.0] * 5] * 2)
            weft.sync_initial_values(comm, mine, compare=True)

        self.on_ranks(body)

    def test_gradients_outlive_the_reducer(self):
        def body(comm):
            reducer = weft.Reducer(comm, parameters())
            view = flat(reducer.gradients[0])
            reducer.close()
            del reducer
            gc.collect()
            view[0] = 5.0
            return view

        views = self.on_ranks(body)
        gc.collect()
        self.assertEqual([view[0] for view in views], [5.0] * RANKS)

    def test_mistakes(self):
        with weft.alone() as comm:
            good = parameters()

            def refused(pattern, call):
                refusals.refused(self, pattern, call)

            refused("there are no parameters", lambda: weft.Reducer(comm, []))
            refused("`parameter 0` is of type list", lambda: weft.Reducer(comm, [[1.0]]))
            refused("`parameter b` has no elements", lambda: weft.Reducer(comm, {"b": bytearray()}))
            refused("`parameter 1` is of float64 and `parameter 0` of float32", lambda: weft.Reducer(comm, [array.array("f", [1]), array.array("d", [1])]))
            refused("unused='ignore'; there are 'refuse'", lambda: weft.Reducer(comm, good, unused="ignore"))
            refused("uneven=None", lambda: weft.Reducer(comm, good, uneven=None))
            refused("`hook` is of type int", lambda: weft.Reducer(comm, good, hook=4))
            refused("a parameter 'bia'; there are embed, weight, bias, gain", lambda: weft.Reducer(comm, good, order=["bia"]))
            refused("`order` has 1 of 4", lambda: weft.Reducer(comm, good, order=["bias"]))
            refused("read-only", lambda: weft.sync_initial_values(comm, [b"abc"]))
            refused("the parameters a and b share their memory", lambda: weft.Reducer(comm, {"a": good["bias"], "b": good["bias"]}))
            reducer = weft.Reducer(comm, good)
            refused("parameter embed belongs to another Reducer", lambda: weft.Reducer(comm, good))
            refused("a parameter of number 4; there are 4, from 0", lambda: reducer.ready(4))
            refused("a parameter of number -1", lambda: reducer.ready(-1))
            reducer.begin()
            refused("the gradient of bias has 2 elements of float32; the parameter has 3", lambda: reducer.ready("bias", array.array("f", [1, 2])))
            refused("`gradient` is not contiguous", lambda: reducer.ready("bias", memoryview(array.array("f", range(6)))[::2]))
            reducer.close()
            refused("this Reducer was closed", reducer.begin)
            refused("this Reducer was closed", lambda: reducer.ready(0))
            again = weft.Reducer(comm, good)
            comm.close()
            refused("this Communicator was closed", again.begin)
            refused("this Communicator was closed", lambda: weft.Reducer(comm, good))

    def test_a_parameter_that_was_not_marked_is_named_on_every_rank(self):
        def body(comm):
            reducer = weft.Reducer(comm, parameters())
            reducer.begin()
            for number in (3, 2, 1) if comm.rank == 1 else (3, 2, 1, 0):
                reducer.ready(number)
            with self.assertRaisesRegex(weft.Error, "embed"):
                reducer.finish()
                time.sleep(0.2)

        self.on_ranks(body)


if __name__ == "__main__":
    unittest.main()
