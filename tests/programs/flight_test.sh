#!/usr/bin/env bash
# Flight records of real trainings: a signal in the midst of one, ranks that go wrong, a folder that cannot be written.
# usage: flight_test.sh WEFT_REPORT WEFT_LAUNCH SOAK_FAULT
set -u
report=$1 launch=$2 fault=$3
. "$(dirname "$0")/../support/checks.sh"

"$launch" -n 2 "$fault" 1 "$work" none 40000 > "$work/training" 2>&1 &
training=$!
for _ in $(seq 100); do
  sleep 0.05
  [ "$(grep -c begins "$work/training")" -eq 2 ] || continue
  kill -USR2 $training
  [ -e "$work/flight/rank-1.json" ] && [ -e "$work/flight/rank-0.json" ] && break
done
wait $training
status=$?
cp "$work/training" "$work/out"
: > "$work/err"
[ $status -eq 0 ] && grep -q "rank 1 right none" "$work/training" || fail "a training that is asked for its record goes on: $status"
"$report" flight "$work/flight" > "$work/out" 2> "$work/err"
[ $? -le 1 ] || fail "records of a signal do not accuse a rank of a failure"
check "its operations" 0 '"kind":"all_reduce"' cat "$work/flight/rank-0.json"
check "how far the reducer was" 0 '"track":"gradients","step":' cat "$work/flight/rank-1.json"

rm -rf "$work/flight"
check "a rank that goes wrong" 0 "rank [0-9] right missing" "$launch" -n 3 "$fault" 2 "$work" missing
lines "all ranks say where their record is" 3 "rank [0-2]: flight record in $work/flight/rank-[0-2].json; weft-report flight $work/flight"
culprit=$(grep -oE 'missing rank [0-9]' "$work/out" | head -n 1 | grep -oE '[0-9]')
check "who began" 2 "rank $culprit .*never marked ready" "$report" flight "$work/flight"

check "no record is wanted" 0 "right missing" env WEFT_FLIGHT_DIR=off "$launch" -n 2 "$fault" 2 "$work" missing
lines "so none is spoken of" 0 "flight record"
check "a folder that cannot be" 0 "no flight record: .*/dev/null/flight" \
  env WEFT_FLIGHT_DIR=/dev/null/flight "$launch" -n 2 "$fault" 2 "$work" missing
finish
