#!/usr/bin/env bash
# weft-scaling as a stranger uses it: help, a small job under each launcher, its figures, and every wrong input.
# usage: scaling_test.sh WEFT_SCALING WEFT_LAUNCH [MPIRUN]
set -u
scaling=$1 launch=$2 mpirun=${3:-}
. "$(dirname "$0")/../support/checks.sh"

head -c 40000 /dev/urandom | base64 >"$work/text.txt"
: >"$work/empty.txt"
echo "too short" >"$work/short.txt"
mkdir "$work/nothing"
small=(--model gpt-tiny --steps 6 --text "$work/text.txt")

check help 0 "mpirun -n 2 weft-scaling" "$scaling" --help
refused "unknown option" "unrecognised option '--modle'" "$scaling" --modle gpt-ref
refused "unknown model" "gpt-ref, mlp-8x1024" "$scaling" --model gpt-5
refused "unknown strategy" "'zero9'.*allowed are nocomm, ddp, zero1, zero2, zero3" "$scaling" --strategies nocomm,zero9
# Nothing is waited for that would be refused: the other rank never comes.
early() { check "$1, refused at once" 42 "$2" env WEFT_RANK=0 WEFT_SIZE=2 WEFT_RENDEZVOUS="file://$work/alone" WEFT_CONNECT_TIMEOUT=60 timeout 20 "$scaling" "${small[@]}" "${@:3}"; }
early "an unknown strategy" "'zero9'" --strategies zero9
early "devices that do not divide" "pipelines of 3 devices on 2 rank\(s\)" --strategies pipeline:1f1b --pipeline-devices 3
refused "an unknown codec" "'ddp\+powersdg:4'.*did you mean powersgd:4" "$scaling" --strategies ddp+powersdg:4
refused "a rank of nothing" "PowerSGD of rank 0" "$scaling" --strategies ddp+powersgd:0
refused "a code that starts after the end" "--start-step 6 is not a number from 0 to below --steps 6" "$scaling" "${small[@]}" --start-step 6
refused "an unknown schedule" "'pipeline:zb-h3'.*did you mean zb-h1" "$scaling" --strategies pipeline:zb-h3
refused "a pipeline with a code" "'pipeline:1f1b\+bf16'; a pipeline goes with \+zero1, \+zero2 and \+zero3" "$scaling" --strategies pipeline:1f1b+bf16
refused "a pipeline under no stage" "'zero7'" "$scaling" --strategies pipeline:1f1b+zero7
refused "a pipeline of no devices" "--pipeline-devices 0 is not a number of 1 or more" "$scaling" --pipeline-devices 0
refused "stages of no devices" "--chunks 0 is not a number of 1 or more" "$scaling" --chunks 0
refused "microbatches of nothing" "--microbatch 0 is not a number of 1 or more" "$scaling" --microbatch 0
refused "strategy twice" "'ddp' twice" "$scaling" --strategies ddp,ddp
refused "no steps" "--steps 0 is not" "$scaling" --steps 0
refused "steps that are no number" "--steps" "$scaling" --steps many
refused "a rate of nothing" "--learning-rate 0 is not above 0" "$scaling" --learning-rate 0
refused "a schedule that rises" "--final-fraction 1.5 is not a number from 0 to 1" "$scaling" --final-fraction 1.5
refused "no first moment" "--beta1 1 is not a number from 0 to below 1" "$scaling" --beta1=1
refused "less than no warm-up" "--warmup -1 is not a number from 0" "$scaling" --warmup=-1
refused "no buckets" "--bucket-bytes 0" "$scaling" --bucket-bytes 0
refused "a device that is none" "--device gpu is neither host nor cuda" "$scaling" --device gpu
refused "a variable that names no device" "WEFT_DEVICE=gpu is none of host, cuda, cuda:N" env WEFT_DEVICE=gpu "$scaling"
refused "a transport that is none" "--require rdma is none of gdr, ib, nvlink, shm" "$scaling" --require rdma
refused "a sweep of no numbers" "--sweep 1,x is not a rising list" "$scaling" --sweep 1,x
refused "a sweep that falls" "--sweep 2,1 is not a rising list" "$scaling" --sweep 2,1
refused "a sweep over more ranks than there are" "--sweep 2 of the 1 rank\(s\) .*weft-launch -n 2" "$scaling" --sweep 1,2 "${small[@]}"
refused "a word that is no option" "positional" "$scaling" gpt-ref
refused "missing text" "$work/missing" "$scaling" --text "$work/missing"
refused "empty text" "empty.txt" "$scaling" --text "$work/empty.txt"
refused "empty folder" "nothing" "$scaling" --text "$work/nothing"
refused "text shorter than a sequence" "short.txt" "$scaling" --text "$work/short.txt" --model gpt-tiny
refused "more ranks than there are" "--ranks 3, but the launcher .* provides 1; start it with mpirun -n 3" "$scaling" --ranks 3 "${small[@]}"
refused "rank outside the size" "RANK=2" env RANK=2 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29511 "$scaling" "${small[@]}"
refused "missing MASTER_ADDR" "MASTER_ADDR" env RANK=0 WORLD_SIZE=2 MASTER_PORT=29511 "$scaling" "${small[@]}"
check "a peer that never arrives" 75 "rank 1 of 2 did not arrive within 1" env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29512 WEFT_CONNECT_TIMEOUT=1 "$scaling" "${small[@]}"
check "a full disk" 70 "/dev/full" "$scaling" "${small[@]}" --json /dev/full
full_output "figures" "$scaling" "${small[@]}"
full_output "losses" "$(dirname "$scaling")/gpt" --steps 3 --text "$work/text.txt"

