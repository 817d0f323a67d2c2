#!/usr/bin/env python3
"""Three processes load libnccl-profiler-weft.so, as NCCL 2.30 does, and one of them is behind: on SIGUSR2 each writes its flight record, and weft-report
flight names that one.

usage: profiler_test.py LIBRARY WEFT_REPORT
"""
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

COLLECTIVE, KERNEL_CHANNEL, KERNEL_STOPS = 1 << 1, 1 << 6, 22
SECONDS = 60


class Collective(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint64), ("function", ctypes.c_char_p), ("send", ctypes.c_void_p), ("receive", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("root", ctypes.c_int), ("datatype", ctypes.c_char_p), ("channels", ctypes.c_uint8),
                ("warps", ctypes.c_uint8), ("algorithm", ctypes.c_char_p), ("protocol", ctypes.c_char_p), ("group", ctypes.c_void_p)]


class Kernel(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_uint8), ("timer", ctypes.c_uint64)]


class Kinds(ctypes.Union):
    _fields_ = [("collective", Collective), ("kernel", Kernel)]


class Event(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint64), ("parent", ctypes.c_void_p), ("rank", ctypes.c_int), ("of", Kinds)]


LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
INIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint64, ctypes.POINTER(ctypes.c_int), ctypes.c_char_p,
                        ctypes.c_int, ctypes.c_int, ctypes.c_int, LOG)
START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Event))
STOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Profiler(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("init", INIT), ("start", START), ("stop", STOP), ("record", RECORD), ("finalize", STOP)]


def rank_of(library, rank, ranks, whole):
    """A process of the job: operations, of which the last one does not end. `whole` of them do."""
    profiler = Profiler.in_dll(ctypes.CDLL(library), "ncclProfiler_v6")
    context, mask = ctypes.c_void_p(), ctypes.c_int()
    log = LOG(lambda level, subsystem, file, line, form, words: print(words.decode(), flush=True))
    profiler.init(ctypes.byref(context), 0x7F8C, ctypes.byref(mask), b"DP", 1, ranks, rank, log)

    def start(event):
        handle = ctypes.c_void_p()
        profiler.start(context, ctypes.byref(handle), ctypes.byref(event))
        return handle

    for number in range(whole + (rank != 1)):
        event = Event(type=COLLECTIVE, rank=rank)
        event.of.collective = Collective(number, b"AllReduce", None, None, 1000, 0, b"ncclFloat32", 1, 4, b"RING", b"LL", None)
        operation = start(event)
        profiler.stop(operation)
        event = Event(type=KERNEL_CHANNEL, parent=operation, rank=rank)
        event.of.kernel = Kernel(0, 1000)
        channel = start(event)
        if number < whole:
            timer = ctypes.c_uint64(5000)
            profiler.record(channel, KERNEL_STOPS, ctypes.cast(ctypes.byref(timer), ctypes.c_void_p))
            profiler.stop(channel)
    print("ready", flush=True)
    sys.stdin.readline()
    profiler.finalize(context)


def wait_for(what, holds):
    for _ in range(SECONDS * 20):
        if holds():
            return
        time.sleep(0.05)
    sys.exit(f"FAILED: {what} does not come in {SECONDS} s")


def main(library, report):
    ranks = 3
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        environment = dict(os.environ, WEFT_PROFILER_DIR=str(work / "profile"), WEFT_PROFILER_PORT="29600")
        environment.pop("WEFT_PROFILER_TEXTFILE", None)
        processes = [subprocess.Popen([sys.executable, __file__, library, "rank", str(rank), str(ranks), "17" if rank == 1 else "20"], env=environment,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        try:
            said = []
            for process in processes:
                lines = []
                while not lines or lines[-1] != "ready":
                    line = process.stdout.readline()
                    if not line:
                        sys.exit(f"FAILED: a rank ended: {lines}")
                    lines.append(line.strip())
                said.append(lines)
            for process in processes:
                process.send_signal(signal.SIGUSR2)
            wait_for("a trace of each rank", lambda: len(list(work.glob("profile/trace-*.json"))) == ranks)
            for path in work.glob("profile/trace-*.json"):
                json.loads(path.read_text())
            done = subprocess.run([report, "flight", work / "profile/comm-7f8c", "--json", "-"], capture_output=True, text=True)
            findings = json.loads(done.stdout)["findings"] if done.returncode in (0, 1, 2) else []
            if not findings or findings[0]["cause"] != "rank-behind" or "rank 1 is behind on 'DP'" not in findings[0]["verdict"]:
                sys.exit(f"FAILED: the rank that is behind is not named: {done}")
            port = next(line.rsplit(":", 1)[1] for line in said[0] if "figures for Prometheus" in line)
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS).read().decode()
            if 'weft_nccl_operations_ended_total{op="all_reduce"} 20\n' not in page:
                sys.exit(f"FAILED: the figures are others: {page}")
            for process in processes:
                process.communicate("\n", timeout=SECONDS)
                if process.returncode != 0:
                    sys.exit(f"FAILED: a rank ended with {process.returncode}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print("3 ranks, of which the one that is behind was named")


if __name__ == "__main__":
    if sys.argv[2] == "rank":
        rank_of(sys.argv[1], *map(int, sys.argv[3:6]))
    else:
        main(*sys.argv[1:3])
