#!/usr/bin/env python3
"""Every page of the tree can be read: at most 300 lines and 2,500 words, no sentence above 40 words (prose.py says what both are), and every relative
link leads to a file, and to a heading in it where it names one. The first 25 lines of a page of docs/ say for whom it is, and show a command or
code. The comments of the public headers have no longer sentences either.

usage: pages_test.py FOLDER_OF_THE_PROJECT
Each folder of src and tools with sources has a README, which names the folders within it. Not looked at: bench/results/README.md, which is generated from figures, as to its length. docs/README.md must lead to every page of docs/.
Before the tree, the checks are tried on pages that are bad in one way each.
"""
import pathlib
import re
import sys

import prose

MOST_LINES, MOST_WORDS, MOST_WORDS_OF_A_PAGE = 300, 40, 2500
GENERATED = {"bench/results/README.md"}
OPENING, FOR_WHOM = 25, re.compile(r"\bfor (those|programs)\b")
OTHER_OPENINGS = {"docs/environment.md": "a program prints it", "docs/glossary.md": "it has no command"}
SKIPPED = ("build", ".git", "tests/fuzz/corpus", "shared")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|<(?:img|source)[^>]*?src(?:set)?=\"([^\"]+)\"")


def anchors(text):
    """The names that headings get: small letters, digits, - and _; spaces become -; a second one of the same name gets -1."""
    found = set()
    for line in prose.without_fences(text):
        if match := re.match(r"#+\s+(.*)", line):
            heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "")
            name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
            found.add(name if name not in found else name + "-1")
    return found


def complaints(root, path):
    name, text = path.relative_to(root).as_posix(), path.read_text()
    if path.suffix in (".hpp", ".h"):
        said = prose.header(text)
    else:
        said = prose.page(text)
        lines = text.count("\n")
        if lines > MOST_LINES and name not in GENERATED:
            yield f"{name} has {lines} lines, more than {MOST_LINES}"
        words = sum(prose.words(prose.plain(block)) for _, block in prose.blocks(text))
        if words > MOST_WORDS_OF_A_PAGE and name not in GENERATED:
            yield f"{name} has {words} words, more than {MOST_WORDS_OF_A_PAGE}: split it, or cut it"
        if name.startswith("docs/") and name not in OTHER_OPENINGS:
            yield from opening_complaints(name, text)
        for match in LINK.finditer("\n".join(prose.without_fences(text))):
            yield from link_complaints(root, path, name, match[1] or match[2])
    for number, sentence in said:
        if prose.words(sentence) > MOST_WORDS:
            yield f"{name}:{number}: a sentence of {prose.words(sentence)} words, more than {MOST_WORDS}: {sentence[:70]}..."


def opening_complaints(name, text):
    opening = text.split("\n")[:OPENING]
    if not FOR_WHOM.search(" ".join(opening)):
        yield f"{name}: its first {OPENING} lines do not say for whom it is ('for those who')"
    if not any(line.startswith(("    ", "```")) for line in opening):
        yield f"{name}: its first {OPENING} lines show no command and no code"


def link_complaints(root, path, name, link):
    if re.match(r"(https?|mailto):", link):
        return
    file, _, anchor = link.partition("#")
    target = (path.parent / file).resolve() if file else path
    if not target.exists():
        yield f"{name}: nothing is at {link}"
    elif not target.is_relative_to(root):
        yield f"{name}: {link} leads out of the project"
    elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
        yield f"{name}: {link} names no heading of that page"


def pages_of(root):
    for path in sorted([*root.rglob("*.md"), *(root / "include").rglob("*.hpp"), *(root / "include").rglob("*.h")]):
        if not path.relative_to(root).as_posix().startswith(SKIPPED):
            yield path


