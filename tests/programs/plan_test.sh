#!/usr/bin/env bash
# weft-plan as a stranger uses it: from a trace of a real training to its buckets, and every wrong input.
# usage: plan_test.sh WEFT_PLAN WEFT_SCALING WEFT_LAUNCH
set -u
plan=$1 scaling=$2 launch=$3
. "$(dirname "$0")/../support/checks.sh"

check help 0 "weft-plan buckets run.json" "$plan" --help
refused "nothing" "nothing to plan is named; allowed is buckets" "$plan"
refused "an unknown word" "'lunch' is nothing to plan" "$plan" lunch file
refused "no trace" "no trace is named; weft-scaling --trace FILE" "$plan" buckets
refused "a trace that is not there" "cannot read '/nowhere'" "$plan" buckets /nowhere
echo "{" > "$work/broken"
refused "a file that is no JSON" "is no JSON" "$plan" buckets "$work/broken"
echo '{"otherData":{"buckets":{"link":1}}}' > "$work/odd"
refused "buckets that make no sense" "buckets make no sense" "$plan" buckets "$work/odd"
echo '{"otherData":{}}' > "$work/empty"
refused "a trace without buckets" "tells nothing of buckets; they are planned where no size is given" "$plan" buckets "$work/empty"
refused "an unknown option" "unrecognised option '--bogus'" "$plan" buckets "$work/odd" --bogus
refused "a latency that is none" "--latency-us -1 is not a number of 0 or more" "$plan" buckets "$work/odd" --latency-us -1
refused "no rate" "--gbytes-per-second 0 is not" "$plan" buckets "$work/odd" --gbytes-per-second 0
refused "empty buckets" "--bucket-bytes 0 is not" "$plan" buckets "$work/odd" --bucket-bytes 0

check "a training whose buckets are planned" 0 "^ddp +2 " env WEFT_PROGRESS=thread "$launch" -n 2 "$scaling" \
  --model mlp-8x1024 --strategies ddp --steps 7 --trace "$work/run.json"
check "what they expose" 0 "^backward [0-9.]+ ms, exposed [0-9.]+ ms, link busy" "$plan" buckets "$work/run.json"
lines "the first bucket has the last parameter" 1 "^bucket 0: \[[0-9]+, [0-9]+\) [0-9]+ bytes, [0-9]+ parameters: linear7.bias"
lines "fixed sizes beside them" 1 "^buckets of a fixed size would expose: 1 MiB [0-9.]+ ms, 5 MiB"
check "one bucket of everything" 0 "^bucket 0: \[0, " "$plan" buckets "$work/run.json" --bucket-bytes 1000000000
lines "and no other" 0 "^bucket 1: "
check "figures for machines" 0 '"exposed_seconds":' "$plan" buckets "$work/run.json" --gbytes-per-second 0.1 --latency-us 50 --json -
check "a full disk" 70 "/dev/full" "$plan" buckets "$work/run.json" --json /dev/full
finish
