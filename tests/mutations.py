#!/usr/bin/env python3
"""Bugs put in on purpose, one at a time, each of which the tests have to notice: tests/mutations.tsv.

    tests/mutations.py [NUMBER...]      the bugs with these numbers (from 1), or all of them; ends with 1 if one is not noticed
    tests/mutations.py --draw 20        20 bugs, drawn with --seed from all rooms in turn; --presets asan,dev leaves the others out
    tests/mutations.py --check          only whether each bug's text stands in its file, once; nothing is built

A copy of the tree is built in build/mutations. A bug's row names the preset in which tests/run.sh runs the tests that are to
notice it, and those tests; a bug counts as noticed if one of them fails, or if it does not compile. That they all pass without
a bug is looked at first.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import time

root = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
tree = f"{root}/build/mutations"


def run(*command):
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rows():
    lines = [line for line in open(f"{root}/tests/mutations.tsv").read().splitlines() if line and not line.startswith("#")]
    result = [line.split("\t") for line in lines]
    for row in result:
        if len(row) != 5:
            sys.exit(f"mutations.py: not five columns: {row}")
    return result


def copy_tree():
    shutil.rmtree(tree, ignore_errors=True)
    for name in subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True).stdout.split("\0"):
        if name and os.path.isfile(f"{root}/{name}"):
            os.makedirs(os.path.dirname(f"{tree}/{name}"), exist_ok=True)
            shutil.copy2(f"{root}/{name}", f"{tree}/{name}")


def place(where, text, tree=tree):
    """The one file at or below `where` that has the text, once."""
    found = []
    for folder, _, names in os.walk(f"{tree}/{where}") if os.path.isdir(f"{tree}/{where}") else [(tree, [], [where])]:
        for name in names:
            path = os.path.join(folder, name)
            if (path.endswith((".cpp", ".hpp")) or path == f"{tree}/{where}") and os.path.exists(path) and text in open(path).read():
                found.append(path)
    if len(found) != 1 or open(found[0]).read().count(text) != 1:
        sys.exit(f"mutations.py: '{text}' stands {len(found)} times in {where}; the table is out of date")
    return found[0]


def noticed(preset, tests):
    """What noticed it, or nothing."""
    built = run("cmake", "--build", "--preset", preset, "-j", str(os.cpu_count()))
    if built.returncode != 0:
        return "the compiler", built.stdout
    tested = run("ctest", "--preset", preset, "-j", str(os.cpu_count()), "-R", tests, "--stop-on-failure")
    if "No tests were found" in tested.stdout:
        sys.exit(f"mutations.py: no test of {preset} is called {tests}")
    failed = [line for line in tested.stdout.splitlines() if "***" in line]
    return (failed[0].split("***")[0].split(":", 1)[-1].strip(" .") if failed else ""), tested.stdout


def drawn(all_rows, count, seed, presets):
    """Numbers of `count` rows: one of each room (src/NAME, tools/NAME) in turn, until they are enough.

    A row whose tests are torch's counts as one of a preset "torch": it builds weft against torch, for minutes."""
    order = random.Random(seed)
    rooms = {}
    for number, row in enumerate(all_rows, 1):
        if ("torch" if row[1].startswith("torch.") else row[0]) in presets:
            rooms.setdefault("/".join(row[2].split("/")[:2]), []).append(number)
    for numbers in rooms.values():
        order.shuffle(numbers)
    result = []
    while len(result) < count and any(rooms.values()):
        result += [numbers.pop() for numbers in rooms.values() if numbers]
    return sorted(result[:count])


def arguments(all_rows):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", metavar="NUMBER", nargs="*", type=int, help=f"rows of tests/mutations.tsv, 1 to {len(all_rows)}")
    parser.add_argument("--check", action="store_true", help="build nothing")
    parser.add_argument("--draw", metavar="COUNT", type=int, help="so many of the rows")
    parser.add_argument("--seed", type=int, default=0, help="of --draw; default: 0")
    parser.add_argument("--presets", default="asan,dev,recorded,torch,tsan", help="--draw takes rows of these; default: all")
    given = parser.parse_args()
    if given.draw is not None and given.numbers:
        parser.error("either --draw or NUMBERs")
    for number in given.numbers:
        if not 1 <= number <= len(all_rows):
            parser.error(f"there is no row {number}: the table has {len(all_rows)}")
    return given


def main():
    all_rows = rows()
    given = arguments(all_rows)
    if given.check:
        for row in all_rows:
            place(row[2], row[3], root)
        return print(f"{len(all_rows)} bugs, each at its place")
    chosen = given.numbers or range(1, len(all_rows) + 1)
    if given.draw is not None:
        chosen = drawn(all_rows, given.draw, given.seed, given.presets.split(","))
        print(f"drawn with seed {given.seed}: {' '.join(map(str, chosen))}", flush=True)
    copy_tree()
    for row in all_rows:
        place(row[2], row[3])  # the table fits the tree
    for preset in sorted({all_rows[number - 1][0] for number in chosen}):
        if run("cmake", "--preset", preset).returncode != 0:
            sys.exit(f"mutations.py: {preset} does not configure")
        tests = "|".join(all_rows[number - 1][1] for number in chosen if all_rows[number - 1][0] == preset)
        by, text = noticed(preset, tests)
        if by:
            print(text[-3000:])
            sys.exit(f"mutations.py: without any bug, {preset} fails: {by}")
    missed = 0
    for number in chosen:
        preset, tests, where, text, bug = all_rows[number - 1]
        path = place(where, text)
        right = open(path).read()
        begin = time.monotonic()
        open(path, "w").write(right.replace(text, bug))
        by, _ = noticed(preset, tests)
        open(path, "w").write(right)
        missed += not by
        print(f"{number:3} {preset:5} {os.path.relpath(path, tree)}: {bug}: "
              f"{'noticed by ' + by if by else 'NOT NOTICED'} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen)} bugs, {missed} not noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
