#!/usr/bin/env python3
"""The column "record" of docs/gpu.md: what the newest record of each suite says. Records are the gpu.jsonl of tests/gpu.sh, kept as they came in
bench/results/raw/NAME/, NAME beginning with the date; a row that no record shows says "none".

    tests/gpu/page.py            1 where the page says anything else, or a row names a suite that tests/gpu.sh does not have
    tests/gpu/page.py --write    writes the column
    tests/gpu/page.py --root R   of another tree
"""
import argparse
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

HEAD = "| what | suite of tests/gpu.sh | record | state |"


def nccl_version(code) -> str:
    return f", NCCL {code // 10000}.{code // 100 % 100}.{code % 100}" if isinstance(code, int) else ""


def records(root: pathlib.Path) -> dict:
    """By suite and machine: when it ran there last, and its state."""
    newest = {}
    for path in sorted((root / "bench/results/raw").glob("*/**/gpu.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        machine = lines[0] if lines and lines[0].get("card") else {}
        if not machine or machine["card"].startswith("none"):
            continue  # emulated
        where = f"{machine['card']}{nccl_version(machine.get('nccl'))}"
        for line in lines:
            if "suite" in line and line["state"] != "not run":
                newest.setdefault(line["suite"], {})[where] = (machine["date"], line["state"])
    return newest


def of_row(names: list, newest: dict) -> str:
    """One sentence for each machine and NCCL that these suites ran with; what passed together stands together."""
    runs = {}
    for name in names:
        for where, state in newest.get(name, {}).items():
            runs.setdefault(where, {})[name] = state
    said = []
    for where, states in sorted(runs.items()):
        failed = [name for name, (_, state) in states.items() if state != "passed"]
        missing = [name for name in names if name not in states]
        words = "passed" if not failed else "failed" if len(names) == 1 else f"failed: {', '.join(failed)}"
        date = min(date for date, _ in states.values())
        said.append(f"{words} ({date}, {where})" + (f", without {', '.join(missing)}" if missing else ""))
    return "; ".join(said) or "none"


def suites_of(cell: str, known: list) -> list:
    """The suites that a cell names, as in "train-*, killed-rank". @throws ValueError for one that is none"""
    names = []
    for word in re.sub(r"\([^)]*\)", "", cell).split(","):
        found = fnmatch.filter(known, word.strip())
        if word.strip() != "-" and not found:
            raise ValueError(f"docs/gpu.md: no suite {word.strip()}: tests/gpu.sh --list names them")
        names += found
    return names


def page(text: str, newest: dict, known: list) -> str:
    lines = []
    is_table = False
    for line in text.splitlines():
        is_table = line == HEAD or (is_table and line.startswith("|"))
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if is_table and line != HEAD and not line.startswith("|---"):
            names = suites_of(cells[1], known)
            cells[2] = of_row(names, newest) if names else "-"
            line = f"| {' | '.join(cells)} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    known = subprocess.run(["bash", options.root / "tests/gpu.sh", "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    file = options.root / "docs/gpu.md"
    text = file.read_text()
    try:
        wanted = page(text, records(options.root), known)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if HEAD not in text:
        print(f"docs/gpu.md has no table: {HEAD}", file=sys.stderr)
        return 1
    if options.write:
        file.write_text(wanted)
        text = wanted
    for before, after in zip(text.splitlines(), wanted.splitlines()):
        if before != after:
            print(f"docs/gpu.md says something else than the records: tests/gpu/page.py --write\n- {before[:300]}\n+ {after[:300]}", file=sys.stderr)
            return 1
    print(f"docs/gpu.md: as the records are; {text.count('| none |')} rows have none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
