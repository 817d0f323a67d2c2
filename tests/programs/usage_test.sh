#!/usr/bin/env bash
# What programs say to people: usage errors once, with the option that was meant; the error before the warnings; progress on a terminal alone.
# usage: usage_test.sh BIN [MPIRUN]
set -u
bin=$1 mpirun=${2:-}
. "$(dirname "$0")/../support/checks.sh"

head -c 40000 /dev/urandom | base64 >"$work/text.txt"
small=(--model gpt-tiny --text "$work/text.txt")

refused "an option misspelt" "unrecognised option '--modle'; did you mean --model\? weft-scaling --help" "$bin/weft-scaling" --modle gpt-ref
refused "an option like none" "unrecognised option '--foo'; weft-bench --help shows" "$bin/weft-bench" all_reduce --foo 3
refused "a schedule like none" "'foo'; allowed are gpipe, 1f1b, eager-1f1b, " "$bin/weft-plan" schedule --name foo
refused "chunks of a schedule" "--chunks 2: 1f1b has 1 chunk on a device; give --chunks 1$" "$bin/weft-plan" schedule --name 1f1b --chunks 2
refused "no chunks of a schedule" "--chunks 1: interleaved has 2 or more chunks on a device; give --chunks 2$" "$bin/weft-plan" schedule --name interleaved
refused "chunks of a strategy" "--chunks 2: zb-h1 has 1 chunk on a device; give --chunks 1$" "$bin/weft-scaling" "${small[@]}" --strategies pipeline:zb-h1 --chunks 2
refused "two names of devices" "--stages beside --devices" "$bin/weft-plan" schedule --devices 4 --stages 4

ignored() { refused "$1 is not ignored" "$1 has no effect: $2; leave it out" "${@:3}"; }
ignored --pipeline-devices "--pipeline is not given" "$bin/gpt" --pipeline-devices 2
ignored --beta1 "sgd has no first moment, adamw has" "$bin/gpt" --optimizer sgd --beta1 0.5
ignored --strategies "a sweep trains ddp alone.*" "$bin/weft-scaling" --sweep 1,2 --strategies zero3
ignored --chunks "no strategy is a pipeline" "$bin/weft-scaling" --chunks 2
ignored --start-step "no strategy has a codec that starts late.*" "$bin/weft-scaling" --strategies ddp+fp16 --start-step 2
ignored --op "all_gather reduces nothing" "$bin/weft-bench" all_gather --op sum
ignored --root "all_reduce has no root" "$bin/weft-bench" all_reduce -r 0
ignored --in-place "broadcast is always in place" "$bin/weft-bench" broadcast --in-place
ignored --iters "--explain measures nothing" "$bin/weft-bench" all_reduce --explain -n 3
ignored --against "OSU's layout has one time in a row.*" "$bin/weft-bench" all_reduce --format osu --against bound
ignored --master "parameters of f32 are their own masters" "$bin/weft-plan" memory --master f32
ignored --offload-file "--offload puts nothing on the host" "$bin/weft-plan" memory --offload-file 0.5
ignored --comm "one device sends nothing" "$bin/weft-plan" schedule --devices 1 --comm 0.1
ignored --json "--document prints .*" "$bin/weft-launch" env --document --json figures
refused "--release is not ignored" "--release has no effect: 1f1b has no backward for the weights alone" "$bin/weft-plan" schedule --name 1f1b --release 0.5

# Once: the first rank says what all have wrong; a rank that is alone with an error says it itself.
once() {
  check "$1" 42 "$2" "${@:3}"
  lines "$1, once" 1 "$2"
}
once "wrong usage under weft-launch" "gpt: --steps 0 is not" "$bin/weft-launch" -n 2 "$bin/gpt" --steps 0
once "a missing text under weft-launch" "gpt: there is no text" "$bin/weft-launch" -n 2 "$bin/gpt" --text "$work/none"
once "a text that one rank lacks" "gpt: there is no text" "$bin/weft-launch" -n 2 sh -c 'test $WEFT_RANK = 0 || exec "$@"' sh "$bin/gpt" --text "$work/none"
WEFT_RANK=1 WEFT_SIZE=2 WEFT_RENDEZVOUS="file://$work/alone" "$bin/weft-scaling" --steps 0 >"$work/out" 2>"$work/err"
[ $? -eq 42 ] && [ ! -s "$work/err" ] || fail "a rank that is not the first is silent"
if [ -n "$mpirun" ]; then
  ranks=("$mpirun" --oversubscribe --bind-to none -n 3)
  once "wrong usage under mpirun" "weft-bench: --op has no effect" "${ranks[@]}" "$bin/weft-bench" all_gather --op sum
  once "a text that is missing under mpirun" "weft-scaling: there is no text" "${ranks[@]}" "$bin/weft-scaling" --text "$work/none"
  once "devices that do not divide under mpirun" "weft-scaling: pipelines of 2 devices on 3" "${ranks[@]}" "$bin/weft-scaling" "${small[@]}" --strategies pipeline:1f1b --pipeline-devices 2
  once "an output in no folder under mpirun" "weft-scaling: --json /no/such/file" "${ranks[@]}" "$bin/weft-scaling" "${small[@]}" --json /no/such/file
