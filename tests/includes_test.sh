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
# Rooms: both ways is refused, also through a source; one way and a room's own folder are not.
expect() {  # refused|allowed NAME_OR_EMPTY FILE INCLUDE FILE INCLUDE
  rm -rf "$work/include" "$work/src"
  mkdir -p "$work/include/weft" "$work/src/zero/plan/inner" "$work/src/zero/update"
  echo "#include \"$4\"" >"$work/src/$3"
  echo "#include \"$6\"" >>"$work/src/$5"
  local got=allowed
  "$top/tests/includes.sh" "$work" >"$work/out" || got=refused
  if [ $got != "$1" ] || ! grep -q "$2" "$work/out"; then
    echo "FAILED: of $3 with $4 and $5 with $6, which is to be $1, it says"
    cat "$work/out"
    exit 1
  fi
}
expect refused 'zero/plan and zero/update include each other' zero/plan/a.cpp zero/update/b.hpp zero/update/b.hpp zero/plan/a.hpp
expect refused 'zero/update/b.cu includes zero/plan/a.hpp' zero/plan/a.hpp zero/update/b.hpp zero/update/b.cu zero/plan/a.hpp
expect allowed 'point down' zero/plan/a.cpp zero/update/b.hpp zero/plan/c.cpp zero/update/d.hpp
expect allowed 'point down' zero/plan/a.cpp zero/plan/inner/b.hpp zero/plan/inner/b.cpp zero/plan/a.hpp
# A class of one name in one namespace twice is refused; in a namespace without a name, or declared only, it is not.
expect_twice() {  # refused|allowed SECOND_DEFINITION
  rm -rf "$work/include" "$work/src"
  mkdir -p "$work/include/weft" "$work/src/core"
  printf 'namespace weft {\nnamespace detail {\nclass Wire final : public Task {\n' >"$work/src/core/a.hpp"
  printf '#include "core/a.hpp"\nnamespace weft::detail {\n%b' "$2" >"$work/src/core/b.hpp"
  local got=allowed
  "$top/tests/includes.sh" "$work" >"$work/out" || got=refused
  if [ $got != "$1" ] || { [ "$1" = refused ] && ! grep -q 'both define weft::detail::Wire' "$work/out"; }; then
    echo "FAILED: a second definition, $2, is to be $1; it says"
    cat "$work/out"
    exit 1
  fi
}
expect_twice refused 'struct Wire {\n'
expect_twice allowed 'namespace {\nclass Wire {\n'
expect_twice allowed 'class Wire;\n'
expect_twice allowed 'struct Other::Wire {\n'
expect_twice allowed '}  // namespace weft::detail\nnamespace weft {\nclass Wire {\n'
echo "and ten that do not were refused"
