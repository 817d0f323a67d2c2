#!/usr/bin/env bash
# examples/ddp, the trainer that the tutorial is about: at most 100 lines; it learns; 1, 2 and 4 ranks end with bitwise the same parameters, also
# when it was told to end and started again.
# usage: ddp_test.sh DDP WEFT_LAUNCH MAIN_CPP
set -euo pipefail
ddp=$1 launch=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_FLIGHT_DIR=$work/flight
fail() { echo "FAILED: $1"; cat "$work/out" "$work/err"; exit 1; }
run() { "$launch" -n "$1" "$ddp" "${@:2}" >"$work/out" 2>"$work/err"; }

lines=$(wc -l <"$3")
: >"$work/out"; : >"$work/err"
[ "$lines" -le 100 ] || fail "$3 has $lines lines, more than 100"

# Text of the tree, so that it is there on every machine.
cat "$(dirname "$3")"/../../docs/*.md >"$work/text"
for ranks in 1 2 4; do
  run $ranks "$work/text" || fail "$ranks ranks ended with status $?"
  [ "$(grep -c '^rank [0-9]*: parameters' "$work/out")" = "$ranks" ] || fail "not $ranks ranks say which parameters they have"
  sed -n 's/^rank [0-9]*: parameters //p' "$work/out" >>"$work/parameters"
done
[ "$(sort -u "$work/parameters" | wc -l)" = 1 ] || fail "parameters of 1, 2 and 4 ranks differ: $(paste -sd' ' "$work/parameters")"
awk '/held-out loss/ {if (!n++) first = $NF; last = $NF} END {exit !(first > 5.4 && first < 5.7 && last < 3.2)}' "$work/out" || fail "it does not learn"

# Told to end and started again, with other ranks, it ends with the same parameters.
mkdir "$work/saved"; touch "$work/saved/checkpoint-now"
"$launch" -n 2 "$ddp" "$work/text" --checkpoint "$work/saved" >"$work/out" 2>"$work/err" &
job=$!
for ((i = 0; i < 6000; ++i)); do [ -e "$work/saved/checkpoint-now" ] || break; sleep 0.01; done
kill -USR1 $job && status=0 && { wait $job || status=$?; }
[ "$status" = 75 ] || fail "told to end, it ends with $status"
[ ! -e "$work/saved/step-00000401" ] || fail "it was told to end too late"
run 4 "$work/text" --checkpoint "$work/saved" || fail "started again, it ends with status $?"
[ "$(sed -n 's/^rank [0-9]*: parameters //p' "$work/out" | sort -u)" = "$(head -n 1 "$work/parameters")" ] || fail "it ends with other parameters"

# What it cannot do is said, not done otherwise.
# It ends with 42, and a launcher that starts a job again after a failure does not start it again.
refused() {  # RANKS PATTERN ARGUMENTS...
  local status=0
  "$launch" -n "$1" --min-ranks "$1" sh -c 'echo started; exec "$@"' - "$ddp" "${@:3}" >"$work/out" 2>"$work/err" || status=$?
  [ "$status" = 42 ] || fail "a wrong use, ${*:3}, ends with $status and not with 42"
  [ "$(grep -c '^started$' "$work/out")" = "$1" ] || fail "a wrong use, ${*:3}, is started again"
  grep -q "$2" "$work/err" || fail "${*:3} is refused without saying '$2'"
}
mkdir "$work/empty"; ln -s loop "$work/loop"; echo few >"$work/few"
refused 3 'tree of 4 micro-batches for 3 ranks' "$work/text"
refused 2 "no 1000 bytes of text in $work/nothing" "$work/nothing"
refused 2 "no 1000 bytes of text in $work/few" "$work/few"
refused 2 "no 1000 bytes of text in $work/empty" "$work/empty"
refused 2 "no 1000 bytes of text in $work/loop" "$work/loop"
refused 2 "no 1000 bytes of text in /dev/null" /dev/null
refused 2 "no 1000 bytes of text in aaaa" "$(printf 'a%.0s' {1..5000})"
refused 1 "no 1000 bytes of text in --checkpoint" --checkpoint
refused 1 "no 1000 bytes of text in --help" --help
refused 2 "cannot save into $work/few" "$work/text" --checkpoint "$work/few"
echo "$lines lines; 1, 2 and 4 ranks have parameters $(head -n 1 "$work/parameters")"
