#!/usr/bin/env bash
# Compares the binary interface of weft in C of two builds by abidiff (package abigail-tools): the functions that libweft.so shows with their versions,
# and their types as weft.h has them. tests/abi.py compares the same without a build, and numbers that have a name, which abidiff does not see.
#   usage: abi.sh OLD NEW    each a folder with include/weft/weft.h and libweft.so below it: an installed weft, or a folder of both
# A library need not have debug information: for each side a library of empty functions is built from its weft.h, of those that its libweft.so shows.
# Ends with 1 where programs built against OLD do not run with NEW; with 77 where there is no abidiff.
set -euo pipefail
old=${1:?abi.sh: name two folders, each with weft.h and libweft.so} new=${2:?abi.sh: name two folders, each with weft.h and libweft.so}
top=$(cd "$(dirname "$0")/.." && pwd)
for program in abidiff gcc nm python3; do command -v $program >/dev/null || { echo "skipped: there is no $program; launchers/setup.sh test installs it"; exit 77; }; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

image() {  # NAME FOLDER: $work/NAME.so
  local header=$2/include/weft/weft.h library
  library=$(find -L "$2" -name libweft.so -print -quit)
  [ -e "$header" ] && [ -n "$library" ] || { echo "abi.sh: $2 has no include/weft/weft.h, or no libweft.so" >&2; exit 42; }
  # "NAME VERSION" of what it shows, and a version script of the same.
  nm -D --defined-only "$library" | sed -nE 's/^.* T (weft_[a-z_0-9]+)(@@(.*))?$/\1 \3/p' | sort >"$work/$1.shown"
  [ -s "$work/$1.shown" ] || { echo "abi.sh: $library shows no function of weft in C" >&2; exit 42; }
  awk 'NF == 2 { names[$2] = names[$2] " " $1 ";" } END { for (version in names) print version " {" names[version] " };" }' "$work/$1.shown" >"$work/$1.map"
  python3 "$top/tests/abi.py" --stub "$header" >"$work/$1.all"
  awk 'NR == FNR { shown[$1] = 1; next } /^#/ { print; next } match($0, /weft_[a-z_0-9]+\(/) { if (substr($0, RSTART, RLENGTH - 1) in shown) print }' \
    "$work/$1.shown" "$work/$1.all" >"$work/$1.c"
  # What it shows and weft.h does not declare has a name alone.
  awk 'NR == FNR { while (match($0, /weft_[a-z_0-9]+\(/)) { known[substr($0, RSTART, RLENGTH - 1)] = 1; $0 = substr($0, RSTART + RLENGTH) } next }
       !($1 in known) { print "void " $1 "(void) { }" }' "$work/$1.c" "$work/$1.shown" >"$work/$1.undeclared"
  cat "$work/$1.undeclared" >>"$work/$1.c"
  gcc -w -g -shared -fPIC -I"$2/include" "$work/$1.c" -Wl,-soname,libweft.so -Wl,--version-script="$work/$1.map" -o "$work/$1.so"
}
image old "$old"
image new "$new"

# Structures grow at their end: their user gives their size.
cat >"$work/allowed" <<'END'
[suppress_type]
  type_kind = struct
  name_regexp = ^weft_
  has_data_member_inserted_at = end
END
status=0
abidiff --no-added-syms --suppressions "$work/allowed" "$work/old.so" "$work/new.so" >"$work/said" || status=$?
if [ $((status & 3)) -ne 0 ]; then
  cat "$work/said" >&2
  echo "abi.sh: abidiff ended with $status" >&2
  exit 70
fi
if [ $status -ne 0 ]; then
  cat "$work/said"
  echo "abi.sh: programs built against $old do not run with $new"
  exit 1
fi
echo "abi.sh: $(wc -l <"$work/old.shown") functions before, $(wc -l <"$work/new.shown") now; programs built against $old run with $new"