def rooms(root):
    """Folders of src and tools that have no README, or one that leaves out a folder within them."""
    for folder in sorted(path for top in ("src", "tools") for path in (root / top).rglob("*") if path.is_dir()):
        name, page = folder.relative_to(root).as_posix(), folder / "README.md"
        if not page.exists():
            if any(path.suffix in (".cpp", ".hpp", ".cu") for path in folder.iterdir()):
                yield f"{name} has no README.md"
            continue
        for inner in sorted(path.name for path in folder.iterdir() if path.is_dir()):
            if not re.search(rf"\b{re.escape(inner)}\b", page.read_text()):
                yield f"{name}/README.md does not name {inner}/"


def all_complaints(root):
    for path in pages_of(root):
        yield from complaints(root, path)
    yield from rooms(root)
    contents = root / "docs/README.md"
    if contents.exists():
        listed = {match[1] for match in re.finditer(r"\(([\w-]+\.md)", contents.read_text())}
        for page in sorted((root / "docs").glob("*.md")):
            if page.name not in listed and page != contents:
                yield f"docs/README.md does not lead to {page.name}"


def expect_refused(work, what, *found, beside=()):
    """The page or header `what` alone, beside empty files, in a folder of its own, gets exactly complaints that contain `found`."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        for part in ("include", "docs"):
            (root / part).mkdir()
        for path in beside:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        (root / work).write_text(what)
        said = list(all_complaints(root))
        if len(said) != len(found) or any(part not in one for part, one in zip(found, said)):
            sys.exit(f"pages_test.py: of a page that is bad on purpose it says {said}, not {list(found)}")


def try_the_checks():
    forty = "word " * 39 + "word."
    expect_refused("a.md", f"# A\n\n{forty} {forty.replace('w', 'W')}\n\n- {forty}\n- {forty}\n\n```\n{forty} {forty}\n```\n")
    expect_refused("a.md", f"{'word ' * 40}word.\n", "a sentence of 41 words")
    expect_refused("a.md", f"| a | {'word ' * 40}word |\n", "a sentence of 41 words")
    expect_refused("a.md", f"1. {'word ' * 20}\n   {'word ' * 21}\n", "a sentence of 41 words")
    expect_refused("a.md", f"Word (e.g. {'word ' * 40}\n", "a sentence of 42 words")
    expect_refused("a.md", "line\n" * 301, "has 301 lines", "a sentence of 301 words")
    expect_refused("a.md", ("word " * 25 + "word.\n\n") * 97, "has 2522 words")
    expect_refused("a.md", "[x](b.md) [y](#a) [z](https://example.com)\n", "nothing is at b.md", "#a names no heading")
    expect_refused("a.md", "# A b `c`: d\n\n[x](#a-b-c-d) [y](a.md#a-b)\n", "a.md#a-b names no heading")
    expect_refused("docs/a.md", "# A\n\nThis is for those who read.\n\n    command\n")
    expect_refused("docs/a.md", "# A\n\nThis is for those who read.\n" + "\n" * 25 + "    command\n", "no command and no code")
    expect_refused("docs/a.md", "# A\n\n    command\n", "for whom it is")
    expect_refused("include/a.hpp", f"// {'word ' * 20}\n// {'word ' * 21}\n", "a sentence of 41 words")
    expect_refused("include/a.h", f"// {'word ' * 20}\n// {'word ' * 21}\n", "a sentence of 41 words")
    expect_refused("include/a.hpp", f"int a;  ///< {'word ' * 41}\n", "a sentence of 41 words")
    expect_refused("src/a/README.md", "- [b](b)\n", "src/a/README.md does not name c/", "src/a/c has no README.md",
                   beside=("src/a/README.md", "src/a/b/README.md", "src/a/c/c.cpp"))


try_the_checks()
top = pathlib.Path(sys.argv[1]).resolve()
bad = list(all_complaints(top))
print("\n".join(bad) if bad else f"{sum(1 for _ in pages_of(top))} pages and headers; no sentence above {MOST_WORDS} words, no page above {MOST_LINES} lines or {MOST_WORDS_OF_A_PAGE} words, every link leads somewhere, every README of src and tools names its folders")
sys.exit(1 if bad else 0)
