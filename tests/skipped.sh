#!/usr/bin/env bash
# Which tests the last run of ctest in a build folder has skipped, and why: a line each, "NAME: REASON". The reason is what the test said last.
#   usage: skipped.sh CTEST_OUTPUT BUILD_FOLDER
set -euo pipefail
output=${1:?skipped.sh: name the file with the output of ctest}
log=${2:?skipped.sh: name the build folder}/Testing/Temporary/LastTest.log
# Scripts say "skipped: REASON" and end with 77; GoogleTest writes "[  SKIPPED ]" below the reason.
awk '
  FNR == NR { if (match($0, /^\t *[0-9]+ - .* \(Skipped\)$/)) { sub(/^\t *[0-9]+ - /, ""); sub(/ \(Skipped\)$/, ""); skipped[$0] = 1 } next }
  /^[0-9]+\/[0-9]+ Test: / { name = substr($0, index($0, " Test: ") + 7); last = "it says no reason" }
  /^<end of output>$/ { inside = 0; if (name in skipped) print name ": " last }
  inside && NF && !/^-+$/ && !/^\[  (SKIPPED|PASSED) / && !/^\[[-=]+\]/ { last = $0; sub(/^skipped: /, "", last) }
  /^Output:$/ { inside = 1 }
' "$output" "$log"