check "one rank" 0 "^ddp +1 " "$scaling" "${small[@]}" --json "$work/one.json"
check "two ranks of weft-launch" 0 "host \(shared memory\)" "$launch" -n 2 "$scaling" "${small[@]}" --ranks 2 --json "$work/two.json" --trace "$work/trace.json"
for key in strategy ranks step_seconds median p99 tokens_per_second efficiency_vs_nocomm efficiency_vs_single \
  exposed_seconds wire_bytes_per_step peak_bytes_per_rank loss first last; do
  grep -q "\"$key\":" "$work/two.json" || fail "no $key in the figures"
done
grep -q '"name":"all_reduce #' "$work/trace.json" || fail "no all_reduce in the trace"
for rank in 0 1; do
  grep -q "\"pid\":$rank,\"args\":{\"name\":\"rank $rank\"}" "$work/trace.json" || fail "rank $rank is not in the trace"
done
check "codecs" 0 "^ddp\+powersgd:2 +2 " "$launch" -n 2 "$scaling" "${small[@]}" --strategies nocomm,ddp+fp16,ddp+bf16,ddp+int8,ddp+top-k:0.1,ddp+powersgd:2,ddp+powersgd:2:alternating --json "$work/codecs.json"
[ "$(grep -oE '"curve":\[\[0,' "$work/codecs.json" | wc -l)" -eq 7 ] || fail "no curve of the loss for each strategy"
refused "auto in too few steps" "--steps 9 with the strategy auto, which chooses after 7.*10 or more" "$scaling" --strategies auto --steps 9
refused "auto as a code" "'ddp\+auto'; allowed are .*, and auto" "$scaling" --strategies ddp+auto
check "auto says what it chose" 0 "^(none|bf16|powersgd:4) for [0-9]+ of [0-9]+ tensors: bf16 " "$launch" -n 2 "$scaling" --model gpt-tiny --text "$work/text.txt" --steps 12 --strategies auto --json "$work/auto.json"
grep -qE '"choice":\{"codecs":\{"[^"]+":"(none|bf16|powersgd:4)".*"predicted_exposed_seconds":\{"none":' "$work/auto.json" || fail "no choice in the figures"
check "the bound of a step at a rate" 0 "^ddp: no step can be shorter than [0-9.]+ ms" "$launch" -n 2 "$scaling" "${small[@]}" --wire-rate 5
check "a rate that is none" 42 "--wire-rate 0 is not a number above 0" "$scaling" --wire-rate 0
grep -q '"name":"backward: ' "$work/trace.json" || fail "no backward pass in the trace"
# Processes, like threads: bucket size, progress and transport do not change a bit of the loss, nor does a second run.
loss_of() { grep -oE '"loss":\{[^}]*\}' "$work/run.json"; }
ddp=("$scaling" "${small[@]}" --strategies ddp --json "$work/run.json")
# An outer step every third sends a third of what ddp sends, and 24 bytes of each rank that tell of NaN; losses are others.
check "local steps" 0 "^local:3:average +2 " "$launch" -n 2 "$scaling" "${small[@]}" --strategies ddp,local:3,local:3:average,local:2+int8,local:100,local:2/2,local:4/2:delay=1:mixing=0.5:average+int8 --json "$work/local.json"
python3 - "$work/local.json" <<'END' || fail "local steps: bytes or losses are not as they should be"
import json, sys
runs = {run["strategy"]: run for run in json.load(open(sys.argv[1]))["runs"]}
sent = {name: run["wire_bytes_per_step"] for name, run in runs.items()}
all_of_it = sent["ddp"]
for name, steps in (("local:3", 3), ("local:3:average", 3), ("local:100", 6)):
    assert 0.99 * all_of_it / steps < sent[name] < 1.01 * all_of_it / steps, (name, sent)
