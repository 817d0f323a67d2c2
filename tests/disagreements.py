#!/usr/bin/env python3
"""Jobs in which one rank disagrees with the others: all of them are refused before their deadline, with both sides named.

usage: disagreements.py [COUNT [BIN]]    so many jobs (200), drawn with SEED

A rank counts other ranks, has the number of another, another token, another build of weft, another option, or says that it is
on another node; the ranks meet at a file, over TCP or through MPI, start in any order, and have SECONDS to connect.
Ends with 1 where a rank connected, stayed, or did not name who differs.
"""

import concurrent.futures
import os
import pathlib
import random
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

from trials import free_port

SECONDS = 4  # WEFT_CONNECT_TIMEOUT
KINDS = {"file": ["size", "rank", "version", "wire", "order", "progress", "node"],
         "tcp": ["size", "rank", "version", "wire", "order", "progress", "node", "token"],
         "mpi": ["size", "rank", "version", "wire", "order", "progress"]}


class Trial:
    """One job: `ranks` of them, of which `culprit` differs in `kind`."""

    def __init__(self, number, seed, peer):
        chance = random.Random(seed * 1_000_003 + number)
        self.meeting = chance.choice([name for name in KINDS if name != "mpi" or shutil.which("mpirun")])
        self.kind = chance.choice(KINDS[self.meeting])
        self.ranks = chance.randint(2, 5)
        self.culprit = chance.randrange(self.ranks)
        self.other = chance.choice([rank for rank in range(self.ranks) if rank != self.culprit])
        self.size = self.ranks + chance.choice([-1, 1, 2]) if self.ranks > 2 else self.ranks + 1
        self.size = max(self.size, self.culprit + 1)
        if self.size == self.ranks:
            self.size += 1
        self.delays = [chance.choice([0, chance.random() * 0.4]) for _ in range(self.ranks)]
        self.peer = str(peer)

    def __str__(self):
        return f"{self.kind} over {self.meeting}, {self.ranks} ranks, rank {self.culprit} differs"

    def claims(self, rank):
        """What a rank is told: variables, and words of its command."""
        variables = {"WEFT_CONNECT_TIMEOUT": str(SECONDS), "WEFT_FLIGHT_DIR": "off", "WEFT_TIMEOUT": "10"}
        words = [self.peer, "connect"]
        if self.meeting != "mpi":
            variables |= {"WEFT_RANK": str(rank), "WEFT_SIZE": str(self.ranks)}
        if self.kind == "node":  # UCX would carry data between two nodes
            variables["WEFT_TRANSPORT"] = "mpi"
        if rank != self.culprit:
            return variables, words
        if self.meeting == "mpi" and self.kind in ("size", "rank"):
            number, size = (rank, self.size) if self.kind == "size" else (self.other, self.ranks)
            variables |= {"WEFT_RANK": str(number), "WEFT_SIZE": str(size), "WEFT_RENDEZVOUS": "mpi"}
        elif self.kind == "size":
            variables["WEFT_SIZE"] = str(self.size)
        elif self.kind == "rank":
            variables["WEFT_RANK"] = str(self.other)
        elif self.kind == "version":
            words += ["--version", "0.0.9"]
        elif self.kind == "wire":
            words += ["--wire", "77"]
        elif self.kind == "order":
            variables["WEFT_ORDER"] = "canonical"
        elif self.kind == "progress":
            variables["WEFT_PROGRESS"] = "sometimes"
        elif self.kind == "node":
            variables["WEFT_HOST_ID"] = "elsewhere"
        elif self.kind == "token":
            variables["WEFT_TOKEN"] = secrets.token_hex(16)
        return variables, words

    def expected(self, rank):
        """What this rank's message has to say."""
        culprit = self.culprit
        if self.meeting == "mpi" and self.kind in ("size", "rank"):  # MPI itself counts: the culprit finds it out
            number, size = (culprit, self.size) if self.kind == "size" else (self.other, self.ranks)
            return rf"says rank {culprit} of {self.ranks}, but options or WEFT_RANK says rank {number} of {size}"
        if self.kind == "size":
            sides = rf"rank {culprit} \(process \d+ on [^)]*\)"
            return rf"{sides} counts {self.size} ranks?, rank \d+ \(.*\) {self.ranks}|counts {self.ranks} ranks, {sides} {self.size}"
        if self.kind == "rank" and culprit == 0:  # nobody makes the place where it would be noticed that two have one number
            return "rank 0 did not (create|answer)"
        if self.kind == "rank":
            return rf"rank {self.other} \(process \d+ on .*\) is there twice: process \d+ on"
        if self.kind == "token":
            wrong = "rank 0 at .* has another token than this process"
            absent = rf"rank.* \b{culprit}\b.* of {self.ranks} did not arrive within"
            if culprit == 0:
                return wrong if rank != 0 else r"rank.* \b1\b.* did not arrive within"
            return wrong if rank == culprit else absent
        if self.kind == "node":
            return rf"rank 0 on '.*', rank {culprit or 1} on '.*'\)"
        names = {"version": "version of weft", "wire": "wire format", "order": "WEFT_ORDER", "progress": "WEFT_PROGRESS"}
        return rf"rank {culprit or 1} has {names[self.kind]}=.*, rank 0 has {names[self.kind]}="

    def start(self, folder):
        if self.meeting == "mpi":
            script = ["case $OMPI_COMM_WORLD_RANK in"]
            for rank in range(self.ranks):
                variables, words = self.claims(rank)
                settings = " ".join(f"{name}={value}" for name, value in variables.items())
                script.append(f"{rank}) sleep {self.delays[rank]:.3f}; exec env {settings} {' '.join(words)} > {folder}/{rank} 2>&1 ;;")
            script.append("esac")
            mpi = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
            return [subprocess.Popen(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(self.ranks), "sh", "-c", "\n".join(script)],
                                     env=mpi, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        meeting = {"file": f"file://{folder}/meeting"}.get(self.meeting) or f"tcp://127.0.0.1:{free_port()}"
        token = secrets.token_hex(16)
        processes = []
        for rank in sorted(range(self.ranks), key=lambda rank: self.delays[rank]):
            variables, words = self.claims(rank)
            environment = dict(os.environ, WEFT_RENDEZVOUS=meeting, **{"WEFT_TOKEN": token, **variables})
            shell = f"sleep {self.delays[rank]:.3f}; exec " + " ".join(words)
            with open(f"{folder}/{rank}", "w") as out:
                processes.append(subprocess.Popen(["sh", "-c", shell], env=environment, stdout=out, stderr=subprocess.STDOUT))
        return processes

    def run(self):
        """What went wrong, and how long it took."""
        wrong = []
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            processes = self.start(folder)
            for process in processes:
                try:
                    status = process.wait(timeout=max(0.1, began + SECONDS + 5 - time.monotonic()))
                    if status == 0:
                        wrong.append("a process ended with 0")
                except subprocess.TimeoutExpired:
                    wrong.append("a process was still there after the deadline")
                    process.kill()
            took = time.monotonic() - began
            named = 0
            for rank in range(self.ranks):
                out = pathlib.Path(folder, str(rank))
                said = out.read_text(errors="replace") if out.exists() else ""
                if "connected" in said:
                    wrong.append(f"rank {rank} connected")
                # mpirun ends all others with the first that fails: what they had no time to say is Open MPI's.
                if self.meeting == "mpi" and not said.strip():
                    continue
                if not re.search(self.expected(rank), said):
                    wrong.append(f"process {rank} does not name both sides: {said.strip()}")
                named += 1
            if named == 0:
                wrong.append("no process said a word")
        return wrong, took


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 200
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    trials = [Trial(number, seed, programs / "soak_peer") for number in range(count)]
    failed, longest = 0, 0.0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for trial, (wrong, took) in zip(trials, pool.map(Trial.run, trials)):
            longest = max(longest, took)
            if wrong:
                failed += 1
                print(f"FAILED: {trial}")
                print("\n".join("    | " + line for line in "\n".join(wrong).splitlines()))
    print(f"{count} disagreements, {failed} not refused as they should; the longest took {longest:.1f} s of {SECONDS} s and 5")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
