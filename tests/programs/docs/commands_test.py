#!/usr/bin/env python3
"""The commands in README.md, CONTRIBUTING.md, docs/ and the READMEs of examples/ and bench/ are ones that the programs and scripts take.

usage: commands_test.py FOLDER_OF_THE_PROJECT FOLDER_OF_THE_PROGRAMS
A command is a line of a code block, or code in backticks, that begins with a program of weft or with a script of the tree, behind mpirun,
srun or weft-launch and their options too. A program of weft gets it with --help added: its parser refuses what it does not know, and then
prints the help. Of a script the file must be there and its first argument must be a word of it. FILE, DIR and other capital words stand
for a value; ... and [ ] show the form of a command, which is then not tried.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

top, bin_folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PROGRAMS = ("weft-scaling", "weft-bench", "weft-plan", "weft-report", "weft-launch", "gpt", "ddp")
LAUNCHERS = ("mpirun", "srun", "weft-launch", "mpirun.sh", "cluster.sh")
PLACEHOLDER = re.compile(r"^[A-Z]+$")


def code_of(text):
    """(line number, line) of code blocks, and code in backticks."""
    lines, fence, after_blank, block = text.split("\n"), None, True, False
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s*```+(\w*)", line)
        if mark:
            fence = None if fence is not None else mark[1]
        elif fence in ("sh", "", "bash"):
            yield number, line
        elif fence is None:
            block = line.startswith("    ") and (block or after_blank)
            if block:
                yield number, line.strip()
            else:
                for code in re.findall(r"`([^`]+)`", line):
                    yield number, code
            after_blank = not line.strip()


def words_of(line):
    line = re.sub(r"\s+(//|#) .*$", "", re.sub(r"^\$ ", "", line.strip()))
    if re.search(r"\.\.\.|[\[\]{}]|\|", line):
        return []
    try:
        return shlex.split(line.rstrip("\\"))
    except ValueError:
        return []


def is_program(word):
    name = word.split("/")[-1]
    return re.match(r"(\./|build/)", word) or (name in PROGRAMS and (name != "ddp" or "/" in word))


def commands_in(words):
    """(program or script, arguments) of a line; several where one starts another."""
    while words and (re.match(r"^\w+=", words[0]) or words[0] in ("env", "time", "export", "bash", "python3", "exec", "sudo")):
        words = words[1:]
    for separator in ("&&", ";", ">", "2>", "&"):
        if separator in words:
            at = words.index(separator)
            yield from commands_in(words[:at])
            if separator in ("&&", ";"):
                yield from commands_in(words[at + 1:])
            return
    if not words:
        return
    name = words[0].split("/")[-1]
    if name == "weft-report" and "--" in words:  # which runs another command
        at = words.index("--")
        yield words[0], words[1:at]
        yield from commands_in(words[at + 1:])
        return
    if name in LAUNCHERS:
        for at in range(1, len(words)):
            if (is_program(words[at]) or words[at] in ("mpirun", "python3")) and words[at - 1] != "-x":
                yield words[0], words[1:at]
                yield from commands_in(words[at:])
                return
    yield words[0], words[1:]


def try_program(name, arguments):
    values = ["4" if PLACEHOLDER.match(word) and len(word) < 3 else word for word in arguments]
    if name == "ddp":
        if "--checkpoint" in values[:-1]:
            at = values.index("--checkpoint")
            values[at:at + 2] = []
        return "" if len(values) <= 1 and not any(value.startswith("-") for value in values) else "takes a text and --checkpoint FOLDER"
    if name == "weft-launch" and values == ["--hosts"]:  # the name of the option alone
        return ""
    if "--help" not in values:
        values.append("--help")
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([bin_folder / name, *values], capture_output=True, text=True, timeout=60, cwd=folder)
    return "" if result.returncode == 0 else (result.stderr or result.stdout).strip().split("\n")[0]


def complaint(word, arguments):
    name = word.split("/")[-1]
    if is_program(word) and name in PROGRAMS:
        return try_program(name, arguments)
    if re.match(r"^(tests|launchers|bench|examples)/", word) and re.search(r"\.(sh|py)$", word):
        script = top / word
        if not script.exists():
            return "there is no such script"
        first = next((one for one in arguments if not one.startswith("-")), None)
        if name == "soak.sh" and first and not re.search(rf"(^|\W){re.escape(first)}(\W|$)", script.read_text()):
            return f"the script does not know {first}"
    return ""


def main():
    bad = [complaint("build/release/bin/weft-plan", ["memory", "--no-such-option"]), complaint("tests/soak.sh", ["no-such-trial"]),
           complaint("tests/no_such.sh", [])]
    if not all(bad) or complaint("weft-plan", ["memory", "--ranks", "4"]):
        sys.exit(f"commands_test.py: does not notice what is wrong on purpose: {bad}")
    failures, tried = 0, set()
    pages = [top / "README.md", top / "CONTRIBUTING.md", *sorted((top / "docs").glob("*.md")), *sorted(top.glob("examples/*/README.md")),
             top / "bench/README.md", top / "bench/results/README.md"]
    for page in pages:
        for number, line in code_of(page.read_text()):
            for word, arguments in commands_in(words_of(line)):
                key = (word, *arguments)
                if key in tried:
                    continue
                said = complaint(word, arguments)
                if is_program(word) or re.search(r"\.(sh|py)$", word):
                    tried.add(key)
                if said:
                    failures += 1
                    print(f"{page.relative_to(top)}:{number}: {line.strip()}\n    {said}")
    print(f"{len(tried)} commands")
    sys.exit(1 if failures or len(tried) < 40 else 0)


main()
