#!/usr/bin/env python3
"""Outputs of every program and subcommand: no path is forgotten, and no full or closed standard output counts as success.

usage: outputs_test.py BIN

Options whose value is FILE or PATH are read from --help, so that a new one is tested, too. Each is refused (42) where it cannot be opened, before
any work. Standard output on a full disk, or closed, is 70; a reader that has gone ends a program by SIGPIPE (141) or without a word.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from ras_server import recorded

NOWHERE = "/no/such/folder/file"


def programs(bin, work):
    """(name, command that prints its help, command that works)"""
    text = work / "text.txt"
    text.write_text("some text to train on, of 26 letters and a few more\n" * 200)
    flight = work / "flight"
    flight.mkdir()
    (flight / "rank-0.json").write_text(json.dumps({
        "weft_flight": 1, "rank": 0, "size": 1, "host": "node0", "pid": 7, "reason": "signal", "clock": {"steady_ns": 1, "wall_ns": 1},
        "progress": [], "communicators": []}))
    settings = work / "settings.env"
    settings.write_text("NCCL_DEBUG=WARN\n")
    nccl = work / "nccl.log"
    nccl.write_text("node1:7:7 [0] NCCL INFO Using network IB\n")
    inspector = work / "inspector"
    inspector.mkdir()
    (inspector / "node0-pid7.log").write_text(json.dumps({
        "header": {"id": "0x1", "rank": 0, "n_ranks": 1, "nnodes": 1}, "metadata": {"dump_timestamp_us": 1748030377748202, "hostname": "node0", "pid": 7},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 1024, "coll_exec_time_us": 20}}) + "\n")
    answer = work / "answer"
    answer.write_text(recorded("2.30.7", "well", "json"))
    trace = work / "trace.json"
    small = ["--model", "gpt-tiny", "--text", str(text), "--steps", "7"]
    subprocess.run([bin / "weft-launch", "-n", "2", bin / "weft-scaling", *small, "--strategies", "ddp", "--trace", trace], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, WEFT_PROGRESS="thread"))
    perf = work / "all_reduce_perf"
    shutil.copy(pathlib.Path(__file__).parent / "fake_perf.sh", perf)
    tool = {name: str(bin / name) for name in ("weft-plan", "weft-bench", "weft-scaling", "weft-report", "weft-launch", "gpt")}
    return [
        ("weft-plan buckets", [tool["weft-plan"], "--help"], [tool["weft-plan"], "buckets", str(trace)]),
        ("weft-plan memory", [tool["weft-plan"], "memory", "--help"], [tool["weft-plan"], "memory"]),
        ("weft-plan scale", [tool["weft-plan"], "scale", "--help"], [tool["weft-plan"], "scale", "--model", "llama3.1-8b", "--gpus", "8", "--global-batch", "8", "--zero", "3"]),
        ("weft-plan schedule", [tool["weft-plan"], "schedule", "--help"], [tool["weft-plan"], "schedule", "--name", "1f1b"]),
        ("weft-bench", [tool["weft-bench"], "--help"], [tool["weft-bench"], "all_reduce", "-b", "8", "-e", "8", "-n", "2"]),
        ("weft-scaling", [tool["weft-scaling"], "--help"], [tool["weft-scaling"], *small]),
        ("weft-report flight", [tool["weft-report"], "flight", "--help"], [tool["weft-report"], "flight", str(flight)]),
        ("weft-report env", [tool["weft-report"], "env", "--help"], [tool["weft-report"], "env", str(settings)]),
        ("weft-report nccl", [tool["weft-report"], "nccl", "--help"], [tool["weft-report"], "nccl", str(nccl)]),
        ("weft-report ras", [tool["weft-report"], "ras", "--help"], [tool["weft-report"], "ras", str(answer)]),
        ("weft-report diff", [tool["weft-report"], "diff", "--help"], [tool["weft-report"], "diff", str(nccl), str(nccl)]),
        ("weft-report inspector", [tool["weft-report"], "inspector", "--help"], [tool["weft-report"], "inspector", str(inspector)]),
        ("weft-report tune", [tool["weft-report"], "tune", "--help"], [tool["weft-report"], "tune", "-q", "--minutes", "0.1", "--", str(perf)]),
        ("weft-report", [tool["weft-report"], "--help"], None),
        ("weft-launch", [tool["weft-launch"], "--help"], [tool["weft-launch"], "-n", "2", "--output", "ranks", "echo", "a line"]),
        ("weft-launch env", [tool["weft-launch"], "env", "--help"], [tool["weft-launch"], "env"]),
        ("weft-launch env --document", None, [tool["weft-launch"], "env", "--document"]),
        ("gpt", [tool["gpt"], "--help"], [tool["gpt"], *small]),
    ]


class Checks:
    def __init__(self):
        self.failed = self.passed = 0

    def expect(self, what, holds, done):
        self.passed += holds
        if not holds:
            self.failed += 1
            print(f"FAILED: {what}: status {done.returncode}, {done.stderr!r}")


def run(command, **streams):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60,
                          env=dict(os.environ, WEFT_FLIGHT_DIR="off"), **streams)


def with_options(name, command, options):
    """Behind -- stands another command."""
    at = command.index("--") if name == "weft-report tune" else len(command)
    return [*command[:at], *options, *command[at:]]


def check_standard_output(checks, name, command):
    with open("/dev/full", "w") as full:
        done = run(command, stdout=full)
    checks.expect(f"{name} to a full disk", done.returncode == 70 and "cannot write to standard output" in done.stderr, done)
    done = run(["sh", "-c", 'exec "$@" >&-', "sh", *command])
    checks.expect(f"{name} to a closed standard output", done.returncode == 70 and "cannot write to standard output" in done.stderr, done)
    reader, writer = os.pipe()
    os.close(reader)
    done = run(command, stdout=writer)
    os.close(writer)
    by_signal = done.returncode == -signal.SIGPIPE
    checks.expect(f"{name} to a reader that has gone", by_signal or (done.returncode in (0, 141) and done.stderr == ""), done)


def check_files(checks, name, help_command, command, work):
    words = run(help_command, stdout=subprocess.PIPE).stdout
    found = re.findall(r"--([a-z-]+) (FILE|PATH)\b", words.split("\nExample")[0])
    options = sorted({option for option, _ in found if re.search(rf"^ +(-\w \[ )?--{option}\b", words, re.MULTILINE)})
    for option in options:
        # Two arguments: mpirun has a --tune of its own, and the help says to write --tune=FILE.
        needs = ["--hosts", NOWHERE] if option == "hosts" else [f"--{option}={NOWHERE}"]
        line = [*command[:3], *needs, *command[3:]] if name == "weft-launch" else with_options(name, command, needs)
        if name == "weft-launch" and option == "hosts":
            line = [command[0], *needs, "echo", "a line"]
        if name == "weft-plan schedule" and option == "schedule":
            line = [word for word in line if word not in ("--name", "1f1b")]
        if option == "text" and "--text" in command:
            at = line.index("--text")
            del line[at:at + 2]
        done = run(line, stdout=subprocess.PIPE)
        checks.expect(f"{name} --{option} of a file in no folder", done.returncode == 42 and NOWHERE in done.stderr and done.stdout == "" and
                      done.stderr.count("\n") == 1, done)
    return options


def main():
    bin = pathlib.Path(sys.argv[1]).resolve()
    checks = Checks()
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        os.environ["TMPDIR"] = place
        known = {}
        for name, help_command, command in programs(bin, work):
            if help_command:
                check_standard_output(checks, name + " --help", help_command)
                check_standard_output(checks, name + " --version", [help_command[0], "--version"])
            if command:
                check_standard_output(checks, name, command)
            if command and help_command and "--json FILE" in run(help_command, stdout=subprocess.PIPE).stdout:
                check_standard_output(checks, name + " --json -", with_options(name, command, ["--json", "-"]))
            if help_command and command:
                known[name] = check_files(checks, name, help_command, command, work)
    # What reads --help must not read nothing.
    for name, least in {"weft-plan schedule": 8, "weft-scaling": 5, "weft-bench": 2, "weft-launch": 1, "weft-report flight": 4, "weft-report env": 4, "weft-report nccl": 4,
                        "weft-report diff": 4, "weft-report inspector": 4, "weft-report ras": 4, "weft-report tune": 2}.items():
        if len(known[name]) < least:
            checks.failed += 1
            print(f"FAILED: --help of {name} names {known[name]} alone")
    print(f"{checks.passed} passed, {checks.failed} failed: options {known}")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
