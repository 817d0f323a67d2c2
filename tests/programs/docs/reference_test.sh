#!/usr/bin/env bash
# docs/reference.sh makes the API reference without a warning, and says so where a header's comments are wrong.
# usage: reference_test.sh FOLDER_OF_THE_PROJECT
set -euo pipefail
if ! command -v doxygen >/dev/null; then
  echo "skipped: there is no doxygen (launchers/setup.sh docs installs it)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bash "$1/docs/reference.sh" "$work/reference"
grep -q 'Averages gradients over ranks' "$work/reference/gradient__reducer_8hpp.html" || { echo "FAILED: a header's manual is not in its page"; exit 1; }

# The same of a tree with one wrong comment.
mkdir -p "$work/tree/include/weft" "$work/tree/docs/site"
cp "$1"/docs/{Doxyfile,header_manual.awk,reference.sh} "$work/tree/docs"
cp "$1"/docs/site/{mainpage.dox,reference.css} "$work/tree/docs/site"
printf '#pragma once\n// A header.\n\n/// @param none there is no such parameter\nvoid f(int one);\n' >"$work/tree/include/weft/a.hpp"
if bash "$work/tree/docs/reference.sh" "$work/bad" 2>"$work/err"; then echo "FAILED: a wrong comment was not noticed"; exit 1; fi
grep -q "a.hpp:4: .*'none'" "$work/err" || { echo "FAILED: the wrong comment is not named"; cat "$work/err"; exit 1; }
