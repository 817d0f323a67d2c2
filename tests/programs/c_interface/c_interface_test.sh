#!/usr/bin/env bash
# weft.h in each dialect by itself; a program in C that is linked with libweft.so alone, on ranks of every launcher; the names that libweft.so
# shows beside those of the header.
# usage: c_interface_test.sh TOP LIBWEFT_SO WEFT_LAUNCH CXX_COMPILER [MPIRUN]
set -u
top=$1 library=$2 launch=$3 compiler=$4 mpirun=${5:-}
. "$(dirname "$0")/../../support/checks.sh"
command -v gcc >/dev/null || { echo "skipped: there is no gcc"; exit 77; }

printf '#include <weft/weft.h>\n#include <weft/weft.h>\nint main(void) { return weft_exit_code(WEFT_OK); }\n' >"$work/header.c"
cp "$work/header.c" "$work/header.cpp"
alone() {  # COMPILER DIALECT FILE
  check "weft.h alone, $2 of $(basename "$1")" 0 '' bash -c 'echo begun; "$@"' - "$1" -std="$2" -pedantic -Wall -Wextra -Werror -I"$top/include" \
    -fsyntax-only "$work/$3"
}
dialects=(c11 c17 c2x)
for dialect in "${dialects[@]}"; do alone gcc "$dialect" header.c; done
for dialect in c++11 c++17 c++20; do alone "$compiler" "$dialect" header.cpp; done
if command -v clang >/dev/null; then
  for dialect in "${dialects[@]}"; do alone clang "$dialect" header.c; done
  alone clang++ c++20 header.cpp
fi
# Beside the C++ headers, none of whose names it takes.
printf '#include <weft/weft.h>\n#include <weft/weft.hpp>\nint main() { weft::Stream stream; return weft_exit_code(WEFT_OK); }\n' >"$work/both.cpp"
alone "$compiler" c++20 both.cpp

# Declared, listed with a version, and shown: the same names.
gcc -E -P -I"$top/include" "$work/header.c" | tr '\n' ' ' | grep -oE '\bweft_[a-z_0-9]+\(' | tr -d '(' | sort -u >"$work/declared"
sed -nE 's/^ +(weft_[a-z_0-9]+);$/\1/p' "$top/src/c/symbols.map" | sort >"$work/listed"
nm -D --defined-only "$library" | sed -nE 's/^.* T (weft_[a-z_0-9]+)@@WEFT_C_[0-9.]+$/\1/p' | sort >"$work/shown"
: >"$work/out"
: >"$work/err"
[ "$(wc -l <"$work/declared")" -gt 60 ] || fail "weft.h declares $(wc -l <"$work/declared") functions"
diff "$work/declared" "$work/listed" >"$work/out" || fail "weft.h and src/c/symbols.map have not the same functions"
diff "$work/listed" "$work/shown" >"$work/out" || fail "src/c/symbols.map and libweft.so have not the same functions"
nm -D --defined-only "$library" | grep -E ' weft_' | grep -v '@@WEFT_C_' >"$work/out" && fail "these names of C have no version"

libraries=$(dirname "$library")
gcc -std=c11 -pedantic -O2 -Wall -Wextra -Werror -I"$top/include" "$(dirname "$0")/collectives.c" -L"$libraries" -lweft -Wl,-rpath,"$libraries" \
  -o "$work/collectives" 2>"$work/err" || fail "gcc does not compile and link"
for ranks in 1 2 3 4; do
  check "$ranks ranks of weft-launch" 0 "rank $((ranks - 1)) of $ranks: all results are right" "$launch" -n "$ranks" "$work/collectives"
done
for ranks in 2 4; do
  check "$ranks ranks, TCP" 0 "rank $((ranks - 1)) of $ranks: all results are right, over host .TCP" env WEFT_TRANSPORT=tcp RANKS_PER_NODE=1 \
    "$launch" -n "$ranks" "$top/tests/conformance/on_many_nodes.sh" "$work/collectives"
  if [ -n "$mpirun" ]; then
    check "$ranks ranks of mpirun" 0 "rank $((ranks - 1)) of $ranks: all results are right" env OMPI_MCA_rmaps_base_oversubscribe=1 "$mpirun" \
      --bind-to none -n "$ranks" "$work/collectives"
  fi
done
check "a rank that the environment denies" 42 "weft: weft_world_from_environment: WEFT_RANK" env WEFT_RANK=5 "$work/collectives"
finish
