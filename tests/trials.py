"""What the trials of whole jobs share (attack.py, deaths.py): processes of a job, found by a mark in their environment."""

import os
import pathlib
import signal
import socket
import time

OPEN_MPIS_OWN = {"mpirun", "orterun", "orted", "prted", "prterun", "cluster.sh", "mpirun.sh", "ssh", "ip", "unshare"}


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
