#!/usr/bin/env bash
# The project's includes point down, and the script that says so notices when they do not.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
"$top/tests/includes.sh" "$top"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expect_refused() {  # FILE INCLUDE
  rm -rf "$work/include" "$work/src"
  mkdir -p "$work/include/weft" "$work/src" "$work/$(dirname "$1")"
  echo "#include $2" >"$work/$1"
  if "$top/tests/includes.sh" "$work" >"$work/out"; then
    echo "FAILED: $1 may include $2"
    exit 1
  fi
  grep -q "$1" "$work/out" || { echo "FAILED: $1 is not named"; exit 1; }
}
expect_refused src/core/a.cpp '"weft/collectives/world.hpp"'
expect_refused src/collectives/backends/a.cpp '"gradient/plan/plan_agreement.hpp"'
expect_refused include/weft/gradient/a.hpp '"weft/zero/b.hpp"'
expect_refused src/zero/a.cpp '"weft/pipeline/b.hpp"'
expect_refused include/weft/core/a.hpp '<mpi.h>'
expect_refused src/gradient/a.cpp '"common/command_line.hpp"'
expect_refused src/core/a.cpp '"weft/weft.hpp"'
echo "and seven that do not were refused"
