#!/usr/bin/env python3
"""Jobs while the wall clock jumps: no deadline fires early or never, a training saves and goes on as ever, and records can be read.

usage: clocks.py [COUNT [BIN]]    so many jobs (100), drawn with SEED; KINDS=absent,save: of these alone

All processes of a job have a clock of ours (tests/soak/clock.cpp), whose CLOCK_REALTIME goes back and forth by 0.1 s to 10 years, every 20 to
300 ms, while ranks connect, wait, save, and are started again. What is measured here goes by another clock. Jobs are of 2 to 4 ranks (soak_peer) under
weft-launch, or by hand at a file, over TCP, and as nodes of their own over UCX and TCP; and of gpt-tiny and weft-scaling under weft-launch.
  whole     nothing happens                              all end with 0
  late      a rank comes 0.5 to 1.5 s after the others   the same
  slow      a rank is stopped for a second               the same
  absent    a rank never comes                           the others name it, no earlier than WEFT_CONNECT_TIMEOUT (2 s), and at most 7 s later
  stopped   a rank is stopped                            the others name it, no earlier than WEFT_TIMEOUT (2 s), and at most 5 s later; weft-report
                                                         flight reads what they leave and names it, too
  limit     a job with --timeout 1.5                     weft-launch ends it, no earlier, and at most 10 s later
  grace     a notice with --grace 1.5 to ranks that do not hear it                                    the same
  save      a training that is told to save and end, and goes on      its end is bitwise that of one without jumps
  restart   a training of which a rank is killed, with --max-restarts 3    the same
  trace     a training with --trace                      it is JSON, and spans begin and last within two minutes
Ends with 1 where a job did otherwise.
"""

import json
import mmap
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import restarts
from deaths import BY_HAND, Job
from trials import asked, free_port, kill_all, processes, run_all, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
PEERS = ["whole", "late", "slow", "absent", "stopped"]
KINDS = PEERS + ["limit", "grace", "save", "restart", "trace"]
TIMEOUT = CONNECT = 2.0
LIMIT = 1.5
STEPS, EVERY = 200, 10


class Clock:
    """The wall clock of all processes with its environment."""

    def __init__(self, folder, library, chance):
        self.path = pathlib.Path(folder) / "clock"
        self.path.write_bytes(bytes(16))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 16)
        self.environment = {"LD_PRELOAD": str(library), "WEFT_SOAK_CLOCK": str(self.path)}
        self.chance, self.over, self.jumps = chance, threading.Event(), 0
        self.thread = threading.Thread(target=self.jump)
        self.thread.start()

    def jump(self):
        while not self.over.wait(self.chance.uniform(0.02, 0.3)):
            seconds = self.chance.choice((-1, 1)) * 10 ** self.chance.uniform(-1, 8.5)
            self.map[:8] = struct.pack("<q", int(seconds * 1e9))
            self.jumps += 1

    def end(self):
        """How many processes had it."""
        self.over.set()
        self.thread.join()
        return struct.unpack("<q", self.map[8:16])[0]