assert sent["local:2+int8"] < 0.3 * all_of_it / 2, sent
# What is sent once more at the end, to make ranks alike, does not count.
assert 0.99 * all_of_it / 2 < sent["local:2/2"] < 1.01 * all_of_it / 2, sent
assert sent["local:4/2:delay=1:mixing=0.5:average+int8"] < 0.3 * all_of_it / 2, sent
assert len({run["loss"]["last"] for run in runs.values()}) == len(runs), runs
END
refused "local steps of none" "'local:0'.*local:H.*from 1 on" "$scaling" --strategies local:0
refused "local steps without a number" "'local:average'.*local:10" "$scaling" --strategies local:average
refused "fragments that do not fit" "'local:10/4'.*10 steps are no multiple of 4 fragments" "$scaling" --strategies local:10/4
refused "no fragments" "'local:8/0'.*local:H/P.*from 1 on" "$scaling" --strategies local:8/0
refused "a delay of all steps" "'local:8/2:delay=8'.*a delay of 8 is not below 8 steps" "$scaling" --strategies local:8/2:delay=8
refused "a mixing of all" "'mixing=1' after local:H is none of average, delay=STEPS" "$scaling" --strategies local:8:mixing=1
refused "a word of local steps that is none" "'fast' after local:H is none of average" "$scaling" --strategies local:8/2:fast+int8
refused "a colon too many" "'' after local:H is none of average" "$scaling" --strategies local:8:average:
refused "a checkpoint of local steps" "--checkpoint with local:4, whose ranks have optimizers of their own" "$scaling" --strategies local:4 --checkpoint "$work/none"
check "a reference run" 0 "^ddp +2 " "$launch" -n 2 "${ddp[@]}"
reference=$(loss_of)
same() {
  local row=${strategy:-ddp}
  check "$1" 0 "^${row//+/[+]} +2 " "${@:2}"
  [ -n "$reference" ] && [ "$(loss_of)" = "$reference" ] || fail "$1: $(loss_of) where $reference was"
}
same "the same run twice" "$launch" -n 2 "${ddp[@]}"
check "another recipe" 0 "^ddp +2 " "$launch" -n 2 "${ddp[@]}" --learning-rate 1e-3 --final-fraction 0 --warmup 2
[ "$(loss_of)" != "$reference" ] || fail "another recipe has the same loss"
for bytes in 65536 1048576 26214400; do same "buckets of $bytes bytes" "$launch" -n 2 "${ddp[@]}" --bucket-bytes $bytes; done
same "a progress thread" env WEFT_PROGRESS=thread "$launch" -n 2 "${ddp[@]}"
check "figures on standard output, the rest on standard error" 0 '^\{"model":"gpt-tiny",.*"runs":' "$launch" -n 2 "$scaling" "${small[@]}" --json -
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "more than the figures on standard output"
for strategy in zero1 zero2 zero3 zero2+offload; do
  same "$strategy" "$launch" -n 2 "$scaling" "${small[@]}" --strategies $strategy --json "$work/run.json"
