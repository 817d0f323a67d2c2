#!/usr/bin/env python3
"""README.md is a screen and a half, and docs/README.md lists every class and program.

usage: front_test.py FOLDER_OF_THE_PROJECT
README.md has at most 90 lines, and at most 600 words outside code and the rules of tables (the rows of dashes). Cells of tables count.
docs/README.md names, in backticks, each class and struct that a public header defines in a namespace other than detail, and each program: the
folders of tools/ that have a main.cpp, and the folders of examples/. Before the tree, the checks are tried on what is bad on purpose.
"""
import pathlib
import re
import sys

import prose

MOST_LINES, MOST_WORDS = 90, 600
TYPE = re.compile(r"(?:template <[^>]*> *)?(?:class|struct)(?: alignas\([^)]*\))? (\w+)(?: final)?(?: :[^:].*)?\s*\{")


def front_complaints(text):
    lines = text.count("\n")
    if lines > MOST_LINES:
        yield f"README.md has {lines} lines, more than {MOST_LINES}"
    words = sum(prose.words(prose.plain(block)) for _, block in prose.blocks(re.sub(r"<[^>]*>", "", text)))
    if words > MOST_WORDS:
        yield f"README.md has {words} words outside code, more than {MOST_WORDS}"


def types_of(header):
    """The classes and structs that a header defines at the level of a namespace; not those of namespaces named detail."""
    spaces = []
    for line in header.split("\n"):
        if opened := re.match(r"(?:inline )?namespace ([\w:]+)", line):
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif "detail" not in spaces and (found := TYPE.match(line)):
            yield found[1]


def catalogue_complaints(root):
    listed = set()
    for code in re.findall(r"`([^`]+)`", (root / "docs/README.md").read_text()):
        listed.update(re.findall(r"[\w-]+", code))
    wanted = [(name, header) for header in sorted((root / "include").rglob("*.hpp")) for name in types_of(header.read_text())]
    wanted += [(main.parent.name, main) for main in sorted((root / "tools").glob("*/main.cpp"))]
    wanted += [(folder.name, folder) for folder in sorted((root / "examples").iterdir()) if folder.is_dir()]
    for name, where in wanted:
        if name not in listed:
            yield f"docs/README.md does not name {name} of {where.relative_to(root).as_posix()}"
    if len(wanted) < 100:
        yield f"only {len(wanted)} classes and programs were found in the tree: this test does not read it any more"


def try_the_checks():
    bad = (list(front_complaints("line\n" * 91)), list(front_complaints("| " + "word " * 601 + "|\n|---|\n")),
           list(types_of("namespace weft {\nnamespace detail {\nclass A {\n}  // namespace detail\nclass B;\ntemplate <class T>\nstruct C {\nclass D final : public C<int> {\n}")))
    good = list(front_complaints("word\n" * 90)) + list(front_complaints("word " * 600 + "\n\n```\n" + "word " * 99 + "\n```\n\n    code code\n"))
    if [len(said) for said in bad] != [1, 1, 2] or bad[2] != ["C", "D"] or good:
        sys.exit(f"front_test.py: does not notice what is wrong on purpose: {bad} {good}")


def main():
    try_the_checks()
    top = pathlib.Path(sys.argv[1]).resolve()
    text = (top / "README.md").read_text()
    bad = [*front_complaints(text), *catalogue_complaints(top)]
    print("\n".join(bad) if bad else "README.md is short, and docs/README.md lists every class and program")
    sys.exit(1 if bad else 0)


main()
