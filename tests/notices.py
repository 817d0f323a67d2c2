#!/usr/bin/env python3
"""How soon a notice, SIGUSR1 to weft-launch, reaches all ranks: on this machine and on four hosts.

usage: notices.py [COUNT [BIN]]    so many jobs (20) on each; hosts need root (launchers/cluster.sh)

Measured until the last rank's line about the signal has come out of weft-launch. Ends with 1 where that took more than 1 s, or a rank got none.
"""

import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(TREE / "launchers/cluster.sh")
RANKS, LONGEST = 4, 1.0


def trial(programs, place, folder):
    """Seconds until all ranks had it; None where one had not."""
    words = [programs / "weft-launch", "-n", RANKS, "--output", "ranks"]
    if place == "hosts":
        (folder / "hosts").write_text("".join(f"wefth{i} slots=1 address=10.77.0.{10 + i}\n" for i in range(RANKS)))
        words += ["--hosts", folder / "hosts", "--agent", f"{CLUSTER} agent"]
    job = subprocess.Popen([str(word) for word in [*words, programs / "launch_probe", "signal"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           env=dict(os.environ, WEFT_FLIGHT_DIR="off"))
    waiting = 0
    while waiting < RANKS and (line := job.stdout.readline()):
        waiting += " waits" in line
    time.sleep(0.05)
    begin = time.monotonic()
    job.send_signal(signal.SIGUSR1)
    heard = 0
    while heard < RANKS and (line := job.stdout.readline()):
        heard += " got signal 10" in line
    took = time.monotonic() - begin
    job.kill() if heard < RANKS else job.wait(30)
    return took if heard == RANKS else None


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else 20
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/dev/bin").resolve()
    places, failed = ["this machine"], 0
    up = subprocess.run([CLUSTER, "up", str(RANKS), "1gbit"], capture_output=True, text=True, check=False)
    if up.returncode == 0:
        places.append("hosts")
    else:
        print(f"no hosts: {up.stderr.strip()}")
    try:
        for place in places:
            with tempfile.TemporaryDirectory() as folder:
                took = [trial(programs, place, pathlib.Path(folder)) for _ in range(count)]
            good = [one for one in took if one is not None]
            late = sum(one > LONGEST for one in good)
            failed += late + count - len(good)
            print(f"{RANKS} ranks on {place if place != 'hosts' else '4 hosts'}: {len(good)} of {count} reached all ranks; "
                  f"seconds: median {statistics.median(good):.4f}, longest {max(good):.4f}, {late} above {LONGEST}" if good else f"{place}: none", flush=True)
    finally:
        if up.returncode == 0:
            subprocess.run([CLUSTER, "down"], check=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
