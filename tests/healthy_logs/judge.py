#!/usr/bin/env python3
"""Gives public logs of jobs that were well (list.tsv) to weft-report nccl: nothing critical, at most one warning, and that one holds.

    judge.py WEFT_REPORT [--mirror DIR] [--keep DIR]

The texts are not part of this project: they are had as those of ../manifest_examples/judge.py are, and a row is as there. Its last column is the warning
that is true of a log (a variable that this NCCL does not read, GPU memory that does not go over the network by itself), or -.
Exit status: 1 if a log has another warning or a critical finding, 77 if nothing could be fetched."""

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


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--mirror")
    arguments.add_argument("--keep")
    given = arguments.parse_args()
    rows = [line.split("\t") for line in (HERE / "list.tsv").read_text().split("\n") if line and line[0] != "#"]
    count, quiet, missing, wrong = collections.Counter(), 0, 0, 0
    for row in rows:
        content = text_of(given, row)
        if content is None:
            missing += 1
            continue
        found = findings_of(given.program, content)
        count[row[0]] += 1
        quiet += not found
        said = [one["cause"] for one in found if one["severity"] == "warning"]
        if len(said) < len(found) or said != [cause for cause in row[4].split(",") if cause != "-"]:
            wrong += 1
            print(f"{row[0]}/{row[2]}: found {', '.join(one['cause'] for one in found) or 'nothing'}, expected {row[4]}")
    for repository, number in sorted(count.items()):
        print(f"{number:4} {repository}")
    print(f"{sum(count.values())} logs: {quiet} without a warning, {sum(count.values()) - quiet - wrong} with the one that holds, {wrong} wrong; {missing} could not be fetched")
    return 1 if wrong else 77 if not count else 0


if __name__ == "__main__":
    sys.exit(main())
