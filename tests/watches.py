#!/usr/bin/env python3
"""weft-report watch beside trainings under weft-launch, of which a rank is stopped, killed, made slow, or cut off at a random moment: the watch names that
rank, and no other; and beside as many trainings that are well, where it has nothing to say.

usage: watches.py [COUNT [BIN]]    so many faults (200), and as many healthy trainings, drawn with SEED; KINDS=stop,kill: these alone (stop, kill, slow, cut, well);
MODEL=gpt-ref: the model that is trained (gpt-tiny); HOSTS=no: on this machine alone; AT_ONCE=2: so many trainings at a time (1)

A training has the machine to itself, or shares it with AT_ONCE - 1 others. What its watch waits for when it is over takes no processor, and the next one begins
meanwhile. On hosts there is one at a time.

Two to four ranks, on this machine or, as root, on three simulated hosts (launchers/cluster.sh) with one or two ranks each. The watch asks the ranks' metrics
(weft-scaling --metrics) every second, reads the flight records and the launcher's lines, and has a patience of 3 s (30 with another model than gpt-tiny).
  stop   SIGSTOP
  kill   SIGKILL: the job ends, and the launcher, or what the others leave, names the rank
  slow   SIGSTOP and SIGCONT in turn, so that its steps take about three times as long: named while the job goes on
  cut    the link of the rank's host goes down: the ranks of that host are named
  well   nothing: the job comes to its end; no finding, and status 0
Ends with 1 where a watch said otherwise.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from trials import asked, kill_all, processes, run_all, wait_until

TREE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(TREE / "launchers/cluster.sh")
MODEL = os.environ.get("MODEL", "gpt-tiny")
FAULTS = ["stop", "kill", "slow", "cut"]
HOSTS, PATIENCE = 3, 3 if MODEL == "gpt-tiny" else 30  # before it trains, weft-scaling has rank 0 alone take some steps of a model
HEALTHY_STEPS = (3000, 9000) if MODEL == "gpt-tiny" else (10, 40)
AT_ONCE = int(os.environ.get("AT_ONCE", "1"))
TRAININGS = threading.Semaphore(AT_ONCE)
SIMULATED_HOSTS = threading.Lock()
ENDING = 6  # trainings that are over, whose watch has not ended
LONGEST = 90 if MODEL == "gpt-tiny" else 300  # for the watch to speak; a slow rank is named after two accounts of 64 steps


def free_ports(count, number):
    """The first of so many ports in a row that nobody has, below those that the kernel gives out. Trials that run at once have others: a watch that ends
    does not see the next training."""
    for port in range(20000 + (os.getpid() * 64 + number * 8) % 10000, 32000, count):
        try:
            for one in range(port, port + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", one))
            return port
        except OSError:
            continue
    raise SystemExit("there are no free ports")


class Training:
    def __init__(self, trial, programs, folder):
        self.mark = f"WEFT_TRIAL={os.getpid()}.{trial.number}"
        name, value = self.mark.split("=")
        self.port, self.folder = free_ports(trial.ranks, trial.number), folder
        (folder / "flight").mkdir()
        text = folder / "text.txt"
        text.write_text("some text to train on, of 26 letters and a few more\n" * 2000)
        steps = str(trial.steps)
        words = [programs / "weft-launch", "-n", trial.ranks]
        asks = ["--ranks", f"{self.port}-{self.port + trial.ranks - 1}"]
        more = []
        if trial.on_hosts:
            (folder / "hosts").write_text("".join(f"wefth{i} slots={trial.slots} address=10.77.0.{10 + i}\n" for i in range(HOSTS)))
            words += ["--hosts", folder / "hosts", "--agent", f"{CLUSTER} agent"]
            asks = [word for i in range(HOSTS) for word in ("--ranks", f"10.77.0.{10 + i}:{self.port}-{self.port + trial.slots - 1}")]
            more = ["--metrics-bind", "0.0.0.0"]
        words += [programs / "weft-scaling", "--model", MODEL, "--text", text, "--strategies", "ddp", "--steps", steps, "--metrics", self.port, *more]
        environment = dict(os.environ, TMPDIR=str(folder), WEFT_FLIGHT_DIR=str(folder / "flight"), WEFT_TRANSPORT="tcp", OPENBLAS_NUM_THREADS="1", **{name: value})
        environment.pop("NCCL_RAS_ADDR", None)
        self.out = open(folder / "job", "w")
        self.job = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT, env=environment)
        self.watch = subprocess.Popen([str(programs / "weft-report"), "watch", *asks, "--records", str(folder / "flight"), "--logs", str(folder / "job"), "--every", "1", "--patience", str(PATIENCE),
                                       "--json", str(folder / "verdict.json")],
                                      stdin=subprocess.DEVNULL, stdout=open(folder / "said", "w"), stderr=subprocess.STDOUT)

    def said(self):
        return (self.folder / "said").read_text()

    def rank_processes(self):
        return {int(environment["WEFT_RANK"]): process for process, name, environment in processes(self.mark)
                if name == "weft-scaling" and "WEFT_RANK" in environment}

    def alarm(self):
        return re.search(r"^\S+ (?:flight records: |logs: )?(?:critical|warning): ", self.said(), re.M)

    def end(self):
        for process, _, _ in processes(self.mark):  # so that none sees another die, and says so
            try:
                os.kill(process, signal.SIGSTOP)
            except ProcessLookupError:
                pass
        kill_all(self.mark)
        self.job.wait()
        self.out.close()

    def verdict(self):
        """(its status, [(cause, the ranks that it names)] of what is more than a notice)"""
        try:
            status = self.watch.wait(60)
        except subprocess.TimeoutExpired:
            self.watch.kill()
            return None, []
        findings = json.loads((self.folder / "verdict.json").read_text())["findings"]
        return status, [(one["cause"], ranks_of(one), one["verdict"]) for one in findings if one["severity"] != "notice"]


def ranks_of(finding):
    """Findings of flight records name ranks in words: "ranks 1, 2 left no record"."""
    if finding["ranks"]:
        return sorted(finding["ranks"])
    words = re.match(r"ranks? ([\d, and]+)", finding["verdict"])
    return sorted(int(number) for number in re.findall(r"\d+", words[1])) if words else []


class Slowed(threading.Thread):
    """A rank that has the processor for a third of the time."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.over = process, threading.Event()

    def run(self):
        try:
            while not self.over.is_set():
                os.kill(self.process, signal.SIGSTOP)
                time.sleep(0.04)
                os.kill(self.process, signal.SIGCONT)
                time.sleep(0.02)
        except ProcessLookupError:
            pass