done
strategy=zero2+offload:$work
files=("$launch" -n 2 "$scaling" "${small[@]}" --strategies "$strategy" --json "$work/run.json")
if "${files[@]}" 2>&1 | grep "io_uring"; then echo "skipped: $strategy"; else same "$strategy" "${files[@]}"; fi
unset strategy
check "state in a folder that is none" 70 "offload: cannot make a file in /no/such" "$scaling" "${small[@]}" --strategies zero2+offload:/no/such
# A configuration of DeepSpeed: what it says, what it excludes, and one loss in all stages.
config() { printf '%s\n' "$2" >"$work/$1.json"; }
recipe='"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 1e-2}}'
config plain "{$recipe, \"steps_per_print\": 9, // comment
}"
config cut "{$recipe, \"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 1e5, \"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}}}"
config parts "{$recipe, \"gradient_accumulation_steps\": 2, \"gradient_clipping\": 0, \"communication_data_type\": \"bf16\"}"
config half '{"train_batch_size": 2, "bf16": {"enabled": true}}'
config typed '{"train_batch_size": 2, "zero_optimization": {"stagee": 1}}'
config scheduled '{"train_batch_size": 2, "scheduler": {"type": "WarmupLR"}}'
check "DeepSpeed, in stage 0" 0 "^deepspeed +2 " "$launch" -n 2 "$scaling" "${small[@]}" --deepspeed "$work/plain.json" --json "$work/run.json"
grep -q "plain.json: without effect in weft: steps_per_print (line 1)$" "$work/err" || fail "steps_per_print is not named"
lines "the notice" 1 "steps_per_print"
losses=$(loss_of)
check "DeepSpeed, in stage 3 with offload" 0 "^deepspeed +2 " "$launch" -n 2 "$scaling" "${small[@]}" --deepspeed "$work/cut.json" --json "$work/run.json"
[ "$(loss_of)" = "$losses" ] || fail "stage 3 has another loss: $(loss_of) where $losses was"
check "micro-steps of DeepSpeed, sent as bf16" 0 "^deepspeed +2 " "$launch" -n 2 "$scaling" "${small[@]}" --deepspeed "$work/parts.json"
check "another rate" 0 "^deepspeed +2 " "$launch" -n 2 "$scaling" "${small[@]}" --deepspeed "$work/cut.json" --warmup 3 --json "$work/run.json"
[ "$(loss_of)" != "$losses" ] || fail "--warmup has no effect on DeepSpeed's rate"
refused "an unknown key of DeepSpeed" 'typed.json:1: "zero_optimization.stagee" is no key of DeepSpeed; did you mean stage\?' "$scaling" "${small[@]}" --deepspeed "$work/typed.json"
refused "a type that the trainer lacks" "half.json:1: bf16.enabled is true, and weft-scaling trains in f32" "$scaling" "${small[@]}" --deepspeed "$work/half.json"
config large '{"train_micro_batch_size_per_gpu": 65537}'
refused "a batch for which there is no memory" "large.json:1: train_micro_batch_size_per_gpu is 65537; .*at most 65536" "$scaling" "${small[@]}" --deepspeed "$work/large.json"
refused "a scheduler of DeepSpeed" "scheduled.json:1: weft-scaling has no scheduler of DeepSpeed; .*--warmup" "$scaling" "${small[@]}" --deepspeed "$work/scheduled.json"
refused "a batch that does not divide" "train_batch_size 8 \(line 1\) is not .* \* 3 rank\(s\)" env WEFT_RANK=0 WEFT_SIZE=3 WEFT_RENDEZVOUS="file://$work/alone" "$scaling" "${small[@]}" --deepspeed "$work/plain.json"
refused "a bucket size twice" "--bucket-bytes and zero_optimization.reduce_bucket_size at .*cut.json:1 set the same" "$scaling" "${small[@]}" --deepspeed "$work/cut.json" --bucket-bytes 4096
refused "a rate twice" "--learning-rate and optimizer.type at .*plain.json:1 set the same" "$scaling" "${small[@]}" --deepspeed "$work/plain.json" --learning-rate 0.1
refused "strategies beside DeepSpeed" "--strategies has no effect: --deepspeed" "$scaling" --deepspeed "$work/plain.json" --strategies ddp
refused "DeepSpeed as a strategy" "'deepspeed'; give --deepspeed FILE" "$scaling" --strategies deepspeed
refused "a file of DeepSpeed that is none" "--deepspeed $work/missing: cannot read it" "$scaling" --deepspeed "$work/missing"
refused "nothing to explain" "--explain has no effect: --deepspeed is not given" "$scaling" --explain
refused "explained training" "--json has no effect: --explain trains nothing" "$scaling" --deepspeed "$work/plain.json" --explain --json -
check "DeepSpeed explained" 0 "^train_micro_batch_size_per_gpu +4 +from the others " "$scaling" --deepspeed "$work/plain.json" --explain --ranks 2
check "DeepSpeed explained on two ranks" 0 "^optimizer.type +\"adam\" +$work/cut.json:1 " "$launch" -n 2 "$scaling" --deepspeed "$work/cut.json" --explain
lines "one table" 1 "^train_batch_size "
full_output "the table" "$scaling" --deepspeed "$work/plain.json" --explain
# Pipelines: the loss is that of data-parallel ranks; wrong input is refused before any rank waits.
# The first strategy of the figures is ddp. Of the others all have the same loss, and nearly that.
learnt() {
  grep -oE '"last":[0-9.E+-]+' "$work/run.json" | cut -d: -f2 >"$work/learnt"
  awk 'NR == 1 {ddp = $1} NR == 2 {first = $1} NR > 1 && ($1 != first || $1 - ddp > 1e-3 || ddp - $1 > 1e-3) {exit 1}' "$work/learnt" ||
    fail "$1: losses $(tr '\n' ' ' <"$work/learnt")"
}
pipelines=ddp,pipeline:1f1b,pipeline:interleaved,pipeline:zb-v+zero1,pipeline:zb-h1+zero2,pipeline:v-half+zero3,pipeline:auto
check "pipelines" 0 "^pipeline:auto executes [a-z0-9-]+: 2 device\(s\), [0-9]+ stages, 4 microbatches; by what was measured a step takes" \
  "$launch" -n 2 "$scaling" "${small[@]}" --strategies $pipelines --json "$work/run.json" --trace "$work/pipelines.json"
