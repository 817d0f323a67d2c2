#!/usr/bin/env python3
"""Arguments, variables and the folder of a job are bytes: with --hosts a rank gets those that it gets on one machine, whatever they are.

usage: bytes_test.py PATH_OF_WEFT_LAUNCH [COUNT]    so many jobs (15), drawn with SEED

The kernel shows what a process got from execve, in /proc/PID/cmdline and environ. One machine is the twin of several hosts.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

LAUNCH = os.fsencode(os.path.abspath(sys.argv[1]))
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else 15
AGENT = """#!/bin/sh
host=$1
shift
exec env -i PATH="$PATH" WEFT_HOST_ID="$host" sh -c "$*"
"""
# What the shell itself got: the words after its -c script are its arguments. Its folder has a name of bytes, too.
RANK = 'cat /proc/$$/cmdline > "$0.$WEFT_RANK.words"; cat /proc/$$/environ > "$0.$WEFT_RANK.environ"; readlink -n /proc/$$/cwd > "$0.$WEFT_RANK.folder"'
WORDS = [b"", b" ", b"\n", b"\n\n", b"\t", b"'", b'"', b"''", b"'\\''", b"\\", b"\\n", b"\\u0000", b"$HOME", b"`true`", b"$(true)", b"*", b"-n", b"--", b"--help", b"=", b"a=b",
         b"\x01", b"\x1b[31m", b"\x7f", b"\x80", b"\xff", b"\xfe\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"a\xe2\x82", b"\xe2\x82\"", b"\xc3\n",
         b"\xc3\\", b"\xf0\x9f\x98", b"\xef\xbb\xbf", "Grüße".encode(), "日本".encode(), "\U0001f600".encode(), "é".encode("latin-1"), b"{}", b"[1", b"null", b"weft-host 0.1.0\n"]
failures = 0


def check(name, holds, shown=""):
    global failures
    if not holds:
        print(f"FAILED: {name}: {shown}"[:2000], flush=True)
    failures += not holds


def word(chance):
    if chance.random() < 0.5:
        return chance.choice(WORDS)
    if chance.random() < 0.05:
        return bytes(chance.randint(1, 255) for _ in range(1000)) * chance.choice((1, 10, 130))  # the kernel takes 131071 bytes
    return b"".join(chance.choice((bytes([chance.randint(1, 255)]), chance.choice(WORDS))) for _ in range(chance.randint(0, 12)))


def name(chance):
    begin = chance.choice((b"WEFT_TEST_", b"NCCL_", b"UCX_", b"OMP_", b"MINE_"))
    return begin + word(chance)[:200].replace(b"=", b"")


def got(folder, ranks):
    """(words, variables, folder) of each rank."""
    found = []
    for rank in range(ranks):
        files = [folder / f"got.{rank}.{what}" for what in ("words", "environ", "folder")]
        words, environ, where = (file.read_bytes() if file.exists() else None for file in files)
        for file in files:
            file.unlink(missing_ok=True)
        if words is None or environ is None:
            found.append(None)
            continue
        found.append((words, dict(line.split(b"=", 1) for line in environ.split(b"\0") if b"=" in line), where))
    return found


def trial(number, chance, work):
    ranks = 3
    words = [word(chance) for _ in range(chance.randint(0, 12))]
    if number == 0:
        words = WORDS
    variables = {name(chance): word(chance) for _ in range(chance.randint(1, 8))}
    folder = os.fsencode(work) + b"/" + (b"here" if number == 0 else word(chance)[:100].replace(b"/", b"") or b"empty").lstrip(b".")
    os.makedirs(folder, exist_ok=True)
    environment = {name: value for name, value in os.environb.items() if not name.startswith((b"WEFT_", b"RANK", b"WORLD_SIZE", b"MASTER_"))} | variables
    exports = [part for one in variables if one.startswith(b"MINE_") for part in (b"-x", one)]
    program = [b"/bin/sh", b"-c", RANK.encode(), os.fsencode(work / "got"), *words]
    on_hosts = [b"--hosts", os.fsencode(work / "hosts"), b"--agent", os.fsencode(work / "agent"), b"--address", b"127.0.0.1"]
    seen = {}
    for place, options in (("one machine", []), ("two hosts", [*on_hosts, *exports])):
        run = subprocess.run([LAUNCH, b"-n", str(ranks).encode(), *options, b"--", *program], env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                             timeout=120, check=False)
        check(f"job {number} on {place}", run.returncode == 0, (run.returncode, run.stderr, words, variables))
        seen[place] = got(work, ranks)
    for rank, (alone, far) in enumerate(zip(seen["one machine"], seen["two hosts"])):
        if alone is None or far is None:
            check(f"job {number}, rank {rank}", False, f"it wrote nothing: {alone is None}, {far is None}")
            continue
        check(f"job {number}, rank {rank}: one machine changes nothing", alone[0] == b"".join(one + b"\0" for one in program) and alone[2] == folder, (alone[0], program))
        check(f"job {number}, rank {rank}: arguments", far[0] == alone[0], (far[0], alone[0]))
        check(f"job {number}, rank {rank}: folder", far[2] == alone[2], (far[2], alone[2]))
        for one, value in variables.items():
            check(f"job {number}, rank {rank}: variable {one}", far[1].get(one) == alone[1].get(one) == value, (far[1].get(one), alone[1].get(one), value))


def main():
    chance = random.Random(int(os.environ.get("SEED", "1")))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder).resolve()
        (work / "agent").write_text(AGENT)
        (work / "agent").chmod(0o755)
        (work / "hosts").write_text("a\nb\n")
        for number in range(COUNT):
            trial(number, chance, work)
    print(f"{COUNT} jobs on one machine and on two hosts, {failures} checks failed")
    return 1 if failures else 0


sys.exit(main())
