#!/usr/bin/env python3
"""Writes the programs and snippets that README.md and docs/ show as sources, for the build to compile.

usage: extract.py FOLDER_OF_THE_PROJECT OUT_FOLDER

A block of C++ in a page is fenced as ```cpp or ```diff, and a comment on the line before says what it is:
  <!-- file: main.cpp -->        of start.md: a whole program, written as first.cpp
  <!-- diff: A.cpp -> B.cpp -->  a unified diff; main.cpp is examples/ddp/main.cpp, and what leads to it is found backwards
  <!-- part of: A.cpp -->        lines that A.cpp has, all of them one after the other
Any other ```cpp block is a snippet: it becomes the body of a function in snippets.cpp, after what snippets.hpp declares. An #include in it
is left out; a snippet that defines a class, after `class` or `struct` at the beginning of a line, becomes a part of a namespace.
Trainings of 400 steps are written with 100, so that the tests take less time.
"""
import pathlib
import re
import sys

OF_TORCH = {"libtorch.md"}  # tests/torch has its snippets
BLOCK = re.compile(r"(?:<!-- (file|diff|part of): (.*?) -->\n)?```(cpp|diff)\n(.*?)```", re.S)


def fail(message):
    sys.exit(f"extract.py: {message}")


def hunks(diff):
    """(old lines, new lines) of each hunk."""
    for hunk in re.split(r"^@@.*@@\n", diff, flags=re.M)[1:]:
        lines = [line if line else " " for line in hunk.rstrip("\n").split("\n")]
        yield ([line[1:] for line in lines if line[0] in " -"], [line[1:] for line in lines if line[0] in " +"])


def patched(text, diff, name, backwards=False):
    """The text after a diff, or before it. A hunk goes to the first place behind the hunk before that has its old lines."""
    lines, at = text.split("\n"), 0
    for old, new in hunks(diff):
        if backwards:
            old, new = new, old
        places = [i for i in range(at, len(lines) - len(old) + 1) if lines[i:i + len(old)] == old]
        if not places:
            fail(f"{name}: no place has the lines of this hunk:\n" + "\n".join(old))
        lines[places[0]:places[0] + len(old)] = new
        at = places[0] + len(new)
    return "\n".join(lines)


def snippet(number, page, line, body):
    """One snippet as a function, or as a namespace where it defines types."""
    body = re.sub(r"^#include.*\n", "", body, flags=re.M)
    kind = f"namespace snippet_{number}" if re.search(r"^(class|struct) ", body, re.M) else f"[[maybe_unused]] void snippet_{number}()"
    return f'{kind} {{\n#line {line} "{page}"\n{body}}}\n'


def main(top, out):
    out.mkdir(parents=True, exist_ok=True)
    pages = [top / "README.md", *sorted(page for page in (top / "docs").glob("*.md") if page.name not in OF_TORCH)]
    files = {"main.cpp": (top / "examples/ddp/main.cpp").read_text()}
    diffs, parts, snippets = [], [], []
    for page in pages:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            kind, what, language, body = match.groups()
            line = text[:match.start(4)].count("\n") + 1
            if kind == "file":
                files["first.cpp"] = body
            elif kind == "part of":
                parts.append((what, body, page.name))
            elif language == "diff":
                if kind != "diff":
                    fail(f"{page.name}:{line}: a diff without <!-- diff: A.cpp -> B.cpp -->")
                diffs.append((*what.split(" -> "), body))
            else:
                snippets.append(snippet(len(snippets), page.name, line, body))
    while diffs:
        for diff in diffs:
            before, after, body = diff
            if after in files and before not in files:
                files[before] = patched(files[after], body, before, backwards=True)
            elif before in files and after not in files:
                files[after] = patched(files[before], body, after)
            else:
                continue
            diffs.remove(diff)
            break
        else:
            fail("diffs lead from no known file: " + ", ".join(f"{a} -> {b}" for a, b, _ in diffs))
    for name, body, page in parts:
        shown = [line.strip() for line in body.strip().split("\n")]
        real = [line.strip() for line in files[name].split("\n")]
        if not any(real[i:i + len(shown)] == shown for i in range(len(real))):
            fail(f"{page}: {name} does not have the lines that are shown as a part of it")
    files["snippets.cpp"] = '#include "snippets.hpp"\n' + "".join(snippets)
    for name, text in files.items():
        text = text.replace("steps = 400", "steps = 100")
        if name != "main.cpp" and (not (out / name).exists() or (out / name).read_text() != text):
            (out / name).write_text(text)
    print(f"extract.py: {len(files) - 2} programs and {len(snippets)} snippets of {len(pages)} pages")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
