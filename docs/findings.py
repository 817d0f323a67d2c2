#!/usr/bin/env python3
"""Writes docs/findings.md and the pages that it leads to from the table that `weft-report nccl --rules` prints.

usage: weft-report nccl --rules | docs/findings.py [--check]
--check writes nothing, and ends with 1 where a page is not what would be written. One table of eight columns is too wide to read and too long for
a page: findings.md has a row for each cause, and the other pages a section, by the first letter.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PARTS = (("a", "c"), ("d", "f"), ("g", "m"), ("n", "o"), ("p", "r"), ("s", "z"))
HEAD = """# Findings of weft-report nccl

This page lists what `weft-report nccl` may find in the logs of a job that runs NCCL; each cause leads to what shows it and what to do. It is for those
who have a finding, or a line of a log. [What is wrong with an NCCL job](nccl-report.md) says how to use the report. The shortest command:

    weft-report nccl logs/

A cause is the name that a finding carries in `--json`. Every rule has a log that fires it and one nearly the same that does not, in
`tests/unit/tools/weft-report/nccl`. Settings that logs state are judged by the rules of `weft-report env`, too ([settings of NCCL](nccl-env.md)).

| cause | severity | what is wrong |
|---|---|---|
"""
PART_HEAD = """# Findings, {first} to {last}

What shows each cause that `weft-report nccl` knows from {first} to {last}, and what to do; [all causes](findings.md) are in one table. It is for those who
have a finding or a line of a log.

    weft-report nccl logs/

In what shows a cause, `...` stands for any text within one line. A cause that is limited to versions of NCCL is not reported where the logs name others
only. An effect has a figure where one was measured or follows from the hardware's rates.
"""


def page_of(cause):
    first, last = next(part for part in PARTS if cause[0] <= part[1])
    return f"findings-{first}-{last}.md"


def section(cause, severity, wrong, fix, effect, not_when, versions, shown):
    limits = "" if versions == "all" else f", NCCL {versions}"
    return (f"\n## {cause}\n\n{wrong[0].upper()}{wrong[1:]} ({severity}{limits}).\n\n- **What to do:** {fix}\n- **Effect:** {effect}\n"
            f"- **Does not apply when** {not_when}\n- **Shown by**\n" + "".join(f"  - {one}\n" for one in re.split(r"; (?=[^`]*(?:`[^`]*`[^`]*)*$)", shown)))


def pages(table):
    """file name -> text."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in table.split("\n") if line.startswith("| `")]
    if not rows or any(len(row) != 8 for row in rows):
        sys.exit("findings.py: standard input is not what weft-report nccl --rules prints: no rows, or rows of another number of cells than 8")
    found = {"findings.md": HEAD}
    for first, last in PARTS:
        found[f"findings-{first}-{last}.md"] = PART_HEAD.format(first=first.upper(), last=last.upper())
    for name, *cells in rows:
        cause = name.strip("`")
        found["findings.md"] += f"| [{cause}]({page_of(cause)}#{cause}) | {cells[0]} | {cells[1]} |\n"
        found[page_of(cause)] += section(cause, *cells)
    found["findings.md"] += "\n" + re.search(r"^\d+ causes, .*$", table, re.M)[0] + "\n"
    return found


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    bad = 0
    for name, text in pages(sys.stdin.read()).items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        if sys.argv[1:]:
            print(f"{name} is not what weft-report nccl --rules | docs/findings.py writes")
            bad = 1
        else:
            path.write_text(text)
    sys.exit(bad)


main()
