#!/usr/bin/env python3
"""What a call from Python costs: nanoseconds of an all_reduce of 8 elements, and of its parts. bench_c_calls has the same from C and C++.

    PYTHONPATH=python LD_LIBRARY_PATH=build/release/lib python3 bench/python_calls.py [ROUNDS]
    weft-launch -n 2 python3 bench/python_calls.py

A part in ctypes alone shows what Python itself takes: three calls that begin an operation, wait for it, and free its ticket.
"""
import array
import ctypes
import statistics
import sys
import time

import weft
from weft._memory import memory

CALLS = 20  # of a round


def nanoseconds(call, rounds):
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        taken.append((time.perf_counter_ns() - begin) / CALLS)
    return statistics.median(taken), min(taken)


def main():
    if len(sys.argv) > 1 and not (sys.argv[1].isdecimal() and int(sys.argv[1]) > 0):
        raise weft.UsageError(f"python_calls.py: {sys.argv[1]} rounds; give a number from 1")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1001
    with weft.world() as comm:
        lib, data, work = comm._lib, array.array("f", [1] * 8), ctypes.c_void_p()
        address, handle, stream, to_work = data.buffer_info()[0], comm._handle, comm._stream, ctypes.byref(work)

        def in_ctypes():
            lib.comm_all_reduce(handle, address, address, 8, 0, 2, stream, to_work)
            lib.work_wait(work, -1.0)
            lib.work_free(work)

        for name, call in (("all_reduce().wait()", lambda: comm.all_reduce(data, op="max").wait()), ("the same in ctypes alone", in_ctypes),
                           ("address, count and type of data", lambda: memory(data, True, "data")), ("one call of ctypes", lambda: lib.comm_rank(handle))):
            median, least = nanoseconds(call, rounds)
            if comm.rank == 0:
                print(f"{name:<34} {median:>9.0f} ns, at least {least:.0f} ns   ({comm.size} ranks, medians of {rounds} rounds)", flush=True)


if __name__ == "__main__":
    weft.run(main)
