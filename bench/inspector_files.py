#!/usr/bin/env python3
"""How fast weft-report inspector reads: writes files of NCCL's Inspector of many ranks, and prints the seconds and the peak memory of a report on them.

usage: bench/inspector_files.py WEFT_REPORT [MEGABYTES [RANKS]]      default 1,024 MB of 1,024 ranks, a file each

A file has a line for each operation, as NCCL 2.30 writes it (version v4.0 of the format). Times of ranks differ by a few tenths of a percent; rank 17 comes
last, by 5 %, and the report has to say so. The files are read once before, so the disk is not measured. Ends with 1 if another rank is named, or none.
"""
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

STRAGGLER = 17


def write_file(path, size, rank, ranks):
    chance = random.Random(rank)
    host, pid = f"node{rank // 8:03d}", 4000 + rank
    head = (f'{{"header":{{"id":"0x7f8c496ae9f661","comm_name":"DP Group 0","rank":{rank},"n_ranks":{ranks},"nnodes":{(ranks + 7) // 8}}},"metadata":'
            '{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":')
    number, written = 0, 0
    with open(path, "w") as file:
        while written < size:
            lines = []
            for _ in range(500):
                common = 1 + 0.01 * ((number * 2654435761) % 1000 / 1000)  # of the operation, the same on all ranks
                taken = round(9000 * common * (0.95 if rank == STRAGGLER else 1) * (1 + chance.uniform(-0.003, 0.003)))
                lines.append(f'{head}{1748030377748202 + number * 10000},"hostname":"{host}","pid":{pid}}},"coll_perf":{{"coll":"AllReduce","coll_sn":{number},'
                             f'"coll_msg_size_bytes":268435456,"coll_exec_time_us":{taken},"coll_timing_source":"kernel_gpu","coll_algobw_gbs":29.826162,"coll_busbw_gbs":59.594072}}}}\n')
                number += 1
            written += file.write("".join(lines))
    return written


def main():
    report = sys.argv[1]
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
    with tempfile.TemporaryDirectory() as work:
        total = sum(write_file(pathlib.Path(work) / f"node{rank // 8:03d}-pid{4000 + rank}.log", megabytes * 1000000 // ranks, rank, ranks) for rank in range(ranks))
        for path in pathlib.Path(work).iterdir():
            path.read_bytes()
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            done = subprocess.run([report, "inspector", work, "--json", "-"], stdout=subprocess.PIPE, check=False)
            seconds.append(time.perf_counter() - begin)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    named = [one["rank"] for one in json.loads(done.stdout)["stragglers"]]
    print(f"{total / 1e6:.0f} MB of {ranks} ranks: {min(seconds):.2f} s (the fastest of 3; slowest {max(seconds):.2f} s), {(used.ru_utime + used.ru_stime) / 3:.1f} s of one core, "
          f"peak memory {used.ru_maxrss / 1024:.0f} MB, named {named}, status {done.returncode}, {os.cpu_count()} cores")
    return 0 if named == [STRAGGLER] else 1


if __name__ == "__main__":
    sys.exit(main())