class Trial:
    def __init__(self, number, kinds, chance, with_hosts):
        self.number, self.kind = number, kinds[number % len(kinds)]
        self.on_hosts = with_hosts and (self.kind == "cut" or chance.random() < 0.25)
        self.slots = chance.randint(1, 2)
        self.ranks = self.slots * HOSTS if self.on_hosts else chance.randint(2, 4)
        self.victim = chance.randrange(self.ranks)
        self.moment = chance.uniform(0, 3)
        self.steps = 1000000 if self.kind != "well" else chance.randint(*HEALTHY_STEPS)
        self.seconds = 0.0

    def __str__(self):
        return f"{self.kind}, rank {self.victim} of {self.ranks}{' on hosts' if self.on_hosts else ''}, {self.moment:.3f} s after all answered"

    def run(self, programs):
        with tempfile.TemporaryDirectory(prefix="weft-watches-") as name:
            with SIMULATED_HOSTS if self.on_hosts else contextlib.nullcontext(), TRAININGS:
                began = time.monotonic()
                training = Training(self, programs, pathlib.Path(name))
                try:
                    wrong = self.well(training) if self.kind == "well" else self.disturb(training)
                finally:
                    training.end()
                self.seconds = time.monotonic() - began
            try:
                wrong = wrong or (self.judge_well(training) if self.kind == "well" else self.judge(training))
            finally:
                training.watch.kill()
                training.watch.wait()
            return wrong, training.said() + (training.folder / "job").read_text(errors="replace")

    def guilty(self):
        if self.kind != "cut":
            return [self.victim]
        host = self.victim // self.slots
        return list(range(host * self.slots, (host + 1) * self.slots))

    def disturb(self, training):
        if wait_until(lambda: "ranks of weft answer" in training.said() or training.job.poll() is not None, 60) is None:
            return ["the ranks never answered"]
        time.sleep(self.moment)
        process = training.rank_processes().get(self.victim)
        if process is None:
            return ["the rank is not there"]
        restore = getattr(self, self.kind)(process)
        try:
            spoke = wait_until(lambda: training.alarm() or training.watch.poll() is not None, LONGEST)
        finally:
            restore()
        return [] if spoke is not None else [f"nothing was said within {LONGEST} s"]

    def judge(self, training):
        status, named = training.verdict()
        wrong = [] if status in (1, 2) else [f"the watch ended with {status}"]
        wrong += [f"{verdict} [{cause}]" for cause, ranks, verdict in named if ranks != self.guilty()]
        return wrong if named else [*wrong, "no rank is named"]

    def well(self, training):
        return [] if wait_until(lambda: training.job.poll() is not None, 300, 0.1) is not None else ["the training does not end"]

    @staticmethod
    def judge_well(training):
        status, named = training.verdict()
        lines = re.findall(r"^\S+ .*(?:critical|warning|over): .*$", training.said(), re.M)
        return [f"alarm: {line}" for line in lines] + ([f"the watch ended with {status}, {named}"] if status != 0 or named else [])

    def stop(self, process):
        os.kill(process, signal.SIGSTOP)
        return lambda: None

    def kill(self, process):
        os.kill(process, signal.SIGKILL)
        return lambda: None

    def slow(self, process):
        slowed = Slowed(process)
        slowed.start()

        def restore():
            slowed.over.set()
            slowed.join()
        return restore

    def cut(self, process):
        link = ["ip", "link", "set", f"wefttv{self.victim // self.slots}"]
        subprocess.run([*link, "down"], check=True)
        return lambda: subprocess.run([*link, "up"], check=True)


def main():
    count, programs, chance, kinds = asked(FAULTS + ["well"], 200)
    with_hosts = False
    if os.environ.get("HOSTS", "yes") == "yes":
        up = subprocess.run([CLUSTER, "up", str(HOSTS), "1gbit"], capture_output=True, text=True, check=False)
        with_hosts = up.returncode == 0
        if not with_hosts:
            print(f"left out, for there are no simulated hosts: cut; {up.stderr.strip()}")
    faults = [kind for kind in FAULTS if kind in kinds and (kind != "cut" or with_hosts)]
    # As many that are well as that are not.
    order = [kind for fault in faults for kind in ([fault, "well"] if "well" in kinds else [fault])] or ["well"]
    if "well" in kinds and faults:
        count *= 2
    trials = []

    def drawn(number):
        trials.append(Trial(number, order, chance, with_hosts))
        return trials[-1]

    def took():
        by_kind = {kind: [one.seconds for one in trials if one.kind == kind] for kind in dict.fromkeys(order)}
        return "s each: " + ", ".join(f"{kind} {statistics.median(all_of):.1f}" for kind, all_of in by_kind.items() if all_of) + "; "

    try:
        return run_all(count, drawn, lambda trial: trial.run(programs), took, AT_ONCE + ENDING)
    finally:
        if with_hosts:
            subprocess.run([CLUSTER, "down"], capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
