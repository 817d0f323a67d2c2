#!/usr/bin/env bash
# The tree says the field's words, and the script that says so notices where it does not.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
"$top/tests/words.sh" "$top"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
expect_refused() {
  echo "$1" >"$work/src/a.cpp"
  if "$top/tests/words.sh" "$work" >"$work/out"; then
    echo "FAILED: '$1' was not noticed"
    exit 1
  fi
  grep -q 'src/a.cpp:1' "$work/out" || { echo "FAILED: the place of '$1' is not named"; exit 1; }
}
expect_refused 'class SharedGround {'
expect_refused 'bool fixed_parts = false;'
expect_refused '  // Of the operation with this number.'
expect_refused '/// For whoever has the right to carry work on.'
expect_refused '/// By *span*, the longest first start to last end of one device.'
expect_refused '/// Earlier steps are reduced without a code.'
expect_refused '/// Whether the last buckets went as those of later steps will.'
expect_refused '/// Stage 3 gathers a group into a slot before it is used.'
expect_refused '// In windows there is no arena.'
expect_refused '  int held_groups = 1;'
echo '/// Called once per step.' >"$work/src/a.cpp"
"$top/tests/words.sh" "$work"
echo "and ten that are not were refused"
