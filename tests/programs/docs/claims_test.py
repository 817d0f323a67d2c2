#!/usr/bin/env python3
"""What pages claim of versions and of lists that code has is what the code says: the oldest torch, the versions of NCCL, the transports. What has run on
which GPU stands in docs/gpu.md, with its figures in bench/results, and other pages lead there.

usage: claims_test.py FOLDER_OF_THE_PROJECT
"""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1]).resolve()
bad = []


def read(name):
    return (top / name).read_text()


def only(pattern, name):
    """The one text that the pattern finds in a file."""
    found = set(re.findall(pattern, read(name)))
    if len(found) != 1:
        sys.exit(f"claims_test.py: {pattern} finds {sorted(found)} in {name}; teach this test where the fact stands now")
    return found.pop()


def expect(holds, words):
    if not holds:
        bad.append(words)


def pages():
    for path in sorted([*top.rglob("*.md"), *(top / "include").rglob("*.hpp")]):
        name = path.relative_to(top).as_posix()
        if not name.startswith(("build/", ".git/", "shared/", "bench/results/")):
            yield name, re.sub(r"\s+(///?)? *", " ", path.read_text())


# torch: what pip refuses is what the build refuses, and what pages promise.
torch = only(r'"torch>=([\d.]+)"', "pyproject.toml")
expect(only(r"a torch of ([\d.]+) or newer", "cmake/WeftTorchPython.cmake") == torch, f"cmake/WeftTorchPython.cmake wants another torch than {torch}")
# NCCL: the oldest that weft loads; the tuner's oldest and newest interface have a test that loads it as that version does.
oldest = ".".join(re.search(r"oldest_version = version_code\((\d+), (\d+)\)", read("src/collectives/nccl/api.hpp")).groups())
loaded = sorted(re.findall(r'"Nccl2(\d\d)"', read("tests/unit/tools/weft-report/tuner/tuner_test.cpp")))
tuner, newest = f"2.{loaded[0]}", f"2.{loaded[-1]}"
logs = "2.4"  # the oldest whose lines tests/nccl_catalogue.py compares
catalogued = re.findall(r"\b2\.\d+\b", only(r"// Source of the texts: ([^\n]*)", "tools/weft-report/nccl/catalogue/rows.inc"))  # with those of published libraries
counts = {"torch": 0, "NCCL": 0}
for name, text in pages():
    for version in re.findall(r"torch (\d[\d.]*\d) (?:and|or) newer", text):
        counts["torch"] += 1
        expect(version == torch, f"{name}: torch {version} and newer; pyproject.toml wants {torch}")
    for first, last in re.findall(r"NCCL (2\.\d+) to (2\.\d+)", text):
        if name.startswith("docs/findings"):
            continue  # of others' jobs
        counts["NCCL"] += 1
        of_logs = first == logs and last == catalogued[-1]
        expect(of_logs or first in (oldest, tuner, logs) and last == newest, f"{name}: NCCL {first} to {last}; weft takes {oldest}, its tuner {tuner}, to {newest}")
    if not name.startswith(("README.md", "docs/gpu")):
        for claim in re.findall(r"\b(?:ran|run|passed|tried|measured) on (?:an?|one|two) (?:H100|H200|B200|A100)\b", text):
            expect(False, f"{name} says '{claim}': what has run on which GPU stands in docs/gpu.md")
expect(all(counts.values()), f"no page says a version any more: {counts}")
for name in ("README.md", "docs/faq.md", "docs/pytorch.md"):
    expect(re.search(r"\]\((docs/)?gpu\.md", read(name)), f"{name} does not lead to docs/gpu.md")

# Transports: those that the code knows are the rows of the page, the words of the variable, and rooms.
source = next((top / "src/collectives").rglob("transports.hpp")).relative_to(top).as_posix()
known = {"auto", *re.findall(r"^  ROW\((\w+),", read(source), re.M)}
rows = set(re.findall(r"^\| `(\w+)` \|", read("docs/transports.md").split("All ranks need")[0], re.M))
expect(known == rows, f"docs/transports.md has rows for {sorted(rows)}, {source} knows {sorted(known)}")
words = only(r'Variable transport\{"WEFT_TRANSPORT", "auto", "([^"]*)"', "include/weft/core/env.hpp")
for transport in sorted(known):
    expect(re.search(rf"\b{transport}\b", words), f"WEFT_TRANSPORT's words in env.hpp do not name {transport}")
for transport in sorted(known - {"auto"}):
    room = next((path for path in (top / "src/collectives").rglob(transport) if path.is_dir()), None)
    expect(room, f"there is no room of the transport {transport}")
    if room:
        expect(re.search(rf"\b{transport}/", (room.parent / "README.md").read_text()), f"{room.parent.relative_to(top)}/README.md does not name {transport}/")

print("\n".join(bad) if bad else f"torch {torch}, NCCL {oldest} (tuner {tuner}) to {newest}, transports {', '.join(sorted(known))}: pages say so")
sys.exit(1 if bad else 0)
