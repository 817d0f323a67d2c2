#!/usr/bin/env python3
"""What it takes to start many ranks: processes on this machine, each told that it is a host of its own, meet over TCP, connect and sum twice.

usage: start_up.py [RANKS...]    32 64 128 256 512; BIN=build/recorded/bin: where gpu_victim is, of an emulated build; WEFT_DEVICE=host:
                                without devices

For each number of ranks: the time until all have ended, and of a rank (median, and rank 0, where the store and the fake NCCL's hub are) the
processor's time and the most memory. The sum is a device's, over emulated kernels and a fake NCCL: what is to be seen is what grows, and how.
"""

import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import time

TREE = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("BIN", TREE / "build/recorded/bin")).resolve()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(ranks):
    """(seconds, [(status, processor seconds, MiB) of each rank])"""
    shared = dict(os.environ, WEFT_SIZE=str(ranks), WEFT_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}", WEFT_TOKEN=secrets.token_hex(32),
                  WEFT_TRANSPORT="tcp", WEFT_DEVICE=os.environ.get("WEFT_DEVICE", "cuda"), WEFT_EMULATED_DEVICES="1", NCCL_SOCKET_IFNAME="lo", WEFT_FLIGHT_DIR="off",
                  WEFT_CONNECT_TIMEOUT="600", WEFT_HEAP_BYTES=str(1 << 24), WEFT_NCCL_LIBRARY=str(BIN.parent / "lib/libweft_fake_nccl.so"))
    began = time.monotonic()
    rank_of, result = {}, [None] * ranks
    for rank in range(ranks):
        own = dict(shared, WEFT_RANK=str(rank), WEFT_HOST_ID=f"host-{rank}", NCCL_HOSTID=f"host-{rank}")
        rank_of[subprocess.Popen(os.environ.get("PROGRAM", f"{BIN}/gpu_victim none 0 1").split(), env=own, stdout=subprocess.DEVNULL).pid] = rank
    for _ in range(ranks):
        process, status, used = os.wait4(-1, 0)
        result[rank_of[process]] = (status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
    return time.monotonic() - began, result


def main():
    failed = 0
    print("ranks    all have ended    a rank: processor, memory    rank 0: processor, memory")
    for ranks in [int(word) for word in sys.argv[1:]] or [32, 64, 128, 256, 512]:
        seconds, each = start(ranks)
        failed += sum(status != 0 for status, _, _ in each)
        processor, memory = (statistics.median(one[i] for one in each) for i in (1, 2))
        print(f"{ranks:5} {seconds:14.1f} s {processor:18.3f} s {memory:6.1f} MiB {each[0][1]:18.2f} s {each[0][2]:6.1f} MiB", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
