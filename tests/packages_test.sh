#!/usr/bin/env bash
# What the tree takes from outside is in launchers/setup.sh, and the script that says so notices what is not.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
python3 "$top/tests/packages.py" "$top"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expect_refused() {  # WHAT, a regular expression of the complaint
  if python3 "$top/tests/packages.py" "$work" >"$work/out"; then
    echo "FAILED: $1 was not noticed"
    exit 1
  fi
  grep -qE "$2" "$work/out" || { echo "FAILED: $1: the complaint is"; cat "$work/out"; exit 1; }
}
cp -r "$top"/{launchers,.ci} "$work"
mkdir -p "$work"/{src/core,include,tools,tests,bench,examples}
echo '#include <gmock/gmock.h>' >"$work/tests/one.cpp"
echo '#include <vector>' >"$work/src/core/error.cpp"
sed -i 's/libgmock-dev//' "$work/launchers/setup.sh"
expect_refused "a package that setup.sh lacks" 'includes <gmock/gmock.h>, which belongs to libgmock-dev'
cp "$top/launchers/setup.sh" "$work/launchers"
echo '#include <ghost/ghost.h>' >>"$work/src/core/error.cpp"
expect_refused "a header of nobody's" 'includes <ghost/ghost.h>, which is not installed'
sed -i '/ghost/d' "$work/src/core/error.cpp"
echo 'if true; then ghost --all; fi' >>"$work/launchers/quickstart.sh"
expect_refused "a program of nobody's" 'quickstart.sh calls ghost'
echo "and three that do not were refused"
