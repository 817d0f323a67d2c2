#!/usr/bin/env python3
"""Makes the answers in this folder with NCCL's own code, for every version from 2.24 on that has tags in a clone of NCCL.

usage: make.py CLONE_OF_NCCL [--check]

stand_in.cpp is compiled with src/ras of each version. VERSION.text and VERSION.json have the answers in all states; a version whose answers are those of
the one before it, but for its number, has none: `versions` lists which files are whose. --check compares, and writes nothing.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
HEADERS = ("alloc.h", "checks.h", "comm.h", "compiler.h", "nccl.h", "utils.h", "ras.h", "socket.h")


def versions_of(clone):
    tags = subprocess.run(["git", "-C", clone, "tag"], capture_output=True, text=True, check=True).stdout.split()
    found = {}
    for tag in tags:
        if (match := re.fullmatch(r"v(2)\.(\d+)\.(\d+)-(\d+)", tag)) and int(match[2]) >= 24:
            found[tuple(int(part) for part in match.groups())] = tag
    return sorted(found.items())


def answers_of(clone, tag, version, work):
    """The answers of a version by the ends of their files, with VERSION in place of its number."""
    for name in ("client_support.cc", "ras_internal.h"):
        source = subprocess.run(["git", "-C", clone, "show", f"{tag}:src/ras/{name}"], capture_output=True, check=True).stdout
        (work / name).write_bytes(source)
    for name in HEADERS:
        (work / name).write_text(f'#include "{FOLDER}/stand_in.cpp"\n')
    number = version[0] * 10000 + version[1] * 100 + version[2]
    program = work / "stand_in"
    subprocess.run(["g++", "-std=c++20", "-w", "-DSTAND_IN", f"-DVERSION={number}", "-DNCCL_MAJOR=2", f"-DNCCL_MINOR={version[1]}",
                    f"-DNCCL_PATCH={version[2]}", f"-I{work}", FOLDER / "stand_in.cpp", "-o", program], check=True)
    states = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout.split()
    dotted = f"{version[0]}.{version[1]}.{version[2]}"

    def answers(*forms):
        parts = ""
        for state in states:
            for form in forms:
                answer = subprocess.run([program, state, form], capture_output=True, text=True, check=True).stdout
                parts += f"##### {state} {form}\n{answer}"
        return parts.replace(f"NCCL version {dotted} ", "NCCL version VERSION ").replace(f'"nccl_version": "{dotted}"', '"nccl_version": "VERSION"')

    return {"text": answers("text", "verbose"), **({"json": answers("json")} if number >= 22807 else {})}


def main():
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[2] != "--check"):
        sys.exit(__doc__)
    clone, check = sys.argv[1], len(sys.argv) == 3
    wanted, rows, before = {}, "", {}
    with tempfile.TemporaryDirectory() as folder:
        for version, tag in versions_of(clone):
            dotted = f"{version[0]}.{version[1]}.{version[2]}"
            rows += dotted
            for end, answers in answers_of(clone, tag, version, pathlib.Path(folder)).items():
                if end not in before or wanted[before[end]] != answers:
                    before[end] = f"{dotted}.{end}"
                    wanted[before[end]] = answers
                rows += " " + before[end]
            rows += "\n"
    counted = sum(line.startswith("##### ") for one in wanted.values() for line in one.splitlines())
    print(f"{rows.count(chr(10))} versions, {len(wanted)} files, {counted} answers")
    wanted["versions"] = rows
    wrong = [name for name, content in wanted.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != content]
    if check:
        sys.exit("differs: " + ", ".join(wrong) if wrong else 0)
    for name in wrong:
        (FOLDER / name).write_text(wanted[name])


if __name__ == "__main__":
    main()
