#!/usr/bin/env python3
"""Gives each log of cases.txt, and of folders of cases, to weft-report, and counts how often the established cause is among its first
three findings.

    judge.py PROGRAM [FOLDER...] [--least SHARE] [--show]

A third of the logs is drawn by a fixed seed. What the report says of a drawn log is counted and never shown, so that no rule is written
for it: only --show, for readers who write no rules, names them. Of the others the misses are named. A folder holds NAME.txt: lines
"cause_key: ...", "---", then the log; or a folder NAME beside it.

Exit status: 1 if of the drawn logs fewer than SHARE are right, one that is broken has no finding, one leads with a critical finding of
another cause, or one that is well has a critical finding or two warnings."""

import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys

SEED = "unseen logs 2026-11"
HERE = pathlib.Path(__file__).resolve().parent


def is_drawn(name):
    return int(hashlib.sha256(f"{SEED}/{name}".encode()).hexdigest(), 16) % 3 == 0


def causes_of(text):
    text = re.sub(r"NEW:", "", text)
    return {word for word in re.split(r"[|,() ]+", text) if word}


def cases_of_file(path):
    for part in path.read_text().split("\n=== ")[1:]:
        head, log = part.split("\n---\n", 1)
        name, *rest = head.split("\n")
        fields = dict(line.split(": ", 1) for line in rest)
        yield name, causes_of(fields["cause"]), log


def cases_of_folder(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.txt")):
        text = path.read_text(errors="replace")
        key = re.search(r"^cause_key: (.*)$", text, re.M)
        if not key:
            continue
        beside = path.with_suffix("")
        log = beside if beside.is_dir() else text.split("\n---\n", 1)[-1]
        yield path.stem, causes_of(key[1]), log


def findings_of(program, log):
    if isinstance(log, pathlib.Path):
        command, given = [program, "nccl", str(log), "--json", "-"], None
    else:
        command, given = [program, "nccl", "-", "--json", "-"], log
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)
    if done.returncode == 42 or not done.stdout.strip():
        return []
    start = done.stdout.find("{")
    return json.loads(done.stdout[start:])["findings"]


class Count:
    def __init__(self):
        self.logs = self.right = self.silent = self.wrong_critical = self.well = self.alarms = 0

    def add(self, causes, findings):
        """What is wrong with the verdict; empty: it is right."""
        self.logs += 1
        if "healthy" in causes:
            self.well += 1
            critical = sum(one["severity"] == "critical" for one in findings)
            warnings = sum(one["severity"] == "warning" for one in findings)
            if critical == 0 and warnings <= 1:
                self.right += 1
                return ""
            self.alarms += 1
            return "is well"
        if not findings:
            self.silent += 1
            return "silent"
        if any(one["cause"] in causes for one in findings[:3]):
            self.right += 1
            return ""
        if findings[0]["severity"] == "critical":
            self.wrong_critical += 1
            return "wrong critical finding"
        return "another cause"

    def line(self, name):
        share = 100 * self.right / max(self.logs, 1)
        return (f"{name}: {self.right} of {self.logs} right ({share:.0f} %), {self.silent} silent, {self.wrong_critical} lead with a "
                f"wrong critical finding, {self.alarms} of {self.well} that are well cause alarm")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("folders", nargs="*")
    arguments.add_argument("--least", type=float, default=0.85)
    arguments.add_argument("--show", action="store_true")
    given = arguments.parse_args()
    cases = list(cases_of_file(HERE / "cases.txt"))
    names = [name for name, _, _ in cases]
    if len(set(names)) != len(names):
        sys.exit("a case stands twice in cases.txt")
    listed = (HERE / "drawn.txt").read_text().split("\n")
    if [name for name in names if is_drawn(name)] != [line for line in listed if line and line[0] != "#"]:
        sys.exit("drawn.txt is not what the seed draws")
    for folder in given.folders:
        cases += cases_of_folder(folder)
    drawn, others = Count(), Count()
    for name, causes, log in cases:
        hidden = is_drawn(name)
        findings = findings_of(given.program, log)
        wrong = (drawn if hidden else others).add(causes, findings)
        if wrong and (given.show or not hidden):
            found = ", ".join(f"{one['cause']} ({one['severity']} {one['confidence']})" for one in findings[:4])
            print(f"  {name}: {wrong}: not {' or '.join(sorted(causes))}, but {found or 'nothing'}")
    print(others.line("others"))
    print(drawn.line("drawn"))
    bad = drawn.right < given.least * drawn.logs or drawn.silent or drawn.wrong_critical or drawn.alarms
    return 1 if bad or others.silent or others.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
