#!/usr/bin/env python3
"""weft in Python, on the standard library alone: every operation beside a loop over the ranks, and every mistake as an exception with a sentence.

Ranks are threads here; tests/python/ranks_test.py has ranks as processes. usage: communicator_test.py [unittest's arguments], with libweft.so in
LD_LIBRARY_PATH and python/ in PYTHONPATH.
"""
import array
import ctypes
import gc
import os
import struct
import subprocess
import sys
import threading
import time
import unittest
import weakref

import refusals
import weft
from weft import _memory

LETTERS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint8": "B", "int8": "b", "int16": "h", "uint32": "I", "uint64": "Q"}
FOLDS = {"sum": lambda values: sum(values), "prod": lambda values: values[0] * values[1] * values[2], "min": min, "max": max,
         "avg": lambda values: sum(values) / len(values)}
RANKS = 3


def value(rank, i):
    return (i * 5 + rank * 3) % 4 + 1


def of_rank(letter, rank, count):
    return array.array(letter, [value(rank, i) for i in range(count)])


def zeros(letter, count):
    return array.array(letter, [0] * count)


class Dlpack:
    """Memory of an array.array as DLPack's C structures show it."""

    def __init__(self, memory, code, bits, shape, strides, offset):
        self.kept = memory, shape, strides
        whole = ctypes.c_int64 * len(shape)
        self.tensor = _memory._DLTensor(memory.buffer_info()[0], 1, 0, len(shape), code, bits, 1, whole(*shape), whole(*strides) if strides else None, offset)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.argtypes, new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Operations(unittest.TestCase):
    """Whole, small numbers, so that every order of a sum has the same bits."""

    def on_ranks(self, body, ranks=RANKS):
        return weft.run_as_threads(ranks, body, timeout=60)

    def test_all_reduce_of_every_type_and_reduction(self):
        def body(comm):
            for name, letter in LETTERS.items():
                for op, fold in FOLDS.items():
                    if op == "avg" and "int" in name:
                        continue
                    expected = [fold([value(rank, i) for rank in range(RANKS)]) for i in range(100)]
                    data, out = of_rank(letter, comm.rank, 100), zeros(letter, 100)
                    comm.all_reduce(data, out, op=op).wait()
                    self.assertEqual(data, of_rank(letter, comm.rank, 100), "what is read stays")
                    if op == "avg":
                        for got, wanted in zip(out, expected):
                            self.assertAlmostEqual(got, wanted, places=5)
                    else:
                        self.assertEqual(out.tolist(), expected, (name, op))
                    comm.all_reduce(data, op=op).wait()
                    self.assertEqual(data, out, "in place")
                if "int" in name:
                    for op, fold in (("band", int.__and__), ("bor", int.__or__), ("bxor", int.__xor__)):
                        data = of_rank(letter, comm.rank, 9)
                        comm.all_reduce(data, op=op).wait()
                        self.assertEqual(data.tolist(), [fold(fold(value(0, i), value(1, i)), value(2, i)) for i in range(9)])

        self.on_ranks(body)

    def test_half_and_bfloat16(self):
        def body(comm):
            half = bytearray(struct.pack("4e", 1, 2, 3, comm.rank))
            comm.all_reduce(memoryview(half).cast("e") if sys.version_info >= (3, 12) else _as_half(half)).wait()
            self.assertEqual(struct.unpack("4e", half), (3, 6, 9, 3))
            one = array.array("H", [0x3F80] * 3)  # 1 in bfloat16
            comm.all_reduce(weft.bfloat16(one)).wait()
            self.assertEqual(one.tolist(), [0x4040] * 3)  # 3

        def _as_half(memory):
            class Half:
                __array_interface__ = {"typestr": "<f2", "shape": (4,), "data": (ctypes.addressof(ctypes.c_char.from_buffer(memory)), False)}
            return Half()

        self.on_ranks(body)

    def test_parts(self):
        def body(comm):
            n, size, rank = 7, comm.size, comm.rank
            data, out = of_rank("f", rank, n * size), zeros("f", n)
            comm.reduce_scatter(data, out).wait()
            self.assertEqual(out.tolist(), [sum(value(r, n * rank + i) for r in range(size)) for i in range(n)])
            whole = zeros("q", n * size)
            comm.all_gather(of_rank("q", rank, n), whole).wait()
            self.assertEqual(whole.tolist(), [value(r, i) for r in range(size) for i in range(n)])
            comm.all_to_all(of_rank("q", rank, n * size), whole).wait()
            self.assertEqual(whole.tolist(), [value(r, n * rank + i) for r in range(size) for i in range(n)])
            for root in range(size):
                data = of_rank("i", rank, n)
                comm.broadcast(data if rank != root else bytes_of(data), root).wait()  # root's is only read
                self.assertEqual(data.tolist(), [value(root if rank != root else rank, i) for i in range(n)])
                data, out = of_rank("i", rank, n), zeros("i", n)
                comm.reduce(data, out if rank == root else None, root=root, op="max").wait()
                self.assertEqual(out.tolist(), [max(value(r, i) for r in range(size)) for i in range(n)] if rank == root else [0] * n)
                comm.reduce(data, root=root).wait()
                self.assertEqual(data.tolist(), [sum(value(r, i) for r in range(size)) if rank == root else value(rank, i) for i in range(n)])
            comm.barrier().wait()

        def bytes_of(data):
            return memoryview(data.tobytes()).cast(data.typecode)

        self.on_ranks(body)

    def test_messages(self):
        def body(comm):
            rank, size = comm.rank, comm.size
            group, left = comm.group(), zeros("q", 1)
            for turn in range(3):  # a group that was started may be filled again
                group.receive(left, (rank - 1) % size, tag=7)
                group.send(array.array("q", [100 * turn + rank]), (rank + 1) % size, tag=7)
                group.start().wait()
                self.assertEqual(left[0], 100 * turn + (rank - 1) % size)
            if rank == 0:
                got, seen = zeros("q", 1), {}
                for _ in range(size - 1):
                    work = comm.receive_any(got, tag=9)
                    work.wait()
                    seen[work.source()] = got[0]
                self.assertEqual(seen, {r: r * r for r in range(1, size)})
                with self.assertRaisesRegex(weft.UsageError, "receive_any 1; this Work has 1"):
                    work.source(1)
            else:
                comm.send(array.array("q", [rank * rank]), 0, tag=9).wait()
            comm.barrier().wait()
            if rank == 0:
                comm.send(b"abc", 1).wait()
            elif rank == 1:
                got = bytearray(3)
                comm.receive(got, 0).wait()
                self.assertEqual(got, b"abc")

        self.on_ranks(body)

    def test_split(self):
        def body(comm):
            part = comm.split(comm.rank % 2, key=-comm.rank)
            self.assertEqual(part.size, 2 if comm.rank % 2 == 0 else 1)
            self.assertEqual(part.rank, 1 if comm.rank == 0 else 0)
            mine = array.array("q", [comm.rank])
            part.all_reduce(mine).wait()
            self.assertEqual(mine[0], 2 if comm.rank % 2 == 0 else 1)
            part.close()
            self.assertIsNone(comm.split(None))

        self.on_ranks(body)

    def test_memory_of_the_node(self):
        def body(comm):
            for dtype in _memory.TYPES:
                mine = comm.allocate(100, dtype)
                self.assertEqual(memoryview(mine).nbytes, 100 * _memory.SIZES[_memory.TYPES[dtype]])
                if "float16" not in dtype:
                    mine[7] = comm.rank + 1
                    comm.all_reduce(mine, op="max").wait()
                    self.assertEqual(list(mine), [RANKS if i == 7 else 0 for i in range(100)])
            view = memoryview(comm.allocate(10))
            gc.collect()
            view.cast("B").cast("f")[3] = 1.0  # what was made of it keeps it
            return view

        views = self.on_ranks(body)
        gc.collect()
        self.assertEqual([view.cast("B").cast("f")[3] for view in views], [1.0] * RANKS, "it outlives its communicator")

    def test_many_works_under_way_and_none_waited_for(self):
        def body(comm):
            data = [array.array("q", [comm.rank]) for _ in range(500)]
            for one in data[:-1]:
                comm.all_reduce(one)
            self.assertLess(len(comm._pending), 500)
            comm.all_reduce(data[-1]).wait()
            self.assertEqual([one[0] for one in data], [3] * 500)

        self.on_ranks(body)

    def test_empty_memory(self):
        def body(comm):
            comm.all_reduce(bytearray()).wait()
            comm.all_gather(b"", bytearray()).wait()

        self.on_ranks(body)

    def test_what_it_tells(self):
        def body(comm):
            comm.barrier().wait()
            comm.timeout = 5
            self.assertEqual(comm.timeout, 5.0)
            comm.slow_after(3)
            comm.count_step(0.5)
            figures = comm.metrics()
            self.assertEqual(figures["weft_steps_total"], 1)
            self.assertTrue(any("barrier" in name for name in figures), sorted(figures))
            self.assertIn("threads", comm.backend)
            self.assertEqual((comm.nodes, comm.node_of(RANKS - 1)), (1, 0))
            self.assertGreaterEqual(comm.wire_bytes, 0)
            self.assertEqual(comm.network_bytes, 0)
            self.assertTrue(comm.explain("all_reduce", 1000))
            self.assertIn(f"rank {comm.rank} of {RANKS}", repr(comm))

        self.on_ranks(body)
        self.assertRegex(weft.version(), r"^\d+\.\d+\.\d+$")
        self.assertIn("with", weft.built_with())

    def test_results_and_exceptions_of_threads(self):
        self.assertEqual(self.on_ranks(lambda comm: comm.rank * 2), [0, 2, 4])
        others = []

        def one_fails(comm):
            if comm.rank == 1:
                raise ZeroDivisionError("of rank 1")
            try:
                comm.barrier().wait()
            except weft.Error as error:
                others.append(error)
                raise

        with self.assertRaisesRegex(ZeroDivisionError, "of rank 1"):
            self.on_ranks(one_fails)
        self.assertEqual(len(others), RANKS - 1)
        for error in others:
            self.assertIn("ZeroDivisionError: of rank 1", str(error))


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.comm = weft.alone()
        self.addCleanup(self.comm.close)

    def refused(self, pattern, call):
        self.assertIn("; ", str(refusals.refused(self, pattern, call)), "a sentence says what to do")

    def test_memory(self):
        comm, good = self.comm, zeros("f", 4)
        self.refused("`data` is None", lambda: comm.all_reduce(None))
        self.refused("`data` is of type list, which shows no memory", lambda: comm.all_reduce([1.0, 2.0]))
        self.refused("`data` is of type int", lambda: comm.all_reduce(3))
        self.refused("`out` is of type str", lambda: comm.all_reduce(good, "out"))
        self.refused("`data` is read-only, and weft writes into it", lambda: comm.all_reduce(b"abc"))
        self.refused("`out` is read-only", lambda: comm.all_reduce(bytearray(3), b"abc"))
        self.refused("`data` is not contiguous", lambda: comm.all_reduce(memoryview(good)[::2]))
        self.refused("`data` is not contiguous", lambda: comm.all_reduce(memoryview(good)[::-1]))
        backwards = (ctypes.c_int32.__ctype_be__ * 4)()
        self.refused("`data` has the byte order of another machine", lambda: comm.all_reduce(backwards))
        self.refused("`data` is of booleans", lambda: comm.all_reduce((ctypes.c_bool * 4)()))
        self.refused("`data` is of unsigned integers of 16 bits", lambda: comm.all_reduce(zeros("H", 4)))
        self.refused("`data` is of the format", lambda: comm.all_reduce((ctypes.c_char_p * 4)()))
        self.refused("weft.bfloat16 of elements of 4 bytes", lambda: comm.all_reduce(weft.bfloat16(good)))
        self.refused("weft.bfloat16 of list, which is no memory", lambda: comm.all_reduce(weft.bfloat16([1])))
        self.refused("`data` is of float32 and `out` of float64", lambda: comm.all_reduce(good, zeros("d", 4)))
        self.refused("`data` has 4 elements and `out` 5", lambda: comm.all_reduce(good, zeros("f", 5)))
        released = memoryview(bytearray(4))
        released.release()
        self.refused("`data` is of type memoryview", lambda: comm.all_reduce(released))

    def test_interface_and_dlpack_of_others(self):
        class Interface:
            def __init__(self, **changed):
                self.memory = array.array("f", [1, 2, 3, 4, 5, 6])
                self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": (2, 3), "data": (self.memory.buffer_info()[0], False), **changed}

        good = Interface()
        self.comm.all_reduce(good).wait()
        self.comm.all_reduce(Interface(strides=(12, 4))).wait()
        out = zeros("f", 6)
        self.comm.all_reduce(Interface(data=(good.memory.buffer_info()[0], True)), out).wait()
        self.assertEqual(out, good.memory)
        self.refused("read-only", lambda: self.comm.all_reduce(Interface(data=(good.memory.buffer_info()[0], True))))
        self.refused("not contiguous", lambda: self.comm.all_reduce(Interface(strides=(4, 8))))
        self.refused("byte order", lambda: self.comm.all_reduce(Interface(typestr=">f4")))
        self.refused("no type for", lambda: self.comm.all_reduce(Interface(typestr="<c8")))
        self.refused("has no address", lambda: self.comm.all_reduce(Interface(data=None)))

        class OnDevice:
            def __dlpack_device__(self):
                return 2, 1

            def __dlpack__(self):
                raise AssertionError("it is not asked for what lies elsewhere")

        self.refused(r"lies on a device \(2, 1\)", lambda: self.comm.all_reduce(OnDevice(), out))

        class Refuses(OnDevice):
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self):
                raise BufferError("no export")

        self.refused("no export", lambda: self.comm.all_reduce(Refuses(), out))
        self.refused("of which weft reads only, and here it writes", lambda: self.comm.all_reduce(Refuses()))

    def test_dlpack_on_the_host(self):
        memory = array.array("f", range(12))
        out = zeros("f", 6)

        def shown(**changed):
            return Dlpack(memory, **{"code": 2, "bits": 32, "shape": (2, 3), "strides": None, "offset": 0, **changed})

        self.comm.all_reduce(shown(), out).wait()
        self.assertEqual(out.tolist(), [0, 1, 2, 3, 4, 5])
        self.comm.all_reduce(shown(strides=(3, 1), offset=8), out).wait()
        self.assertEqual(out.tolist(), [2, 3, 4, 5, 6, 7])
        self.comm.all_reduce(shown(shape=(1, 6), strides=(99, 1)), out).wait()  # one row, whose distance to the next says nothing
        self.refused("`data` is not contiguous", lambda: self.comm.all_reduce(shown(strides=(1, 2)), out))
        self.refused("no type for", lambda: self.comm.all_reduce(shown(code=5, bits=64), out))
        self.refused("no type for", lambda: self.comm.all_reduce(shown(code=1, bits=16), out))
        bits = array.array("H", [0] * 6)
        self.comm.all_reduce(shown(code=4, bits=16), weft.bfloat16(bits)).wait()
        self.assertEqual(bits.tobytes(), memory.tobytes()[:12])

    def test_arguments(self):
        comm, good = self.comm, zeros("f", 4)
        self.refused("a reduction 'mean'; there are sum", lambda: comm.all_reduce(good, op="mean"))
        self.refused("a reduction None", lambda: comm.all_reduce(good, op=None))
        self.refused("a reduction \\[", lambda: comm.all_reduce(good, op=[]))
        self.refused("`root` is 1; there are ranks 0 to 0", lambda: comm.broadcast(good, root=1))
        self.refused("`root` is 'first'", lambda: comm.broadcast(good, root="first"))
        self.refused("`peer` is -1", lambda: comm.send(good, -1))
        self.refused("a tag of -1", lambda: comm.send(good, 0, tag=-1))
        self.refused("a tag of 4294967296", lambda: comm.receive(good, 0, tag=2**32))
        self.refused("a type 'f32'; there are float32", lambda: comm.allocate(4, "f32"))
        self.refused("allocate: 0 elements", lambda: comm.allocate(0))
        self.refused("a color of", lambda: comm.split(2**31))
        self.refused("an operation 'gather'", lambda: comm.explain("gather", 1))
        self.refused("`timeout` is 'long'", lambda: comm.barrier().wait("long") or setattr(comm, "timeout", "long"))
        self.refused("one of `rank` and `size` is given", lambda: weft.world(rank=1))
        self.refused("an order 'some'", lambda: weft.world(order="some"))
        self.refused("give text", lambda: weft.world(rank=0, size=1, rendezvous=3))
        self.refused("a kind of error 'bad'", lambda: comm.give_up("why", kind="bad"))
        with self.assertRaisesRegex(TypeError, r"weft.world\(\) makes a Communicator"):
            weft.Communicator()

    def test_elements_that_ranks_cannot_share(self):
        def body(comm):
            self.refused("`data` has 5 elements and `out` 2; of 2 ranks `data` has 4", lambda: comm.reduce_scatter(zeros("f", 5), zeros("f", 2)))
            self.refused("`out` has 5 elements and `data` 2; of 2 ranks `out` has 4", lambda: comm.all_gather(zeros("f", 2), zeros("f", 5)))
            self.refused("5 elements, which 2 ranks cannot share", lambda: comm.all_to_all(zeros("f", 5), zeros("f", 5)))

        weft.run_as_threads(2, body)

    def test_closed(self):
        comm, group, data = self.comm, self.comm.group(), zeros("f", 4)
        part = comm.split(0)
        comm.close()
        comm.close()
        for call in (lambda: comm.all_reduce(data), comm.barrier, lambda: comm.split(0), lambda: comm.allocate(4), comm.group, comm.metrics,
                     lambda: comm.send(data, 0), lambda: group.send(data, 0), group.start, lambda: comm.timeout, lambda: comm.backend,
                     lambda: comm.give_up("why"), lambda: comm.explain("barrier", 0)):
            self.refused("this Communicator was closed", call)
        self.assertIn("closed", repr(comm))
        part.all_reduce(data).wait()
        part.close()

    def test_types_that_differ_on_another_rank_are_named_with_rank_and_operation(self):
        def body(comm):
            with self.assertRaisesRegex(weft.MismatchError, r"all_reduce #1.*rank 0 issued.*f64.*rank 1 issued.*f32") as caught:
                comm.all_reduce(zeros("f" if comm.rank else "d", 2)).wait()
            self.assertEqual((caught.exception.kind, caught.exception.exit_code), ("mismatch", 42))
            with self.assertRaises(weft.MismatchError):  # it is broken, and says so again
                comm.barrier().wait()

        weft.run_as_threads(2, body)

    def test_a_wait_that_ends_early_breaks_nothing(self):
        def body(comm):
            if comm.rank == 1:
                time.sleep(1)
            work = comm.barrier()
            if comm.rank == 0:
                for seconds in (0, 0.1, 0.5):
                    with self.assertRaisesRegex(weft.TimeoutError, f"barrier #1: was not done after {seconds} s: waits for rank 1") as caught:
                        work.wait(seconds)
                    self.assertIsInstance(caught.exception, TimeoutError)
                self.assertFalse(work.done())
            work.wait(30)
            work.wait()
            self.assertTrue(work.done())

        weft.run_as_threads(2, body)

    def test_what_is_done_just_after_a_slice_of_the_wait_is_no_timeout(self):
        class Late:
            """A library whose first wait ends a moment before the work does."""

            def __init__(self):
                self.waits, self.freed = [3, 0], []

            def work_wait(self, *_):
                return self.waits.pop(0)

            def work_done(self, _):
                return 1

            def work_free(self, handle):
                self.freed.append(handle)

            def message(self):
                return "weft: barrier #1: was not done after 0.2 s"

        for timeout in (None, 0.1, 5):
            late = Late()
            weft.Work(late, "barrier", ctypes.c_void_p(1), None, set()).wait(timeout)
            self.assertEqual((late.waits, len(late.freed)), ([], 1))

    def test_an_error_stays_with_its_work(self):
        def body(comm):
            if comm.rank == 1:
                comm.timeout = 60
                time.sleep(1.5)
                return
            comm.timeout = 0.3
            work = comm.barrier()
            for _ in range(2):
                with self.assertRaises(weft.TimeoutError):
                    work.wait()
            self.assertIn("failed", repr(work))

        weft.run_as_threads(2, body)


