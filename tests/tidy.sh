#!/usr/bin/env bash
# clang-tidy (.clang-tidy has its checks) on sources of src and tools: each for itself, with the commands of preset tidy, which builds nothing.
#   usage: tests/tidy.sh [FILE...]    all of them without a file: about half an hour on two cores, a few seconds for a file
# launchers/setup.sh lint installs clang-tidy, in an environment of its own. Sources that need torch have no command there, and are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
. launchers/toolchain.sh
PATH=${WEFT_LINT_VENV:-$HOME/.cache/weft-lint}/bin:$PATH
command -v clang-tidy >/dev/null || { echo "tidy: there is no clang-tidy; launchers/setup.sh lint installs it" >&2; exit 42; }
mkdir -p build
cmake --preset tidy >build/tidy.log 2>&1 || { tail -n 20 build/tidy.log; echo "tidy: cmake fails; all of it is in build/tidy.log" >&2; exit 70; }

mapfile -t sources < <(python3 - "$@" <<'PYTHON'
import json
import pathlib
import sys

known = [pathlib.Path(entry["file"]) for entry in json.load(open("build/tidy/compile_commands.json"))]
wanted = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
top = pathlib.Path.cwd()
for path in known:
    if path.suffix == ".cpp" and (path in wanted if wanted else any(path.is_relative_to(top / folder) for folder in ("src", "tools"))):
        print(path.relative_to(top))
PYTHON
)
[ ${#sources[@]} -gt 0 ] || { echo "tidy: no source of preset tidy is among: $*"; exit 0; }
printf '%s\0' "${sources[@]}" | xargs -0 -n 4 -P "$jobs" clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2>build/tidy.log ||
  { echo "tidy: the lines above are to be mended"; exit 1; }
echo "tidy: ${#sources[@]} sources are clean"
