#!/usr/bin/env python3
"""Writes the snippets of docs/libtorch.md as functions, and main(), which runs them; the diff that the page shows must be the example's.

usage: snippets.py FOLDER_OF_THE_PROJECT OUT.cpp
"""
import pathlib
import re
import sys

top, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
page = (top / "docs/libtorch.md").read_text()
bodies, calls = [], []
for match in re.finditer(r"```(cpp|diff)\n(.*?)```", page, re.S):
    language, body = match.groups()
    line = page[:match.start(2)].count("\n") + 1
    if language == "cpp":
        bodies.append(f'void snippet_{line}(weft::Communicator comm, Net& net) {{\n#line {line} "libtorch.md"\n{body}}}\n')
        calls.append(f"  run(snippet_{line});\n")
        continue
    real = (top / "examples/torch/cpp/convolutions.diff").read_text().split("\n")
    changed = [one for one in real if re.match(r"[+-][^+-]", one)]
    shown = [one for one in body.split("\n") if re.match(r"[+-]", one)]
    if shown != changed:
        sys.exit(f"docs/libtorch.md:{line}: the diff is not that of examples/torch/cpp/convolutions.diff:\n" + "\n".join(changed))
if not bodies:
    sys.exit("docs/libtorch.md has no snippet")
out.write_text('#include "torch/libtorch/snippets.hpp"\n\n' + "\n".join(bodies) + f"\nint main() {{\n{''.join(calls)}  std::cout << \"{len(calls)} snippets\\n\";\n}}\n")
