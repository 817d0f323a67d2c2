#!/usr/bin/env bash
# tests/abi.sh: a build has the interface of itself; and a function that is gone, another type, another version and a field in between are noticed.
# usage: abidiff_test.sh TOP LIBWEFT_SO
set -u
top=$1 library=$2
command -v abidiff >/dev/null || { echo "skipped: there is no abidiff; launchers/setup.sh test installs it"; exit 77; }
. "$(dirname "$0")/../../support/checks.sh"

mkdir -p "$work/built/include/weft"
cp "$top/include/weft/weft.h" "$work/built/include/weft"
ln -s "$(realpath "$library")" "$work/built/libweft.so"
check "a build beside itself" 0 "^abi.sh: 1[0-9][0-9] functions before, .*run with" bash "$top/tests/abi.sh" "$work/built" "$work/built"

changed() {  # NAME SED [VERSION]: a folder whose header is changed so, and a library of what it declares
  mkdir -p "$work/$1/include/weft"
  sed -zE "$2" "$top/include/weft/weft.h" >"$work/$1/include/weft/weft.h"
  [ -z "$2" ] || ! cmp -s "$top/include/weft/weft.h" "$work/$1/include/weft/weft.h" || fail "$1 changes nothing"
  python3 "$top/tests/abi.py" --stub "$work/$1/include/weft/weft.h" >"$work/$1/stub.c"
  printf '%s { weft_*; };\n' "${3:-WEFT_C_0.1}" >"$work/$1/map"
  gcc -w -shared -fPIC -I"$work/$1/include" "$work/$1/stub.c" -Wl,--version-script="$work/$1/map" -o "$work/$1/libweft.so" 2>"$work/err" || fail "$1 does not build"
}
runs() { changed "$1" "$2"; check "$1" 0 "now; programs built against .* run with" bash "$top/tests/abi.sh" "$work/built" "$work/$1"; }
breaks() { changed "$1" "$2" "${4:-}"; check "$1" 1 "$3" bash "$top/tests/abi.sh" "$work/built" "$work/$1"; }
runs same ''
runs a-field-at-the-end 's/  int order;    [^\n]*/  int order; int64_t more;/'
runs a-new-function 's/int weft_comm_size\(/int weft_comm_more(weft_comm_t comm);\nint weft_comm_size(/'
breaks a-function-is-gone 's/weft_status_t weft_work_free\([^\n]*//' "weft_work_free"
breaks another-argument 's/int weft_comm_node_of\(weft_comm_t comm, int rank/int weft_comm_node_of(weft_comm_t comm, int64_t rank/' "weft_comm_node_of"
breaks another-result 's/int weft_comm_size\(/int64_t weft_comm_size(/' "weft_comm_size"
breaks a-field-in-between 's/  int private_memory;/  int other; int private_memory;/' "weft_threads_options"
breaks another-version '' "weft_comm_size@@WEFT_C_0.1" WEFT_C_0.2
mkdir -p "$work/header-alone/include"
cp -r "$work/built/include/weft" "$work/header-alone/include"
check "no library" 42 "header-alone has no include/weft/weft.h, or no libweft.so" bash "$top/tests/abi.sh" "$work/header-alone" "$work/built"
check "no header" 42 "launchers has no include/weft/weft.h, or no libweft.so" bash "$top/tests/abi.sh" "$work/built" "$top/launchers"
finish
