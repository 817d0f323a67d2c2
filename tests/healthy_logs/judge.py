#!/usr/bin/env python3
"""Gives public logs of jobs that were well to weft-report nccl: nothing critical, at most one warning, and that one holds.

    judge.py WEFT_REPORT                                  the parts of logs in excerpts.txt: no warning at all
    judge.py WEFT_REPORT --whole [--mirror DIR] [--keep DIR]       the logs of list.tsv, too

Whole logs are not part of this project: they are had as the texts of ../manifest_examples/judge.py are, and a row is as there. Its last column is the
warning that is true of a log (a variable that this NCCL does not read, GPU memory that does not go over the network by itself), or -.
Exit status: 1 if a log has another warning or a critical finding, 77 if whole ones are wanted and none could be fetched."""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from manifest_examples.judge import text_of  # noqa: E402


def findings_of(program, content):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "log")
        path.write_bytes(content)
        done = subprocess.run([program, "nccl", str(path), "--json", "-"], capture_output=True, text=True, timeout=300)
    start = done.stdout.find("{")
    if start < 0:
        sys.exit(f"weft-report: {done.stderr.strip()[-200:]}")
    return [one for one in json.loads(done.stdout[start:])["findings"] if one["severity"] != "notice"]


def excerpts():
    for part in (HERE / "excerpts.txt").read_text().split("\n=== ")[1:]:
        head, log = part.split("\n---\n", 1)
        yield head.split("\n")[0], log


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--whole", action="store_true")
    arguments.add_argument("--mirror")
    arguments.add_argument("--keep")
    given = arguments.parse_args()
    count, quiet, missing, wrong = collections.Counter(), 0, 0, 0

    def judge(name, content, expected, origin):
        nonlocal quiet, wrong
        found = findings_of(given.program, content)
        count[origin] += 1
        quiet += not found
        said = [one["cause"] for one in found if one["severity"] == "warning"]
        if len(said) < len(found) or said != expected:
            wrong += 1
            print(f"{name}: found {', '.join(one['cause'] for one in found) or 'nothing'}, expected {', '.join(expected) or 'nothing'}")

    for name, log in excerpts():
        judge(name, log.encode(), [], "parts of logs")
    rows = [line.split("\t") for line in (HERE / "list.tsv").read_text().split("\n") if line and line[0] != "#"]
    for row in rows if given.whole else []:
        content = text_of(given, row)
        if content is None:
            missing += 1
        else:
            judge(f"{row[0]}/{row[2]}", content, [cause for cause in row[4].split(",") if cause != "-"], row[0])
    for origin, number in sorted(count.items()):
        print(f"{number:4} {origin}")
    print(f"{sum(count.values())} logs: {quiet} without a warning, {sum(count.values()) - quiet - wrong} with the one that holds, {wrong} wrong; {missing} could not be fetched")
    return 1 if wrong else 77 if given.whole and missing == len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
