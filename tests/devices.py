#!/usr/bin/env python3
"""Device jobs on four simulated hosts, started with variables alone, of which one rank is killed, stopped, leaves or disagrees: every other
rank ends in time and names it.

usage: devices.py [COUNT [BIN]]    so many jobs (100), drawn with SEED

Kernels are emulated, and NCCL is a fake whose ranks are processes (tests/fake_nccl); what ranks tell each other is weft's own, over TCP.
4 to 8 ranks, one or two on a host, each with a device of its own. Where this user is not root the hosts are but said to be (WEFT_HOST_ID).
WEFT_TIMEOUT is 5 s. NCCL hears of a rank that died in half of the jobs, and in the other half nobody tells it.
  kill      SIGKILL at a step or at any moment: every other process has ended 5 s later, with 75
  stop      SIGSTOP: every other process has ended 5 s after the deadline, with 75
  leave     it ends as if all were done: the others have ended 5 s later, with 75
  disagree  it sums less than the others: every process has ended 5 s later, with 42
  none      nothing happens: all end with 0
Ends with 1 where a job did otherwise.
"""

import collections
import os
import pathlib
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time

from trials import kill_all, processes, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(TREE / "launchers/cluster.sh")
HOSTS, TIMEOUT, IN_TIME = 4, 5, 5
FIRST_HOST = "10.77.0.10"  # of launchers/cluster.sh
KINDS = ["kill", "kill", "stop", "leave", "disagree", "none"]


class Trial:
    def __init__(self, number, seed, on_hosts, bin_folder):
        chance = random.Random(seed * 1_000_003 + number)
        self.kind = KINDS[number % len(KINDS)]
        self.ranks = chance.randint(4, 8)
        self.victim = chance.randrange(self.ranks)
        self.step = chance.choice([0, 1, chance.randrange(400)])
        self.is_silent = chance.random() < 0.5
        # A kill may also come from outside, at any moment of the steps.
        self.delay = chance.random() * 0.5 if self.kind == "kill" and chance.random() < 0.5 else None
        self.port = chance.randrange(20_000, 32_000)  # below those that the system gives to connections
        self.on_hosts, self.bin = on_hosts, bin_folder
        self.mark = f"WEFT_TRIAL={os.getpid()}.{number}"

    def __str__(self):
        moment = f"at step {self.step}" if self.delay is None else f"{self.delay:.2f} s after the first word"
        return f"{self.kind} of rank {self.victim} of {self.ranks} {moment}, {'silent' if self.is_silent else 'heard'}"

    def host_of(self, rank):
        return rank * HOSTS // self.ranks

    def start(self, rank):
        host = self.host_of(rank)
        near = [other for other in range(self.ranks) if self.host_of(other) == host]
        variables = {"WEFT_RANK": rank, "WEFT_SIZE": self.ranks, "WEFT_RENDEZVOUS": self.meeting, "WEFT_TOKEN": self.token, "WEFT_DEVICE": "cuda",
                     "WEFT_TRANSPORT": "tcp", "WEFT_TIMEOUT": TIMEOUT, "WEFT_FLIGHT_DIR": "off", "WEFT_EMULATED_DEVICES": len(near),
                     "WEFT_NCCL_LIBRARY": self.bin.parent / "lib/libweft_fake_nccl.so", "WEFT_FAKE_NCCL": "silent" if self.is_silent else "",
                     "NCCL_SOCKET_IFNAME": "eth0" if self.on_hosts else "lo"}
        if not self.on_hosts:
            variables |= {"WEFT_HOST_ID": f"host-{host}", "NCCL_HOSTID": f"host-{host}"}
        mark, value = self.mark.split("=")
        how = self.kind if self.delay is None else "wait"
        command = ([CLUSTER, "exec", str(host)] if self.on_hosts else []) + [str(self.bin / "gpu_victim"), how, str(self.victim), str(self.step)]
        with open(self.folder / f"{rank}", "w") as out:
            return subprocess.Popen(command, env=dict(os.environ, **{name: str(one) for name, one in variables.items()}, **{mark: value}),
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def said(self, rank):
        return (self.folder / f"{rank}").read_text(errors="replace")

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = pathlib.Path(folder)
            self.token = secrets.token_hex(32)
            self.meeting = f"tcp://{FIRST_HOST if self.on_hosts else '127.0.0.1'}:{self.port}"
            self.started = [self.start(rank) for rank in range(self.ranks)]
            try:
                wrong = self.judge()
            finally:
                kill_all(self.mark)
                for process in self.started:
                    process.wait()
            return wrong, "".join(f"rank {rank}: {line}\n" for rank in range(self.ranks) for line in self.said(rank).splitlines()), self.took

    def judge(self):
        self.took = None
        everybody = range(self.ranks)
        if wait_until(lambda: "now" in self.said(self.victim) or self.started[self.victim].poll() is not None, 60) is None:
            return ["the moment does not come"]
        if self.delay is not None:
            time.sleep(self.delay)
            victim = [process for process, name, environment in processes(self.mark)
                      if name == "gpu_victim" and environment.get("WEFT_RANK") == str(self.victim)]
            if victim:
                os.kill(victim[0], signal.SIGKILL)
        others = [rank for rank in everybody if rank != self.victim]
        judged = everybody if self.kind in ("disagree", "none") else others
        limit = {"stop": TIMEOUT + IN_TIME, "none": 60}.get(self.kind, IN_TIME)
        self.took = wait_until(lambda: all(self.started[rank].poll() is not None for rank in judged), limit)
        if self.took is None:
            return [f"rank {rank} is still there {limit} s later" for rank in judged if self.started[rank].poll() is None]
        status = {"disagree": 42, "none": 0}.get(self.kind, 75)
        wrong = [f"rank {rank} ended with {self.started[rank].returncode}" for rank in judged if self.started[rank].returncode != status]
        if self.kind != "none":
            wrong += [f"rank {rank} does not name rank {self.victim}" for rank in judged if not self.names_victim(rank)]
        return wrong

    def names_victim(self, rank):
        errors = re.findall(r"^weft: rank \d+: (.*)$", self.said(rank), re.MULTILINE)
        return any(re.search(rf"\brank {self.victim}\b", error) for error in errors)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 100
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else TREE / "build/recorded/bin").resolve()
    seed = int(os.environ.get("SEED", "1"))
    on_hosts = os.environ.get("HOSTS", "yes") == "yes" and subprocess.run([CLUSTER, "up", str(HOSTS), "1gbit"], capture_output=True).returncode == 0
    if not on_hosts:
        print("no simulated hosts: ranks are told on which they are")
    failed, tally, times = 0, collections.Counter(), collections.defaultdict(list)
    try:
        for number in range(count):
            trial = Trial(number, seed, on_hosts, programs)
            wrong, said, took = trial.run()
            tally[trial.kind] += 1
            if took is not None:
                times[trial.kind].append(took)
            if wrong:
                failed += 1
                print(f"FAILED: job {number}: {trial}: " + "; ".join(wrong))
                print("\n".join("    | " + line for line in said.splitlines()[:40]), flush=True)
    finally:
        if on_hosts:
            subprocess.run([CLUSTER, "down"], capture_output=True)
    for kind, all_times in sorted(times.items()):
        if kind != "none":
            ordered = sorted(all_times)
            print(f"{kind} {tally[kind]}: all had ended after {ordered[len(ordered) // 2]:.2f} s (median), {ordered[-1]:.2f} s (most)")
    print(f"{count} jobs, {failed} did otherwise than they should")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
