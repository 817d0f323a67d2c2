#!/usr/bin/env bash
# A rank that dies or hangs in training is named by the others, and the job ends with 75. Mostly waits.
# usage: deaths_test.sh WEFT_SCALING WEFT_LAUNCH
set -u
scaling=$1 launch=$2 gpt=$(dirname "$1")/gpt
. "$(dirname "$0")/../support/checks.sh"

head -c 40000 /dev/urandom | base64 >"$work/text.txt"
cat >"$work/trouble.sh" <<'TROUBLE'
#!/bin/bash
# trouble.sh SIGNAL COMMAND...: rank 1 gets the signal when the job trains, and dies seven seconds later in any case
signal=$1
shift
if [ "$WEFT_RANK" = 1 ]; then
  "$@" & child=$!
  for _ in $(seq 60); do
    [ -s "$WEFT_TEST_OUT" ] && break
    sleep 0.05
  done
  sleep 2
  kill -$signal $child
  [ "$signal" = KILL ] || sleep 7
  kill -KILL $child 2>/dev/null
  wait $child 2>/dev/null
  sleep 3
  exit 75
fi
exec "$@"
TROUBLE
chmod +x "$work/trouble.sh"
export WEFT_TEST_OUT=$work/out
long=("$scaling" --model gpt-tiny --steps 200000 --text "$work/text.txt" --strategies)
check "a rank that is killed" 75 "rank 0: .*rank 1 \(process [0-9]+\) has died" "$launch" -n 2 "$work/trouble.sh" KILL "${long[@]}" ddp
check "a pipeline's rank that is killed" 75 "rank [02]: .*(the pipeline stopped: .* device 1|barrier.* rank 1 ).* has died" \
  "$launch" -n 3 "$work/trouble.sh" KILL "${long[@]}" pipeline:1f1b
check "a pipeline's rank that hangs" 75 "device [02] of the pipeline has waited [4-6](\.[0-9]+)? s at .*: device 1 is (at|in no step, and owes) 1[A-Z_]+[0-9]+ \(stage 1, microbatch [0-9]+\)" \
  "$launch" -n 3 "$work/trouble.sh" STOP "$gpt" --pipeline 1f1b --steps 100000 --text "$work/text.txt"

finish
