#!/usr/bin/env bash
# examples/recommender: it learns which word comes next, and 1, 2 and 4 ranks end with bitwise the same rows and parameters.
# usage: recommender_test.sh RECOMMENDER WEFT_LAUNCH FOLDER_OF_PAGES
set -euo pipefail
recommender=$1 launch=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_FLIGHT_DIR=$work/flight
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err"; exit 1; }

for ranks in 1 2 4; do
  "$launch" -n $ranks "$recommender" "$3"/*.md >"$work/out" 2>"$work/err" || fail "$ranks ranks ended with status $?"
  sed -n 's/^rank [0-9]*: parameters \(.*\), [0-9]* rows read.*/\1/p' "$work/out" >"$work/of_ranks"
  [ "$(wc -l <"$work/of_ranks")" = $ranks ] || fail "not $ranks ranks say which parameters they have"
  cat "$work/of_ranks" >>"$work/parameters"
  grep 'held-out loss' "$work/out" >>"$work/losses"
  [ $ranks = 1 ] || ! grep -q ' 0 bytes sent' "$work/out" || fail "a rank of $ranks has sent nothing"
done
[ "$(sort -u "$work/parameters" | wc -l)" = 1 ] || fail "parameters of 1, 2 and 4 ranks differ: $(sort -u "$work/parameters" | paste -sd' ')"
[ "$(sort -u "$work/losses" | wc -l)" = 7 ] || fail "losses of 1, 2 and 4 ranks differ: $(sort -u "$work/losses" | paste -sd' ')"
# Who guesses has ln 2 = 0.693. The pages that it reads change, and its last loss with them: from 0.662 to 0.671 so far.
awk '{if (!n++) first = $NF; last = $NF} END {exit !(first > 0.69 && first < 0.76 && last < 0.68)}' "$work/losses" || fail "it does not learn"

echo few >"$work/few"
status=0
"$launch" -n 2 "$recommender" "$work/few" >"$work/out" 2>"$work/err" || status=$?
[ $status = 42 ] || fail "a text of one word ends with $status"
grep -q "no 1000 words of text in 1 file" "$work/err" || fail "a text of one word is not named"
echo "$(head -n 1 "$work/losses"), then $(tail -n 1 "$work/losses"); 1, 2 and 4 ranks have parameters $(head -n 1 "$work/parameters")"