lines "pipelines" 6 "^pipeline:.* executes "
learnt "pipelines"
grep -q '"name":"predicted"' "$work/pipelines.json" || fail "no prediction in the trace"
check "pipelines beside each other" 0 "^pipeline:zb-h1\+zero3 executes zb-h1: 2 device\(s\), 2 stages, 2 microbatches" \
  "$launch" -n 4 "$scaling" "${small[@]}" --strategies ddp,pipeline:1f1b,pipeline:zb-h1+zero3,pipeline:auto+zero2 --pipeline-devices 2 --microbatch 2 --json "$work/run.json"
learnt "pipelines beside each other"
two_devices=("$launch" -n 2 "$scaling" "${small[@]}" --strategies)
cannot() {
  check "$1" 42 "$2" "${@:3}"
  lines "$1" 0 "held out"
}
cannot "a pipeline of an MLP" "only a GPT can be cut into stages" "$launch" -n 2 "$scaling" --model mlp-8x1024 --text "$work/text.txt" --strategies pipeline:1f1b
cannot "more stages than units" "8 stages of a model of 6 units" "${two_devices[@]}" pipeline:interleaved --chunks 4
cannot "more stages than units, to be found" "8 stages of a model of 6 units" "${two_devices[@]}" pipeline:auto --chunks 4
cannot "chunks that a schedule is not made for" "1f1b has 1 chunk on a device" "${two_devices[@]}" pipeline:1f1b --chunks 2
cannot "too few microbatches" "dualpipe-v" "${two_devices[@]}" pipeline:dualpipe-v --microbatch 2
cannot "microbatches that do not divide" "microbatches of 3 of the 4 sequences" "${two_devices[@]}" pipeline:1f1b --microbatch 3
cannot "devices that do not divide" "pipelines of 3 devices on 2 rank\(s\)" "${two_devices[@]}" pipeline:1f1b --pipeline-devices 3
if [ -n "$mpirun" ]; then
  check "three ranks of mpirun" 0 "^ddp +3 " env ASAN_OPTIONS=detect_leaks=0 "$mpirun" -n 3 --oversubscribe --bind-to none "$scaling" "${small[@]}"
  check "three nodes of mpirun" 0 "host \(shared memory \+ MPI\)" env ASAN_OPTIONS=detect_leaks=0 "$mpirun" -n 3 --oversubscribe --bind-to none "$(dirname "$0")/../conformance/on_many_nodes.sh" "$scaling" "${small[@]}"
  same "two nodes" env ASAN_OPTIONS=detect_leaks=0 "$mpirun" -n 2 --oversubscribe --bind-to none sh -c 'WEFT_HOST_ID=$OMPI_COMM_WORLD_RANK exec "$@"' sh "${ddp[@]}"
  check "a pipeline over nodes" 0 "^pipeline:1f1b\+zero3 +4 " env RANKS_PER_NODE=2 ASAN_OPTIONS=detect_leaks=0 "$mpirun" -n 4 --oversubscribe --bind-to none "$(dirname "$0")/../conformance/on_many_nodes.sh" "$scaling" "${small[@]}" --strategies pipeline:1f1b+zero3 --pipeline-devices 2
  check "wrong input on every rank of mpirun" 42 "empty.txt" env ASAN_OPTIONS=detect_leaks=0 "$mpirun" -n 2 --oversubscribe --bind-to none "$scaling" --text "$work/empty.txt"