class Trial:
    def __init__(self, number, chance, kinds, has_ucx):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.seed = chance.randrange(1 << 32)
        self.chance = random.Random(self.seed)
        launchers = ["launch", "file", "tcp", "tcp nodes"] + (["ucx"] if has_ucx else [])
        self.launcher = self.chance.choice(launchers if self.kind in ("whole", "slow", "stopped") else launchers[1:]) if self.kind in PEERS else "launch"
        self.ranks = self.chance.randint(2, 4)
        self.victim = self.ranks - 1 if self.kind in ("late", "absent") else self.chance.randrange(self.ranks)

    def __str__(self):
        return f"{self.kind}, {self.launcher}, rank {self.victim} of {self.ranks}, seed {self.seed}"

    def run(self, programs, reference):
        """(what went wrong, what was said)"""
        with tempfile.TemporaryDirectory(prefix="weft-clocks-") as folder:
            self.job = Job("ucx" if self.launcher == "tcp nodes" else self.launcher, self.ranks, programs, folder, self.number)
            self.clock = Clock(folder, programs / "libsoak_clock.so", self.chance)
            self.job.environment.update(self.clock.environment, WEFT_TIMEOUT=str(TIMEOUT), WEFT_CONNECT_TIMEOUT=str(CONNECT if self.kind == "absent" else 20),
                                        OMP_NUM_THREADS="1", **({"WEFT_TRANSPORT": "tcp"} if self.launcher == "tcp nodes" else {}))
            try:
                wrong = self.peers(programs) if self.kind in PEERS else getattr(self, self.kind)(programs, pathlib.Path(folder), reference)
            finally:
                served = self.clock.end()
                for process, _, _ in processes(self.job.mark):
                    os.kill(process, signal.SIGCONT)
                kill_all(self.job.mark)
            if served < 1 or self.clock.jumps == 0:
                wrong.append(f"{served} processes had the clock, which jumped {self.clock.jumps} times")
            return wrong, self.job.output()

    # ranks of soak_peer

    def peers(self, programs):
        job = self.job
        began = time.monotonic()
        if self.kind in ("late", "absent"):
            self.start_but_the_victim()
            if self.kind == "absent":
                return self.judge(began, CONNECT, 7, "rank")
            time.sleep(self.chance.uniform(0.5, 1.5))
            job.started.append(self.start_rank(self.victim))
            return job_ends_well(job)
        job.start()
        if self.kind == "whole":
            return job_ends_well(job)
        if wait_until(lambda: self.victim in job.rank_processes(), 20, 0.001) is None:
            return ["the rank never came"]
        wait_until(lambda: len(job.rank_processes()) == self.ranks, 20, 0.001)
        time.sleep(0.5)  # they are at work
        process = job.rank_processes().get(self.victim)
        if process is None:
            return job_ends_well(job)
        os.kill(process, signal.SIGSTOP)
        stopped = time.monotonic()
        if self.kind == "slow":
            time.sleep(1)
            os.kill(process, signal.SIGCONT)
            return job_ends_well(job)
        wrong = self.judge(stopped, TIMEOUT, 5 if self.launcher != "launch" else 15, "waited", but=[process])
        return wrong + self.flight(programs)

    def start_rank(self, rank):
        meeting = f"file://{self.job.folder}/meeting" if self.launcher == "file" else f"tcp://127.0.0.1:{self.port}"
        more = {"WEFT_HOST_ID": f"node-{rank}"} if self.job.launcher == "ucx" else {}
        return self.job.popen(self.job.program, f"rank{rank}", WEFT_RANK=str(rank), WEFT_SIZE=str(self.ranks), WEFT_RENDEZVOUS=meeting, **more)

    def start_but_the_victim(self):
        self.port = free_port()
        self.job.started = [self.start_rank(rank) for rank in range(self.ranks) if rank != self.victim]

    def judge(self, since, least, more, words, but=()):
        """All end, no earlier than `least` seconds after `since`, and at most so many more later, and name the rank."""
        job, first = self.job, None
        while job.alive(but) and time.monotonic() - since < least + more:
            if first is None and any(status is not None for status in job.statuses()):
                first = time.monotonic() - since
            time.sleep(0.005)
        last = time.monotonic() - since
        wrong = [f"{job.alive(but)} still there after {last:.1f} s"] if job.alive(but) else []
        first = last if first is None else first
        said = job.output()
        if "done" in said:
            return wrong  # it was over before
        if first < least - 0.1:
            wrong.append(f"the first ended after {first:.2f} s, before the deadline of {least} s")
        for rank in set(range(self.ranks)) - {self.victim}:
            own = pathlib.Path(job.folder, f"rank{rank}").read_text() if self.launcher in BY_HAND + ("tcp nodes",) else said
            if not re.search(rf"{words}.*\brank {self.victim}\b|\brank {self.victim}\b.*did not|\branks? (\d+, )*{self.victim}\b", own.replace(f"weft: rank {rank}:", "")):
                wrong.append(f"rank {rank} does not name rank {self.victim}")
        return wrong

    def flight(self, programs):
        folder = pathlib.Path(self.job.folder) / "flight"
        if not folder.exists():
            return [] if "done" in self.job.output() else ["no flight records"]
        report = subprocess.run([programs / "weft-report", "flight", folder], capture_output=True, text=True, check=False, env=dict(os.environ, **self.clock.environment))
        names = re.search(rf"\brank {self.victim}\b", report.stdout)
        return [] if report.returncode in (1, 2) and names else [f"weft-report flight: status {report.returncode}: {report.stdout[:400]}{report.stderr[:400]}"]

    # weft-launch

    def launched(self, words, name="job"):
        return self.job.popen([str(word) for word in words], name)

    def between(self, job, since, least, most):
        if wait_until(lambda: job.poll() is not None, most) is None:
            return [f"it still runs after {most} s"]
        took = time.monotonic() - since
        return [f"it ended after {took:.2f} s, before {least} s"] if took < least else []

    def limit(self, programs, *_):
        since = time.monotonic()
        job = self.launched([programs / "weft-launch", "-n", self.ranks, "--timeout", LIMIT, "sleep", "60"])
        wrong = self.between(job, since, LIMIT, LIMIT + 10)
        return wrong or ([] if job.returncode == 75 and "still running after" in self.job.output() else [f"status {job.returncode}"])

    def grace(self, programs, folder, _):
        (folder / "deaf").write_text("trap '' USR1 TERM\necho waits\nsleep 60 & wait; sleep 60\n")
        job = self.launched([programs / "weft-launch", "-n", self.ranks, "--grace", LIMIT, "bash", folder / "deaf"])
        if wait_until(lambda: self.job.output().count("waits") == self.ranks, 20) is None:
            return ["the ranks do not start"]
        since = time.monotonic()
        job.send_signal(signal.SIGUSR1)
        wrong = self.between(job, since, LIMIT, LIMIT + 10)
        return wrong or ([] if job.returncode == 75 else [f"status {job.returncode}"])

    # trainings

    def save(self, programs, folder, reference):
        saved = folder / "saved"
        at = self.chance.randrange(1, STEPS // 2)
        for told in (True, False):
            job = self.launched(training(programs, saved, STEPS))
            if told:
                wait_until(lambda: job.poll() is not None or restarts.newest(saved) >= at, 120, 0.002)
                job.send_signal(signal.SIGUSR1)
            if wait_until(lambda: job.poll() is not None, 120) is None:
                return ["the training does not end"]
            if job.returncode not in ((0, 75) if told else (0,)):
                return [f"status {job.returncode} {'of the one that was told to save and end' if told else 'of the one that goes on'}"]
        return differs(programs, reference, saved)

    def restart(self, programs, folder, reference):
        saved = folder / "saved"
        job = self.launched(training(programs, saved, STEPS))
        at = self.chance.randrange(0, STEPS // 2)
        if wait_until(lambda: job.poll() is not None or restarts.newest(saved) >= at and restarts.ranks_of(saved), 120, 0.002) is None:
            return ["the training does not come so far"]
        victims = restarts.ranks_of(saved)
        if victims:
            os.kill(self.chance.choice(victims), signal.SIGKILL)
        if wait_until(lambda: job.poll() is not None, 120) is None:
            return ["the training does not end"]
        if job.returncode != 0 or victims and "starting again" not in self.job.output():
            return [f"status {job.returncode}"]
        return differs(programs, reference, saved)

    def trace(self, programs, folder, _):
        path = folder / "trace.json"
        job = self.launched([programs / "weft-launch", "-n", 2, programs / "weft-scaling", "--model", "gpt-tiny", "--text", TREE / "README.md", "--steps", 30, "--trace", path, "-q"])
        if wait_until(lambda: job.poll() is not None, 120) is None or job.returncode != 0:
            return [f"the training ends with {job.returncode}"]
        events = json.loads(path.read_text())
        spans = [event for event in (events["traceEvents"] if isinstance(events, dict) else events) if event.get("ph") == "X"]
        first = min((float(event["ts"]) for event in spans), default=0)
        wrong = [event for event in spans if float(event["ts"]) - first > 120e6 or not 0 <= float(event["dur"]) < 120e6]
        return [f"of {len(spans)} spans these make no sense: {wrong[:3]}"] if wrong or not spans else []


def training(programs, folder, steps):
    return [programs / "weft-launch", "-n", 2, "--max-restarts", 3, "--", programs / "gpt", "--model", "gpt-tiny", "--text", TREE / "README.md", "--steps", steps,
            "--checkpoint", folder, "--checkpoint-every", EVERY, "--quiet"]


def differs(programs, reference, saved):
    compared = subprocess.run([programs / "weft-plan", "checkpoint", reference, "--diff", saved], capture_output=True, text=True, check=False)
    return [] if compared.returncode == 0 and "are alike" in compared.stdout else [f"another end: {compared.stdout[-300:]}{compared.stderr[-300:]}"]


def job_ends_well(job):
    if wait_until(lambda: None not in job.statuses(), 40) is None:
        return ["the job does not end"]
    return [] if set(job.statuses()) == {0} else [f"undisturbed, but ended with {job.statuses()}"]


def main():
    count, programs, chance, kinds = asked(KINDS)
    absent = [name for name in ("gpt", "weft-scaling") if not (programs / name).exists()]
    if absent:
        kinds = [kind for kind in kinds if kind not in ("save", "restart", "trace")]
        print(f"left out, for this build has no {' and no '.join(absent)}: trainings")
    has_ucx = b"libucp.so" in (programs / "soak_peer").read_bytes()
    jumps = []
    with tempfile.TemporaryDirectory(prefix="weft-clocks-") as kept:
        reference = pathlib.Path(kept) / "whole"
        if {"save", "restart"} & set(kinds):
            subprocess.run([str(word) for word in training(programs, reference, STEPS)], env=dict(os.environ, WEFT_FLIGHT_DIR="off", OMP_NUM_THREADS="1"),
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=300)

        def run(trial):
            wrong, said = trial.run(programs, reference)
            jumps.append(trial.clock.jumps)
            return wrong, said

        return run_all(count, lambda number: Trial(number, chance, kinds, has_ucx), run, lambda: f"{sum(jumps)} jumps, ")


if __name__ == "__main__":
    sys.exit(main())
