#!/usr/bin/env python3
"""SIGUSR1 to weft-launch is a notice: all ranks get it, on this machine and on several hosts, from whom the kernel lets send it alone.

usage: notices_test.py PATH_OF_WEFT_LAUNCH

Hosts are names on this machine, reached through an agent that does what ssh does. Another user's notice needs root, who can be others.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

LAUNCH = os.path.abspath(sys.argv[1])
RANK = "trap 'echo rank $WEFT_RANK saves; exit 75' USR1; echo rank $WEFT_RANK runs; while :; do sleep 0.05; done"
AGENT = """#!/bin/sh
host=$1
shift
exec env -i PATH="$PATH" WEFT_HOST_ID="$host" sh -c "$*"
"""
RANKS = 4
OWNER, STRANGER = 65533, 65534  # users without a name do
failures = 0


def check(name, holds, shown=""):
    global failures
    print(f"{'ok' if holds else 'FAILED'}: {name}{'' if holds else f': {shown}'}", flush=True)
    failures += not holds


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("WEFT_", "RANK", "WORLD_SIZE", "MASTER_"))}


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


class Job:
    """Ranks that run until they are told to save."""

    def __init__(self, folder, *options, user=None):
        self.path = folder / "out"
        with open(self.path, "w") as out:
            self.process = subprocess.Popen([LAUNCH, "-n", str(RANKS), *options, "sh", "-c", RANK], env=environment(), stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, cwd="/", **({} if user is None else {"user": user, "group": user, "extra_groups": []}))
        until(lambda: self.said().count(" runs") == RANKS or self.process.poll() is not None)

    def said(self):
        return self.path.read_text()

    def ended(self):
        """Its status, with what was said."""
        try:
            return self.process.wait(60), self.said()
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None, self.said()

    def has_notice(self):
        return " saves" in self.said() or self.process.poll() is not None


def kill_as(user, process):
    """What the kernel says to a signal of that user."""
    run = subprocess.run(["/bin/sh", "-c", f"kill -USR1 {process}"], user=user, group=user, extra_groups=[], cwd="/", capture_output=True, text=True, timeout=60, check=False)
    return "sent" if run.returncode == 0 else run.stderr.strip().split("\n")[-1]


def can_start(user):
    """A build folder below root's home may be closed to others."""
    try:
        return subprocess.run([LAUNCH, "--version"], user=user, group=user, extra_groups=[], cwd="/", capture_output=True, timeout=60, check=False).returncode == 0
    except PermissionError:
        return False


def expect_notice(name, job):
    status, said = job.ended()
    check(name, status == 75 and said.count(" saves") == RANKS, (status, said))


def expect_strangers_refused(name, job):
    answer = kill_as(STRANGER, job.process.pid)
    check(f"{name}: the kernel refuses another user's", "Operation not permitted" in answer, answer)
    time.sleep(0.3)  # a notice that were on its way would come
    check(f"{name}: it was none", not job.has_notice(), job.said())


def removed(option, *words):
    run = subprocess.run([LAUNCH, "-n", "1", *words, "true"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    check(f"{words} is refused", run.returncode == 42 and f"{option} was removed" in run.stderr and "SIGUSR1 to weft-launch" in run.stderr
          and run.stderr.count("\n") == 1 and not run.stdout, (run.returncode, run.stderr))


for option in ("--notice-http", "--notice-file"):
    removed(option, option, "9402")
    removed(option, f"{option}=9402")
    removed(option, option)
    removed(option, "--grace", "3", option, "/etc/podinfo/evicted")
run = subprocess.run([LAUNCH, "-n", "1", "echo", "--notice-http", "9402"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
check("a program may have such an option", (run.returncode, run.stdout) == (0, "--notice-http 9402\n"), (run.returncode, run.stdout, run.stderr))
run = subprocess.run([LAUNCH, "--help"], capture_output=True, text=True, timeout=60, check=False)
check("the help does not speak of them", "notice-" not in run.stdout, run.stdout)

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    folder.chmod(0o755)
    (folder / "agent").write_text(AGENT)
    (folder / "agent").chmod(0o755)
    (folder / "hosts").write_text("a\nb\nc\n")
    on_hosts = ("--hosts", str(folder / "hosts"), "--agent", str(folder / "agent"), "--address", "127.0.0.1")
    can_be_others = os.getuid() == 0
    may_start = can_be_others and can_start(OWNER)
    for place, options in (("one host", ()), ("three hosts", on_hosts)):
        job = Job(folder, *options)
        if can_be_others:
            expect_strangers_refused(f"{place}, root's job", job)
        job.process.send_signal(signal.SIGUSR1)
        expect_notice(f"a notice reaches all ranks on {place}", job)
        if not may_start:
            print(f"left out: a user's job on {place}, and notices of others: this is not root, or users cannot start {LAUNCH}")
            continue
        job = Job(folder, *options, user=OWNER)
        expect_strangers_refused(f"{place}, a user's job", job)
        answer = kill_as(OWNER, job.process.pid)
        check("its own user's is taken", answer == "sent", answer)
        expect_notice(f"its own user's notice reaches all ranks on {place}", job)

print(f"{failures} failed")
sys.exit(1 if failures else 0)
