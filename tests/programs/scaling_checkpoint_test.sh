#!/usr/bin/env bash
# weft-scaling and its checkpoints: told to end and started again, it trains as if nothing had happened.
# usage: scaling_checkpoint_test.sh BIN
set -u
bin=$1
. "$(dirname "$0")/../support/checks.sh"
export OMP_NUM_THREADS=1 WEFT_FLIGHT_DIR=off WEFT_PROGRESS=inline

options=()
strategy=
trains() { check "$1" "$2" "$3" "$bin/weft-launch" -n "${ranks:-2}" "$bin/weft-scaling" --model gpt-tiny --strategies "$strategy" "${options[@]}" "${@:4}"; }

# A step takes .2 ms where cores are free, the 600 less than one look at the folder; with a save behind each they take seconds.
saved_30() { compgen -G "$work/told/step-00000[0-9][3-9][0-9]" > /dev/null || compgen -G "$work/told/step-00000[1-9]*" > /dev/null; }

# goes_on STRATEGY [OPTION...]
goes_on() {
  strategy=$1 options=(--steps 600 "${@:2}")
  rm -rf "$work/whole" "$work/told"
  trains "$strategy, undisturbed" 0 "^${strategy//+/[+]} +2 " --checkpoint "$work/whole"
  "$bin/weft-launch" -n 2 "$bin/weft-scaling" --model gpt-tiny --strategies "$strategy" "${options[@]}" --checkpoint "$work/told" --checkpoint-every 1 > "$work/out" 2> "$work/err" &
  local job=$!
  until_true 30 saved_30 || fail "$strategy saves no step from 30 on within 30 s"
  kill -USR1 $job  # weft-launch hands it on
  wait $job
  [ $? -eq 75 ] || fail "$strategy, told to end, does not end with 75"
  grep -q "^told to end: saved after step [0-9]* of 600; start it again to go on$" "$work/out" || fail "$strategy does not say that it saved"
  [ "$(find "$work/told" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tail -n 1)" != step-00000600 ] || fail "$strategy was told to end too late"
  trains "$strategy, started again" 0 "^${strategy//+/[+]} +2 " --checkpoint "$work/told"
  check "$strategy trained as if nothing had happened" 0 "are alike" "$bin/weft-plan" checkpoint "$work/whole" --diff "$work/told"
}

goes_on zero2
trains "when all is done" 0 "^the checkpoint has all 600 steps: nothing is left to measure$" --checkpoint "$work/told"
check "gpt reads it" 0 "^goes on after step 600 of 600$" "$bin/gpt" --model gpt-tiny --steps 600 --checkpoint "$work/told"
trains "another run" 42 "is of another run: gpt-tiny, seed 1, 600 steps; this is gpt-tiny, seed 2" --checkpoint "$work/told" --seed 2
rm -r "$work/told"/step-00000600
ranks=1 strategy=ddp trains "with other ranks and another stage" 0 "^ddp +1 " --checkpoint "$work/told"
goes_on pipeline:zb-h1
# What a codec has not sent yet, and its random choices, are state, too.
goes_on ddp+powersgd:2 --start-step 20
strategy=ddp+powersgd:1 trains "another codec" 0 "what PowerSGD of rank 2.* had not sent yet is dropped" --checkpoint "$work/told"
goes_on ddp+int8:stochastic --start-step 20

refused "two strategies" "--checkpoint with 2 strategies.*name one, such as --strategies ddp" "$bin/weft-scaling" --checkpoint "$work/x" --strategies ddp,zero2
refused "nocomm" "--checkpoint with nocomm, whose ranks have parameters of their own" "$bin/weft-scaling" --checkpoint "$work/x" --strategies nocomm
refused "a sweep" "--checkpoint with --sweep" "$bin/weft-scaling" --checkpoint "$work/x" --sweep 1
refused "options without a folder" "checkpoint-keep has no effect: --checkpoint is not given" "$bin/weft-scaling" --strategies ddp --checkpoint-keep 5
refused "no such step" "checkpoint-every 0 is not a number of 1 or more" "$bin/weft-scaling" --strategies ddp --checkpoint "$work/x" --checkpoint-every 0
finish