fi

# OpenBLAS with kernels of an old processor on a newer one: rank 0 says it, and what to set.
if ldd "$scaling" | grep openblas > /dev/null && grep -qw avx2 /proc/cpuinfo; then
  check "slow kernels" 0 "computes with its Prescott kernels, .*set OPENBLAS_CORETYPE=(SKYLAKEX|Haswell)$" \
    env OPENBLAS_CORETYPE=Prescott "$launch" -n 2 "$scaling" "${small[@]}"
  lines "slow kernels" 1 "Prescott"
  check "fitting kernels" 0 "^ddp +2 " env OPENBLAS_CORETYPE=Haswell "$launch" -n 2 "$scaling" "${small[@]}"
  lines "fitting kernels" 0 "OPENBLAS_CORETYPE"
fi

# What the data travels over is named, and may be required.
check "shared memory is named" 0 "0 -> 1, 1 -> 0: shared memory" "$launch" -n 2 "$scaling" "${small[@]}" --require shm --json "$work/run.json"
grep -q '"transports":\[{"from":0,"to":1,"via":"shared memory","gdr":false,"nvlink":false,"channels":1}' "$work/run.json" ||
  fail "no transport in the figures"
for wish in gdr ib nvlink; do
  check "shared memory is not $wish" 1 "not what --require asks for: rank 0 sends to rank 1 over shared memory" \
    "$launch" -n 2 "$scaling" "${small[@]}" --require $wish
done

# Weak and strong scaling over numbers of ranks.
check "a sweep" 0 "^strong +2 " "$launch" -n 3 "$scaling" "${small[@]}" --sweep 1,2 --json "$work/run.json"
lines "a sweep" 2 "^weak +[12] "
[ "$(grep -o '"scaling":' "$work/run.json" | wc -l)" -eq 4 ] || fail "a sweep of four has other figures"
check "a batch that cannot be shared" 42 "--sweep 3: 3 ranks cannot share the 2 sequences" "$launch" -n 3 "$scaling" "${small[@]}" --sweep 1,3

# The page, and the comparison with an earlier run. Whatever is wrong with either is said before training starts.
lasting=(--model gpt-tiny --steps 24 --text "$work/text.txt")
page=$work/page.html
check "an earlier run" 0 "^ddp +2 " "$launch" -n 2 "$scaling" "${lasting[@]}" --json "$work/earlier.json"
grep -q '"model":"gpt-tiny","backend":"host (shared memory)"' "$work/earlier.json" || fail "no model and backend in the figures"
[ "$(grep -oE '"samples":\[[^]]*' "$work/earlier.json" | head -1 | tr , '\n' | wc -l)" -eq 21 ] || fail "not 21 samples of 24 steps"
check "a page that compares" 0 "^ddp: [0-9.]+ \([0-9.]+ to [0-9.]+\) of the earlier step: (improved|unchanged|worse)$" \
  "$launch" -n 2 "$scaling" "${lasting[@]}" --report "$page" --compare "$work/earlier.json"
for part in '<!doctype html>' 'gpt-tiny, 2 ranks, host (shared memory)' 'ddp reaches ' '<h2>Where a step goes</h2>' \
  '<h2>Efficiency</h2>' '<h2>How steps vary</h2>' '<h2>Against the earlier run</h2>' 'shared memory (2 connections)' '</html>'; do
  grep -q -- "$part" "$page" || fail "no $part in the page"
done
! grep -Eq '<script|https?://' "$page" || fail "the page is not self-contained"
check "strategies of one run only" 0 "^nocomm: only in the earlier run$" "$launch" -n 2 "$scaling" "${lasting[@]}" --strategies ddp --compare "$work/earlier.json"
check "a page of a sweep" 0 "^strong +2 " "$launch" -n 2 "$scaling" "${small[@]}" --sweep 1,2 --report "$page" --json "$work/sweep.json"
grep -q '<h2>Scaling</h2>' "$page" || fail "no scaling in the page of a sweep"
grep -q '<h2>Where a step goes</h2>' "$page" && fail "strategies in the page of a sweep"

