#!/usr/bin/env python3
"""weft-report nccl on logs with an established cause: it is the first finding, on lines that are in the log. The logs lie beside the project,
if at all; without them the test is skipped.

usage: nccl_cases_test.py WEFT_REPORT FOLDER
Each log is read from a file, and from standard input with the lines of its processes mixed, with copies of lines that are cut anywhere,
and in pieces of any size.
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

report, folder = sys.argv[1], pathlib.Path(sys.argv[2])
failures = 0


def fail(words):
    global failures
    failures += 1
    print(f"FAILED: {words}")


def run(arguments, pieces=None):
    process = subprocess.Popen([report, "nccl", *arguments, "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for piece in pieces or []:
        process.stdin.write(piece)
        process.stdin.flush()
    out, err = process.communicate(timeout=60)
    try:
        return process.returncode, json.loads(out)["findings"]
    except ValueError:
        fail(f"{arguments}: status {process.returncode}, {err.decode()}")
        return process.returncode, []


def process_of(line):
    found = re.search(r"(\S+:\d+):\d+ \[\d+\] ", line)
    return found.group(1) if found else ""


def mixed(lines, draw):
    """The processes take turns by chance; each one's lines keep their order."""
    queues = {}
    for line in lines:
        queues.setdefault(process_of(line), []).append(line)
    result = []
    while queues:
        one = draw.choice(sorted(queues))
        result.append(queues[one].pop(0))
        if not queues[one]:
            del queues[one]
    return result


def with_cut_copies(lines, draw):
    result = []
    for line in lines:
        if draw.random() < 0.3:
            result.append(line[: draw.randrange(len(line) + 1)])
        result.append(line)
    return result


def check(case, cause, status, findings):
    if cause == "healthy":
        severe = [one for one in findings if one["severity"] == "critical"]
        warnings = [one for one in findings if one["severity"] == "warning"]
        if severe or len(warnings) > 1:
            fail(f"{case}: a job that is well has {[one['cause'] for one in severe + warnings]}")
        return
    if not findings or findings[0]["cause"] != cause:
        fail(f"{case}: {cause} is not the first of {[one['cause'] for one in findings]}")
    elif not findings[0]["evidence"] or not all(one["line"] > 0 for one in findings[0]["evidence"]):
        fail(f"{case}: {findings[0]} shows no line")
    elif status != {"critical": 2, "warning": 1, "notice": 0}[findings[0]["severity"]]:
        fail(f"{case}: status {status}")


def main():
    cases = sorted(path for path in folder.glob("*.txt"))
    if not cases:
        print(f"skipped: {folder} has no logs")
        return 77
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as work:
        for path in cases:
            head, text = path.read_text().split("\n---\n", 1)
            cause = re.search(r"^cause_key: (\S+)", head, re.M).group(1)
            log = pathlib.Path(work) / "log"
            log.write_text(text)
            lines = text.splitlines()
            status, findings = run([log])
            check(path.name, cause, status, findings)
            for finding in findings:
                for one in finding["evidence"]:
                    if not lines[one["line"] - 1].startswith(one["text"].removesuffix(" ...")):
                        fail(f"{path.name}: line {one['line']} is not {one['text']}")
            for _ in range(3):
                changed = "\n".join(with_cut_copies(mixed(lines, draw), draw)).encode()
                size = draw.randrange(1, 600)
                pieces = [changed[at : at + size] for at in range(0, len(changed), size)]
                check(f"{path.name}, mixed", cause, *run(["-"], pieces))
    print(f"{len(cases)} logs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
