#!/usr/bin/env python3
"""weft-launch's line about the job on a terminal: what stands in it, that it makes room for what ranks write, and where there is none.

usage: live_line_test.py PATH_OF_WEFT_LAUNCH
"""

import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios

LAUNCH = sys.argv[1]
ERASE = "\r\033[K"
failures = 0


def check(name, holds, shown=""):
    global failures
    print(f"{'ok' if holds else 'FAILED'}: {name}{'' if holds else ': ' + repr(shown)}", flush=True)
    failures += not holds


def on_terminal(*words, columns=200):
    """What the job wrote to a terminal, which standard output and standard error are."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    job = subprocess.Popen([LAUNCH, *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    got = b""
    try:
        while piece := os.read(ours, 65536):
            got += piece
    except OSError:  # the last writer has gone
        pass
    os.close(ours)
    job.wait(30)
    return got.decode(), job.returncode


def screen(got):
    """The lines that stay, and all lines about the job that were drawn."""
    stay, drawn = [], []
    for line in got.replace("\r\n", "\n").split("\n"):
        parts = line.split(ERASE)
        stay.append(parts[-1])
        drawn += [part for part in parts[:-1] if part]
    return [line for line in stay if line], drawn


program = "echo step $WEFT_RANK >&2; sleep 1.6; echo done $WEFT_RANK"
got, status = on_terminal("-n", 2, "--output", "ranks", "sh", "-c", program)
stay, drawn = screen(got)
check("the job ends well", status == 0, got)
check("a line stands there with the ranks", any(line.startswith("weft-launch: 2 ranks; ") for line in drawn), got)
check("and with what a rank said last", any(line.startswith("weft-launch: 2 ranks; 1 s; [") and "] step " in line for line in drawn), got)
check("it is drawn anew", any("; 2 s; [" in line for line in drawn), got)
check("what ranks write stays, whole", sorted(stay) == ["[0] done 0", "[0] step 0", "[1] done 1", "[1] step 1"], stay)

got, _ = on_terminal("-n", 2, "--output", "ranks", "-q", "sh", "-c", program)
check("with --quiet there is none", ERASE not in got, got)
got, _ = on_terminal("-n", 2, "sh", "-c", program)
check("where ranks write to the terminal themselves there is none", ERASE not in got, got)
piped = subprocess.run([LAUNCH, "-n", "2", "--output", "ranks", "sh", "-c", program], capture_output=True, check=False)
check("where standard error is no terminal there is none", b"\r" not in piped.stdout + piped.stderr, piped.stderr)
got, _ = on_terminal("-n", 1, "--output", "ranks", "sh", "-c", "printf 'a\\033[31mb\\tc\\n' >&2; sleep 0.5")
check("nothing of what a rank wrote moves the cursor there", any(line.endswith("[0] a\\x1b[31mb c") for line in screen(got)[1]), got)
got, _ = on_terminal("-n", 1, "--output", "ranks", "sh", "-c", "echo 'very many words of one rank about its progress' >&2; sleep 0.5", columns=40)
check("it is not wider than the terminal", screen(got)[1] and all(len(line) < 40 for line in screen(got)[1]), got)

with tempfile.TemporaryDirectory() as folder:
    agent, hosts, body = (pathlib.Path(folder) / name for name in ("agent", "hosts", "body"))
    agent.write_text(f'#!/bin/sh\nhost=$1\nshift\n[ ! -e {folder}/down.$host ] || exit 255\nexec env WEFT_HOST_ID="$host" sh -c "$*"\n')
    hosts.write_text("a slots=1 address=127.0.0.1\nb slots=1 address=127.0.0.1\n")
    body.write_text(f'#!/bin/sh\nsleep 0.5\n[ $WEFT_SIZE = 2 ] || exit 0\n[ $WEFT_RANK = 0 ] && exec sleep 20\ntouch {folder}/down.b\nkill -9 $PPID\n')
    agent.chmod(0o755)
    body.chmod(0o755)
    got, status = on_terminal("--hosts", hosts, "--agent", agent, "--min-ranks", 1, body)
    stay, drawn = screen(got)
    check("a job that lost a host ends well", status == 0, got)
    check("it says the hosts", any(line.startswith("weft-launch: 2 ranks on a, b; ") for line in drawn), got)
    check("and those that are lost, and the restart", any(line.startswith("weft-launch: 1 rank on a; without b; 1 restart; ") for line in drawn), got)
    check("what weft-launch says has lines of its own", any(line.startswith("weft-launch: host b with rank 1 is lost") for line in stay), got)
print(f"{failures} failed")
sys.exit(1 if failures else 0)