fi

# A reader that has gone ends a job quietly, with the status that a shell gives a program that SIGPIPE ended.
bash -c '"$1" -n 2 "$2" "${@:3}" | head -n 1; exit ${PIPESTATUS[0]}' - "$bin/weft-launch" "$bin/weft-scaling" "${small[@]}" --steps 1000000 \
  >"$work/out" 2>"$work/err"
[ $? -eq 141 ] && ! grep -q "^weft-launch" "$work/err" || fail "a reader that has gone"

# The error stands before the warnings that come with it.
check "an error and a warning" 70 "weft warn: .*flight record in" "$bin/weft-launch" -n 2 "$bin/weft-scaling" "${small[@]}" --strategies zero2+offload:/no/such
first=$(grep -nE "^weft-scaling: .*/no/such" "$work/err" | head -1 | cut -d: -f1)
warning=$(grep -n "^weft warn" "$work/err" | head -1 | cut -d: -f1)
[ -n "$first" ] && [ "$first" -lt "${warning:-0}" ] || fail "the warning stands before the error"

# Progress on a terminal: what is prepared, then steps and an estimate; gone at the end, and none elsewhere or with --quiet.
on_terminal=(python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))')
escape=$(printf '\033')
check "progress on a terminal" 0 "${escape}\[Kweft-scaling: preparing: connecting 1 rank, 0 s" "${on_terminal[@]}" "$bin/weft-scaling" "${small[@]}" --steps 400 --strategies ddp
grep -qE "${escape}\[Kweft-scaling: ddp, [0-9]+ of 410 steps, [0-9]+ s left" "$work/out" || fail "no estimate on a terminal"
check "progress of rows" 0 "${escape}\[Kweft-bench: [0-9]+ of 1 rows" "${on_terminal[@]}" "$bin/weft-bench" all_reduce -b 8 -e 8 -n 20000
check "no progress elsewhere" 0 "^ddp " "$bin/weft-scaling" "${small[@]}" --steps 40 --strategies ddp
lines "no progress and no colours elsewhere" 0 "$escape"
lines "losses" 9 "^ddp +step +[0-9]+/40 "
check "quiet" 0 "^ddp " "${on_terminal[@]}" "$bin/weft-scaling" "${small[@]}" --steps 40 --strategies ddp --quiet
lines "no progress with --quiet" 0 "$escape"
lines "no losses with --quiet" 0 "loss [0-9]"
check "one loss with --quiet" 0 "^step 20 of 20: held-out loss" "$bin/gpt" "${small[@]}" --steps 20 --quiet
lines "one loss with --quiet" 1 "held-out loss"
check "figures alone" 0 "^ +8 +2 " "$bin/weft-bench" all_reduce -b 8 -e 8 -n 2 --quiet
lines "figures alone" 0 "Using devices|^# weft-bench"
check "a schedule without its drawing" 0 "^makespan " "$bin/weft-plan" schedule --name 1f1b --quiet
lines "a schedule without its drawing" 0 "^device [0-7] \|"
# Where standard error is piped a line comes after 2 s.
"$bin/weft-scaling" "${small[@]}" --steps 1000000 --strategies ddp >"$work/out" 2>"$work/err" &
training=$!
until_true 60 grep -qE "^weft-scaling: ddp, [0-9]+ of [0-9]+ steps, [0-9a-z ]+ left$" "$work/err" || fail "no progress where it is piped"
kill -INT $training
wait $training
[ $? -eq 130 ] || fail "the training is ended by SIGINT"
finish