two=("$launch" -n 2 "$scaling" "${lasting[@]}")
untrained() {
  check "$1" 42 "$2" "${@:3}"
  lines "$1" 0 "held out"
}
refused "a page on standard output" "--report - is no file" "$scaling" --report -
refused "a sweep compared" "--compare has no effect: a sweep trains ddp alone" "$scaling" --sweep 1 --compare "$work/earlier.json"
for option in --json --trace; do
  untrained "$option in no folder" "$option /no/such/file: cannot write it: No such file" "${two[@]}" $option /no/such/file
done
untrained "two outputs in one file" "--report $work/./one is what --json names, too" "${two[@]}" --json "$work/one" --report "$work/./one"
check "figures on a full disk, and a page" 70 "cannot write --json /dev/full: No space" "$scaling" "${small[@]}" --json /dev/full --report "$work/beside.html" --trace "$work/beside.json"
grep -q "</html>" "$work/beside.html" && python3 -m json.tool "$work/beside.json" > /dev/null || fail "a full disk took the other files along"
untrained "a page in no folder" "--report /no/such/page.html: cannot write it: No such file" "${two[@]}" --report /no/such/page.html
untrained "a page that is a folder" "--report $work/nothing: cannot write it: Is a directory" "${two[@]}" --report "$work/nothing"
echo kept >"$work/kept.html"
check "a page whose run is refused" 42 "holds a sweep" "${two[@]}" --report "$work/kept.html" --compare "$work/sweep.json"
[ "$(cat "$work/kept.html")" = kept ] || fail "a refused run touched an earlier page"
check "a full disk for the page" 70 "/dev/full" "$scaling" "${small[@]}" --report /dev/full
refused "no earlier run" "--compare $work/missing: cannot read it" "$scaling" --compare "$work/missing"
refused "an earlier run that is no file" "--compare $work/nothing: cannot read it" "$scaling" --compare "$work/nothing"
refused "an earlier run without an end" "--compare /dev/zero: cannot read it: it is a device" "$scaling" --compare /dev/zero
refused "an earlier run that is no JSON" "text.txt: is no whole JSON" "$scaling" --compare "$work/text.txt"
refused "an earlier sweep" "sweep.json: holds a sweep" "$scaling" --compare "$work/sweep.json"
# with SED PATTERN: the earlier run, changed
with() {
  sed -E "$1" "$work/earlier.json" >"$work/changed.json"
  cmp -s "$work/earlier.json" "$work/changed.json" && fail "$1 changes nothing"
  untrained "an earlier run with $1" "changed.json: $2" "${two[@]}" --compare "$work/changed.json"
}
with 's/.*/[1]/' "is no object"
with 's/"model":"gpt-tiny",//' 'has no "model"'
with 's/"backend":"[^"]*"/"backend":7/' "backend is 7 and no string"
with 's/"runs":\[.*/"runs":[]}/' "runs is empty"
with 's/"ranks":2/"ranks":"two"/' 'runs\[0\].ranks is "two"; it is a whole number from 1'
with 's/"ranks":2/"ranks":4/' "runs\[1\].ranks is 2; the runs before have 4"
with 's/"samples":\[[^]]*\]/"samples":[0.1,0.1]/' "runs\[0\].step_seconds.samples has 2 steps; a verdict needs 15"
with 's/,"samples":\[[^]]*\]//' 'runs\[0\].step_seconds has no "samples"'
with 's/"samples":\[[^,]*/"samples":[-1/' "runs\[0\].step_seconds.samples\[0\] is -1; it is a number above 0"
with 's/"nocomm"/"ddp"/' "runs\[1\] is another of strategy 'ddp'"
with 's/"model":"gpt-tiny"/"model":"gpt-ref"/' "the model is gpt-ref there, gpt-tiny in this run"
with 's/"ranks":2/"ranks":3/g' "the number of ranks is 3 there, 2 in this run"
with 's/"backend":"host/"backend":"nccl/' "the device is nccl there, host in this run"
untrained "too few steps to compare" "--compare with --steps 12: 9 steps count, and a verdict needs 15" \
  "$launch" -n 2 "$scaling" --model gpt-tiny --steps 12 --text "$work/text.txt" --compare "$work/earlier.json"

finish
