#!/usr/bin/env bash
# The example trainer and its checkpoints: told to end and started again, also with other ranks and as a pipeline, it trains as if nothing had happened.
# usage: gpt_checkpoint_test.sh BIN
set -u
bin=$1
. "$(dirname "$0")/../support/checks.sh"
export OMP_NUM_THREADS=1 WEFT_FLIGHT_DIR=off

train() {  # what, status, words, folder, ranks, more options...
  check "$1" "$2" "$3" "$bin/weft-launch" -n "$5" "$bin/gpt" --model gpt-tiny --steps 400 --checkpoint "$work/$4" "${@:6}"
}
# Waits for a step from 40 on. A step takes .2 ms where cores are free, the 400 less than a few looks at the folder; with a save behind every second one
# they take seconds.
saved_40() { compgen -G "$work/$1/step-00000[0-9][4-9]?" > "$work/found"; }
await() { until_true 30 saved_40 "$1" || fail "$1 saves no step from 40 on within 30 s"; }

train "an undisturbed training" 0 "^step 400 of 400: held-out loss" whole 2
"$bin/weft-launch" -n 2 "$bin/gpt" --model gpt-tiny --steps 400 --checkpoint "$work/told" --checkpoint-every 2 --checkpoint-keep 0 > "$work/told.out" 2>&1 &
job=$!
await told
touch "$work/told/checkpoint-now"
kill -USR1 $job  # weft-launch hands it on
wait $job
[ $? -eq 75 ] || fail "a training that is told to end does not end with 75"
grep -q "^told to end: saved after step [0-9]* of 400; start it again to go on$" "$work/told.out" || fail "it does not say that it saved: $(cat "$work/told.out")"
train "started again" 0 "^goes on after step [0-9]+ of 400$" told 2 --checkpoint-keep 0
check "it trained as if nothing had happened" 0 "are alike" "$bin/weft-plan" checkpoint "$work/whole" --diff "$work/told"
train "when all is done" 0 "^goes on after step 400 of 400$" told 2
check "every checkpoint is whole" 0 "every byte has its checksum" "$bin/weft-plan" checkpoint "$work/told" --verify

"$bin/weft-launch" -n 2 --min-ranks 2 "$bin/gpt" --model gpt-tiny --steps 400 --checkpoint "$work/killed" --checkpoint-every 2 > "$work/out" 2> "$work/err" &
job=$!
await killed
pkill -KILL -f -n "gpt --model gpt-tiny --steps 400 --checkpoint $work/killed "
wait $job || fail "a training of which a rank was killed does not start again"
grep -q "starting again, after failure 1 of at most 3: 2 ranks" "$work/err" || fail "it does not say so"
grep -Eq "^goes on after step [0-9]+ of 400$" "$work/out" || fail "it does not go on"
check "it trained as if no rank had been killed" 0 "are alike" "$bin/weft-plan" checkpoint "$work/whole" --diff "$work/killed"

# A host is lost, and back: the batches of three ranks on two, and on three again. Sums are in rank order, so the bits stay.
train "three ranks" 0 "^step 400 of 400: held-out loss" three 3
train "three batches on two ranks" 0 "^step 400 of 400: held-out loss" fewer 2 --batches 3
check "two ranks that share out three batches train as three" 0 "are alike" "$bin/weft-plan" checkpoint "$work/three" --diff "$work/fewer"

mv "$work/told/step-00000040" "$work/kept" && rm -r "$work/told"/step-* && mv "$work/kept" "$work/told/step-00000040"
check "the one of step 40 is left" 0 "step-00000040" "$bin/weft-plan" checkpoint "$work/told"
lines "and no other" 1 "step-"
cp -r "$work/told" "$work/piped"
train "with other ranks" 0 "^goes on after step 40 of 400$" told 1
train "other batches" 42 "--batches 3, and a step of .* has 2 batches" told 1 --batches 3
train "no batches" 42 "--batches 0 is not a number of 1 or more" told 1 --batches 0
train "as a pipeline" 0 "^goes on after step 40 of 400$" piped 2 --pipeline zb-v
train "another run" 42 "is of another run: gpt-tiny, seed 1, 400 steps; this is gpt-tiny, seed 2" told 2 --seed 2
check "no such step" 42 "checkpoint-every 0 is not a number of 1 or more" "$bin/gpt" --checkpoint "$work/x" --checkpoint-every 0
check "no such number" 42 "checkpoint-keep -1 is not a number of 0 or more" "$bin/gpt" --checkpoint "$work/x" --checkpoint-keep -1
check "options without a folder" 42 "checkpoint-every has no effect: --checkpoint is not given" "$bin/gpt" --checkpoint-every 5
check "a folder that cannot be made" 42 "cannot save into /dev/null/x: Not a directory" "$bin/gpt" --model gpt-tiny --steps 1 --checkpoint /dev/null/x
finish
