"""What the trials of whole jobs share (attack.py, deaths.py, and others): processes of a job, found by a mark in their environment; what was asked for, and a
line for each job that did otherwise than it should.
"""

import collections
import concurrent.futures
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

OPEN_MPIS_OWN = {"mpirun", "orterun", "orted", "prted", "prterun", "cluster.sh", "mpirun.sh", "ssh", "ip", "unshare"}
INSIDE = "WEFT_TRIAL_INSIDE"  # set for a trial that runs once more where it is alone


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mib_of(process, line):
    """VmRSS or VmHWM of a process."""
    for row in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if row.startswith(line + ":"):
            return int(row.split()[1]) / 1024
    raise ValueError(f"/proc/{process}/status has no {line}")


def processes(mark):
    """(pid, name, environment) of every living process whose environment has the line `mark`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            lines = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            if mark.encode() not in lines:
                continue
            fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")
            if fields[2].split()[0] in "ZX":
                continue
            name = fields[0].partition("(")[2]
        except OSError:  # it ended meanwhile
            continue
        found.append((int(entry), name, dict(line.decode(errors="replace").partition("=")[::2] for line in lines if line)))
    return found


def wait_until(condition, seconds, pause=0.02):
    """How long it took until `condition` held; None where it never did."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        time.sleep(pause)
    return time.monotonic() - began


def kill_all(mark):
    for process, _, _ in processes(mark):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def asked(kinds, count=100):
    """[COUNT [BIN]] of the command line, with SEED and KINDS of the environment: (how many jobs, the programs' folder, what draws, the kinds)."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else count
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    return count, programs, random.Random(int(os.environ.get("SEED", "1"))), os.environ.get("KINDS", ",".join(kinds)).split(",")


def again_inside(alone, count, programs):
    """Runs this trial once more under the command `alone`, which has a /tmp of its own. The exit status."""
    if programs.is_relative_to("/tmp"):
        print(f"{sys.argv[0]}: BIN={programs} cannot be in /tmp, which is another one there", file=sys.stderr)
        return 42
    return subprocess.run([*alone, sys.executable, sys.argv[0], str(count), str(programs)], env=dict(os.environ, **{INSIDE: "1"}), check=False).returncode


def run_all(count, draw, run, more=lambda: "", at_once=1):
    """draw(number) makes a trial with a `kind`; run(trial) says what went wrong, and what was said. `more` is what else the last line tells. With `at_once`,
    so many trials run in threads. The exit status."""
    def done():
        if at_once == 1:
            for number in range(count):
                trial = draw(number)
                yield trial, run(trial)
            return
        trials = [draw(number) for number in range(count)]  # in order, whatever order they run in
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            yield from zip(trials, pool.map(run, trials))

    failed, tally = 0, collections.Counter()
    for number, (trial, (wrong, said)) in enumerate(done()):
        tally[trial.kind] += 1
        if wrong:
            failed += 1
            print(f"FAILED: job {number}: {trial}: " + "; ".join(wrong))
            lines = said.splitlines()
            print("\n".join("    | " + line for line in lines[:20] + (["..."] if len(lines) > 40 else []) + lines[20:][-20:]), flush=True)
    print(", ".join(f"{kind} {times}" for kind, times in sorted(tally.items())))
    print(f"{count} jobs, {more()}{failed} did otherwise than they should")
    return 1 if failed else 0
