#!/usr/bin/env bash
# weft installed and used from outside: find_package, build, and a run on one rank and on three.
# usage: consumer_test.sh BUILD_FOLDER SOURCE_FOLDER CXX_COMPILER CXX_FLAGS WEFT_LAUNCH
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/weft" >"$work/log"
cmake -S "$2/examples/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/weft" -DCMAKE_CXX_COMPILER="$3" -DCMAKE_CXX_FLAGS="$4" \
  >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
env -u RANK -u WORLD_SIZE "$work/build/consumer" | grep -x "the mean rank of 1 is 0"
"${5:?}" -n 3 "$work/build/consumer" | grep -x "the mean rank of 3 is 1"