class Memory(unittest.TestCase):
    def test_it_is_held_while_work_is_under_way_and_goes_back_after(self):
        def body(comm):
            data = bytearray(100)
            if comm.rank == 1:
                time.sleep(0.5)
            work = comm.all_reduce(data)
            if comm.rank == 0:
                for resize in (lambda: data.append(1), data.clear, lambda: data.extend(b"abc")):
                    with self.assertRaises(BufferError):
                        resize()
            work.wait()
            data.append(1)

        weft.run_as_threads(2, body)

    def test_it_lives_as_long_as_the_work_of_which_nothing_is_kept(self):
        class Held(array.array):
            pass

        def body(comm):
            data = Held("q", [1])
            gone = weakref.ref(data)
            if comm.rank == 1:
                time.sleep(0.5)
            comm.all_reduce(data)
            del data
            gc.collect()
            if comm.rank == 0:
                self.assertIsNotNone(gone())
            comm.barrier().wait()
            comm.close()
            gc.collect()
            self.assertIsNone(gone())

        weft.run_as_threads(2, body)

    def test_nothing_is_left_of_a_thousand_operations(self):
        comm, data = weft.alone(), zeros("f", 4)
        for _ in range(100):
            comm.all_reduce(data).wait()
        gc.collect()
        before, references = len(gc.get_objects()), sys.getrefcount(data)
        for _ in range(1000):
            comm.all_reduce(data).wait()
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 50)
        self.assertEqual(sys.getrefcount(data), references)
        self.assertEqual(len(comm._pending), 0)
        comm.close()

    def test_threads_may_wait_for_one_work(self):
        def body(comm):
            work, errors = None, []
            if comm.rank == 1:
                time.sleep(0.3)
            work = comm.all_reduce(zeros("f", 10))
            waiting = [threading.Thread(target=lambda: work.wait() or errors.append(None)) for _ in range(4)]
            for thread in waiting:
                thread.start()
            for thread in waiting:
                thread.join()
            self.assertEqual(errors, [None] * 4)

        weft.run_as_threads(2, body)

    def test_threads_may_issue_on_a_communicator_of_one_rank(self):
        comm, sums = weft.alone(), []

        def issue():
            mine = zeros("q", 8)
            for _ in range(200):
                comm.all_reduce(mine).wait()
            sums.append(mine.tolist())

        threads = [threading.Thread(target=issue) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sums, [[0] * 8] * 4)
        comm.close()


class Import(unittest.TestCase):
    def test_it_needs_neither_the_library_nor_torch_nor_numpy(self):
        said = subprocess.run([sys.executable, "-c", "import sys, weft; print(sorted({'torch', 'numpy'} & set(sys.modules)), weft._library._loaded)"],
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(said.stdout, "[] None\n")

    def test_a_library_that_is_not_there_is_an_import_error_that_says_what_was_tried(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": "/nowhere"}
        said = subprocess.run([sys.executable, "-c", "import weft; weft.world()"], env=environment, capture_output=True, text=True, timeout=60)
        if said.returncode == 0:
            self.skipTest("skipped: a libweft.so is installed on this machine")
        for part in ("ImportError: weft: cannot load its library", "weft/libweft.so.0.1 (not there)", "LD_LIBRARY_PATH /nowhere"):
            self.assertIn(part, said.stderr)

    def test_every_name_it_offers_is_there(self):
        self.assertEqual([name for name in weft.__all__ if not hasattr(weft, name)], [])


if __name__ == "__main__":
    unittest.main()
