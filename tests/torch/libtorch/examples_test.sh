#!/usr/bin/env bash
# The examples learn; three lines make them data parallel; then ranks end with the same parameters, and learn as well.
# usage: examples_test.sh FOLDER_OF_PROGRAMS NAME
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$1
name=$2
fail() { echo "FAILED: $*"; exit 1; }

diff=$here/../../../examples/torch/cpp/$name.diff
[ "$(grep -c '^+[^+]' "$diff")" -eq 3 ] || fail "$name.diff does not have three new lines"
[ "$(grep -c '^-[^-]' "$diff")" -le 1 ] || fail "$name.diff takes more than one line away"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
learns() {  # FILE: the last loss is less than half the first
  awk '/loss/ {if (first == "") first = $NF; last = $NF} END {exit !(first != "" && last < first / 2)}' "$1" || fail "$(cat "$1")"
}
OMP_NUM_THREADS=1 "$programs/torch_$name" >"$work/alone"
learns "$work/alone"
OMP_NUM_THREADS=1 "$programs/torch_${name}_parallel" >"$work/one"  # started alone it is the program that it was, but for the order of batches
learns "$work/one"
for ranks in 2 3; do
  "$here/on_ranks.sh" $ranks "$programs/torch_${name}_parallel" >"$work/parallel"
  grep "^0:" "$work/parallel" >"$work/first"
  learns "$work/first"
  [ "$(grep -c 'parameters' "$work/parallel")" -eq $ranks ] || fail "not all of $ranks ranks ended: $(cat "$work/parallel")"
  [ "$(sed -n 's/^.*parameters //p' "$work/parallel" | sort -u | wc -l)" -eq 1 ] || fail "ranks differ: $(cat "$work/parallel")"
done
