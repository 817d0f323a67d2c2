#!/usr/bin/env python3
"""Gives the official examples of list.tsv to weft-launch lint, and compares the causes that it names with those that hold there.

    judge.py WEFT_LAUNCH [--mirror DIR] [--keep DIR]

The texts are not part of this project: each is read from a clone under DIR (OWNER+NAME or OWNER+NAME/repo, a git directory), or fetched from
raw.githubusercontent.com, once where --keep names a folder, and has to have the SHA-256 of its row. A row is: repository, commit, path, SHA-256,
and the causes of warnings and critical findings that are true of the file, or -. Exit status: 1 if a finding is not expected or an expected one is
missing, 77 if nothing could be fetched."""

import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

LIST = pathlib.Path(__file__).resolve().parent / "list.tsv"


def from_mirror(folder, repository, commit, path):
    base = pathlib.Path(folder) / repository.replace("/", "+")
    for place in (base / "repo", base):
        done = subprocess.run(["git", "-C", place, "show", f"{commit}:{path}"], capture_output=True) if place.is_dir() else None
        if done and done.returncode == 0:
            return done.stdout
    return None


def from_network(repository, commit, path):
    try:
        with urllib.request.urlopen(f"https://raw.githubusercontent.com/{repository}/{commit}/{path}", timeout=30) as answer:
            return answer.read()
    except OSError:
        return None


def text_of(given, row):
    repository, commit, path, digest, _ = row
    kept = pathlib.Path(given.keep, digest) if given.keep else None
    if kept and kept.exists():
        content = kept.read_bytes()
    elif given.mirror:
        content = from_mirror(given.mirror, repository, commit, path)
    else:
        content = from_network(repository, commit, path)
    if content is None:
        return None
    if hashlib.sha256(content).hexdigest() != digest:
        sys.exit(f"{repository}/{path}: not the text that was judged")
    if kept:
        kept.write_bytes(content)
    return content


def causes_of(program, content):
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(content)
        file.flush()
        done = subprocess.run([program, "lint", file.name, "--json", "-"], capture_output=True, text=True)
    if not done.stdout:
        return {"refused: " + done.stderr.strip()[-120:]}
    return {one["cause"] for one in json.loads(done.stdout)["findings"]}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--mirror")
    arguments.add_argument("--keep")
    given = arguments.parse_args()
    rows = [line.split("\t") for line in LIST.read_text().split("\n") if line and line[0] != "#"]
    count, quiet, missing, wrong = collections.Counter(), 0, 0, 0
    for row in rows:
        content = text_of(given, row)
        if content is None:
            missing += 1
            continue
        expected = set() if row[4] == "-" else set(row[4].split(","))
        found = causes_of(given.program, content)
        count[row[0]] += 1
        quiet += not found
        if found != expected:
            wrong += 1
            print(f"{row[0]}/{row[2]}: found {', '.join(sorted(found)) or 'nothing'}, expected {row[4]}")
    for repository, number in sorted(count.items()):
        print(f"{number:4} {repository}")
    print(f"{sum(count.values())} examples: {quiet} without a finding, {sum(count.values()) - quiet - wrong} with those that hold, {wrong} wrong; "
          f"{missing} could not be fetched")
    return 1 if wrong else 77 if not count else 0


if __name__ == "__main__":
    sys.exit(main())
