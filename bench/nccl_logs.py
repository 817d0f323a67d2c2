#!/usr/bin/env python3
"""How fast weft-report nccl reads: writes logs of many ranks, and prints the seconds and the peak memory of a report on them.

usage: bench/nccl_logs.py WEFT_REPORT [MEGABYTES [RANKS]]      default 100 MB of 1,024 ranks, a file each

A log is what NCCL prints at INFO when a job begins, and lines of its collectives (subsystem COLL): no two lines are equal. The files are
read once before, so the disk is not measured.
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def start(host, pid, rank, ranks):
    at = f"{host}:{pid}:{pid} [{rank % 8}] NCCL INFO "
    yield at + f"Bootstrap: Using eth0:10.{rank // 8 // 250}.{rank // 8 % 250}.1<0>"
    yield at + "cudaDriverVersion 13000"
    yield at + "NCCL version 2.27.5+cuda12.9"
    yield at + "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    yield at + "NCCL_IB_HCA set to mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    yield at + "NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8)) + " [RO]; OOB eth0:10.0.0.1<0>"
    yield at + "Using network IB"
    yield at + f"ncclCommInitRank comm 0x55{pid:010x} rank {rank} nranks {ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId 1b000 commId 0x7b886504f1fc7c9b - Init START"
    yield at + f"comm 0x55{pid:010x} rank {rank} nRanks {ranks} nNodes {ranks // 8} localRanks 8 localRank {rank % 8} MNNVL 0"
    for channel in range(16):
        yield at + f"Channel {channel:02d}/0 : {rank}[{rank % 8}] -> {rank + 1}[{(rank + 1) % 8}] via P2P/CUMEM/read"
        yield at + f"Channel {channel:02d}/0 : {rank}[{rank % 8}] -> {rank + 8}[{rank % 8}] [send] via NET/IB/{channel % 8}/GDRDMA"
    yield at + f"ncclCommInitRank comm 0x55{pid:010x} rank {rank} nranks {ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId 1b000 commId 0x7b886504f1fc7c9b - Init COMPLETE"


def write_log(path, size, rank, ranks):
    host, pid = f"node{rank // 8:03d}", 4000 + rank
    with open(path, "w") as file:
        written = file.write("\n".join(start(host, pid, rank, ranks)) + "\n")
        operation = 0
        while written < size:
            block = "".join(
                f"{host}:{pid}:{pid} [{rank % 8}] NCCL INFO AllReduce: opCount {operation + i:x} sendbuff 0x7f{operation + i:010x} recvbuff "
                f"0x7f{operation + i:010x} count {(operation + i) * 64} datatype 7 op 0 root 0 comm 0x55{pid:010x} [nranks={ranks}] stream 0x5580\n"
                for i in range(1000))
            block = block[: max(0, size - written)]
            written += file.write(block)
            operation += 1000
    return written


def main():
    report = sys.argv[1]
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
    with tempfile.TemporaryDirectory() as work:
        total = sum(write_log(pathlib.Path(work) / f"rank-{rank:04d}.log", megabytes * 1000000 // ranks, rank, ranks) for rank in range(ranks))
        for path in pathlib.Path(work).iterdir():
            path.read_bytes()
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            status = subprocess.run([report, "nccl", work], stdout=subprocess.DEVNULL, check=False).returncode
            seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    best = min(seconds)
    print(f"{total / 1e6:.0f} MB of {ranks} ranks: {best:.2f} s (the fastest of 3; slowest {max(seconds):.2f} s), {total / 1e6 / best:.0f} MB/s, "
          f"peak memory {peak:.0f} MB, status {status}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
