#!/usr/bin/env bash
# weft-plan as a stranger uses it: from a trace of a real training to its buckets, from a model to its memory, and every
# wrong input.
# usage: plan_test.sh WEFT_PLAN WEFT_SCALING WEFT_LAUNCH
set -u
plan=$1 scaling=$2 launch=$3
. "$(dirname "$0")/../support/checks.sh"

check help 0 "weft-plan buckets run.json" "$plan" --help
refused "nothing" "nothing to plan is named; allowed are buckets, checkpoint, memory, scale and schedule" "$plan"
refused "an unknown word" "'lunch' is nothing to plan" "$plan" lunch file
refused "no trace" "no trace is named; weft-scaling --trace FILE" "$plan" buckets
refused "a trace that is not there" "'/nowhere': cannot read it: No such file" "$plan" buckets /nowhere
echo "{" > "$work/broken"
refused "a file that is no JSON" "is no JSON" "$plan" buckets "$work/broken"
echo '{"otherData":{"buckets":{"link":1}}}' > "$work/odd"
refused "buckets that make no sense" "otherData.buckets.link is no object" "$plan" buckets "$work/odd"
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

memory() { check "$1" 0 "$2" "$plan" memory "${@:3}"; }
memory "help of memory" "weft-plan memory --layers 32 --width 4096" --help
memory "a table of all stages" "^MiB on each of 8 ranks +stage 0 +stage 1 +stage 2 +stage 3$"
lines "what fits" 1 "^fits in 81920.00 MiB +yes +yes +yes +yes$"
memory "several numbers of ranks" "^MiB on each of 1 rank " --model gpt-tiny --ranks 1,4 --dtype bf16 --master split
lines "each with a table" 2 "^masters +device "
memory "a model of one's own" "^a GPT of 2 layers of width 256: " --layers 2 --width 256 --vocabulary 1000 --context 64
memory "too large a model" "^none of these stages fits" --parameters 70G --ranks 1 --device-bytes 80G
memory "and where it fits" "^the least stage that fits is 3$" --parameters 70G --ranks 64 --device-bytes 80G --dtype bf16
memory "the closed form alone" "16 equal layers: 1.50 G parameters of f32 in 16 units, the largest of 93.75 M; the closed form alone" \
  --parameters 1.5G --layers 16
lines "and no other beside it" 0 "by the closed form"
memory "state on the host" "^masters +host +" --dtype bf16 --offload 0.5 --offload-parameters --offload-gradients
lines "and a shard of gradients" 1 "^gradient shard +host +- +- +[0-9.]+ +[0-9.]+$"
memory "state in a file" "^first moments +file +" --offload 1 --offload-file 0.5 --stage 2
lines "and what it passes through" 1 "^state ring +host +"
memory "figures for machines" '^\{"plans":\[\{"stage":3,"ranks":2,"device_bytes":[0-9]+,"host_bytes":0,"file_bytes":0,"rows":\[\{"what":"parameter shard","place":"device","bytes":[0-9]+\}' \
  --stage 3 --ranks 2 --json -
lines "with what fits" 1 '"fits":true\}\]\}$'
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "nothing but figures on standard output"
check "a full disk" 70 "/dev/full" "$plan" memory --json /dev/full
refused "a plan in no folder" "--json /no/such/file: cannot write it: No such file" "$plan" memory --json /no/such/file
full_output "memory" "$plan" memory

no_memory() { refused "$1" "$2" "$plan" memory "${@:3}"; }
no_memory "an unknown model" "unknown model gpt-5; allowed are gpt-ref" --model gpt-5
no_memory "two models" "two models are named" --model gpt-ref --parameters 1G
no_memory "half a GPT" "--layers without --width; a GPT has both" --layers 3
no_memory "a width of a number" "--width beside --parameters" --parameters 1G --layers 3 --width 4
no_memory "a vocabulary of no GPT" "--vocabulary without --layers and --width" --vocabulary 7
no_memory "no stage" "--stage 4 is not a number from 0 to 3" --stage 4
no_memory "no ranks" "--ranks 0 is not a number from 1" --ranks 2,0
no_memory "no list" "--ranks '' is not a list" --ranks ''
no_memory "no type" "--dtype f8 is not f32, bf16 or f16" --dtype f8
no_memory "no optimizer" "--optimizer adagrad is not adamw, adam" --optimizer adagrad
no_memory "no master" "--master both is not f32 or split" --master both
no_memory "split masters of f32" "--master has no effect: parameters of f32 are their own masters" --master split
no_memory "no bytes" "--device-bytes 80X is not a number of 1 or more, with K, M, G or T" --device-bytes 80X
no_memory "no share" "--offload 2 is not a share from 0 to 1" --offload 2
no_memory "no share of a file" "--offload-file -1 is not a share from 0 to 1" --offload 1 --offload-file -1
no_memory "what the stage has no use for" "gradients are offloaded in stage 1; they are whole on every rank" --stage 1 --offload-gradients
no_memory "a word that is no option" "positional" lunch
no_memory "an option that is none" "unrecognised option '--bogus'" --bogus

schedule() { check "$1" 0 "$2" "$plan" schedule "${@:3}"; }
schedule "help of schedule" "weft-plan schedule --devices 8 --microbatches 8 --chunks 2 --memory 8" --help
schedule "two chunks leave the least bubble" "^makespan 27.5, bubble 0.1273; span 27.5, bubble 0.1273$" --microbatches 8 --chunks 2 --memory 8
lines "and that is proved" 1 "this one is proved shortest$"
lines "drawn, a line for each device" 8 "^device [0-7] \|"
schedule "four chunks" "^makespan 25.75, bubble 0.0680;" --microbatches 8 --chunks 4 --memory 8
schedule "1F1B" "^makespan 45, bubble 0.4667;" --name 1f1b --microbatches 8
schedule "no bubble where steps follow each other" "span 96, bubble 0.0000$" --objective span --memory 16 --release 1
schedule "no bubble but what warm-ups leave" "is shorter than 82.39 by span \\(warm-ups of device 0\\): this one is proved shortest$" \
  --objective span --memory 16 --release 0.57 --backward-input 0.97 --backward-weight 0.6 --comm 0.04
schedule "with little effort" "this one is within" --chunks 2 --stages 4 --microbatches 9 --memory 3 --effort 0.01
schedule "figures for machines" '^\{"schedule":"1f1b","objective":"makespan","makespan":[0-9.E]+,"span":[0-9.E]+,"bubble_makespan":[0-9.E-]+,"bubble_span":[0-9.E-]+,"peak_memory":\[' --name 1f1b --stages 2 --json -
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "nothing but figures on standard output"
schedule "the schedule as PyTorch's CSV" "^0F0,0F1,0B0," --name 1f1b --stages 2 --microbatches 3 --csv -
cp "$work/out" "$work/plan.csv"
schedule "which reads back" "plan.csv: 2 devices, 2 stages, 3 microbatches$" --schedule "$work/plan.csv"
schedule "and as text" "^device 1: 1F0 1B0 1F1 1B1 1F2 1B2$" --name 1f1b --stages 2 --microbatches 3 --text -
sed 's/1B1/1B0/' "$work/out" > "$work/plan.txt"
check "a fault is named" 1 "device 1, entry 3 \(1B0\): comes a second time" "$plan" schedule --schedule "$work/plan.txt"
cat > "$work/profile.json" << 'PROFILE'
{"stages": [{"forward": 0.010, "backward_input": 0.011, "backward_weight": 0.009, "activation": 1000},
            {"forward": 0.014, "backward_input": 0.016, "backward_weight": 0.012, "activation": 1000, "kept_for_weight": 600}],
 "hops": [{"latency": 0.001}], "memory": [2000, 3000]}
PROFILE
schedule "costs of every stage" "^makespan 0.347 s, bubble " --profile "$work/profile.json" --microbatches 8
check "a full disk" 70 "/dev/full" "$plan" schedule --json /dev/full
for option in --json --text --csv --svg --trace --compare; do
  refused "$option in no folder" "$option /no/such/file: cannot write it: No such file" "$plan" schedule $option /no/such/file
done
refused "two outputs on standard output" "--svg - is what --json names, too" "$plan" schedule --json - --svg -
check "a full disk, and another file" 70 "/dev/full" "$plan" schedule --json /dev/full --compare "$work/beside.html"
grep -q "</html>" "$work/beside.html" || fail "a full disk took the other file along"
schedule "a drawing" "^makespan 45, " --name 1f1b --microbatches 8 --svg "$work/plan.svg"
cp "$work/plan.svg" "$work/out"
lines "with a box for each computation and two keys" $((2 * 8 * 8 + 2)) '^<rect class="[fb]" '
lines "and the bound" 1 '>no makespan is shorter than [0-9.]+</text>$'
check "a full disk" 70 "/dev/full" "$plan" schedule --svg /dev/full
schedule "a trace" '"name":"0F0","ts":0E0,"dur":1E3,"args":\{"stage":0,"microbatch":0\}' --name 1f1b --stages 2 --microbatches 4 --comm 0.5 --trace -
lines "of a process for each device" 2 '"name":"process_name"'
lines "with messages as their senders have them" 8 '"name":"[01]SEND_[FB][0-3]"'
check "a full disk" 70 "/dev/full" "$plan" schedule --trace /dev/full
schedule "a page of all that fit the memory" '^<p class="verdict">[a-z0-9-]+ takes [0-9.]+, .*; [a-z0-9-]+, the best of [0-9]+ named ones that fit, takes ' \
  --microbatches 16 --chunks 2 --memory 8 --compare -
lines "with a row for 1F1B" 1 '<th scope="row" class="words">1f1b</th><td>1</td><td>69[.]0+</td>'
lines "and a drawing" 1 '<title>1f1b: makespan 69</title>$'
lines "but none of what does not fit" 0 gpipe
check "a full disk" 70 "/dev/full" "$plan" schedule --compare /dev/full

wrong() { refused "$1" "$2" "$plan" schedule "${@:3}"; }
# wrong_file NAME PATTERN TEXT: a schedule with this text
wrong_file() {
  printf %b "$3" >"$work/bad.txt"
  wrong "$1" "$2" --schedule "$work/bad.txt"
}
wrong_file "a schedule without placement" "'.*bad.txt' is no whole schedule: its placement has no stage" 'schedule x\nmicrobatches 1\nplacement\ndevice 0: 0F0\n'
wrong_file "a schedule without rows" "'.*bad.txt' is no whole schedule: it has no row of a device" 'schedule x\nmicrobatches 1\nplacement 0\n'
wrong_file "a billion microbatches in two actions" "1000000000 microbatches in 2 actions" 'schedule x\nmicrobatches 1000000000\nplacement 0\ndevice 0: 0F0 0B0\n'
wrong "a schedule there is not" "no schedule is named 'zb-h3'; did you mean zb-h" --name zb-h3
wrong "no microbatches" "--microbatches 0 is not a number from 1" --microbatches 0
wrong "a cost of nothing" "--forward 0 is not a time" --forward 0
wrong "a cost below nothing" "--backward-weight -1 is not a time" --backward-weight -1
wrong "no effort" "--effort 0 is not a number from 0.001 to 10000" --effort 0
wrong "an effort that is none" "--effort much is not a number from 0.001 to 10000" --effort much
wrong "effort for a named schedule" "--effort beside --name" --name 1f1b --effort 2
wrong "too little memory" "below one microbatch" --memory 0.5
wrong "what does not fit" "gpipe" --name gpipe --memory 8
wrong "an objective there is not" "--objective time is not makespan or span" --objective time
wrong "two pipelines" "--forward beside --profile" --profile "$work/profile.json" --forward 2
wrong "a CSV with a word that is none" "row 1" --schedule <(printf '0F0,0Q0\n')
echo '{"stages": [{"forward": 1}]}' > "$work/half.json"
wrong "a profile with a hole" "stage 0: 'activation' is missing" --profile "$work/half.json"
wrong "an option that is none" "unrecognised option '--bogus'" --bogus

scale() { check "$1" "$2" "$3" "$plan" scale "${@:4}"; }
sc21=(--layers 80 --hidden 12288 --heads 96 --vocabulary 51200 --sequence 2048 --gpus 1536 --tensor 8 --pipeline 8 --virtual-stages 2
  --micro-batch 2 --global-batch 2304 --recompute full)
scale "help of scale" 0 "weft-plan scale --model gpt3-175b --gpus 1024" --help
scale "a published run" 0 "^step 2[3-6][.0-9]* s \\([0-9.]+ to [0-9.]+\\), 1[345][0-9][.][0-9] TFLOP/s a GPU" "${sc21[@]}"
lines "with its bubble" 1 "^bubble +[0-9.]+ +[0-9.]+%$"
scale "and the numbers that it rests on" 0 "^fitted to published runs: gemm [0-9.]+ memory [0-9.]+" "${sc21[@]}" --explain
lines "with the optimizer's state" 3 "^(masters|first moments|second moments) +[0-9.]+$"
scale "figures for machines" 0 '"step_seconds":\{"value":[0-9.E+]+,"low":[0-9.E+]+,"high":[0-9.E+]+\},"tflops_per_gpu":' "${sc21[@]}" --json -
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "nothing but figures on standard output"
scale "a model by name, on other machines" 0 "on 16384 GPUs h100-sxm: data 128, tensor 8 with sequence, pipeline 16" --model llama3.1-405b \
  --hardware h100-sxm --gpus 16384 --tensor 8 --pipeline 16 --virtual-stages 8 --global-batch 2048 --zero 1 --sequence-parallel --recompute full
echo '{"layers": 4, "hidden": 1024, "heads": 16, "vocabulary": 32000, "sequence": 1024, "gated": true}' > "$work/model.json"
scale "a model of a file" 0 "model.json, 0.0[0-9]+ G parameters, on 8 GPUs a100-80g: data 8" --model "$work/model.json" --gpus 8 --global-batch 64
scale "a plan that does not fit" 1 "does not fit: [0-9.]+ GB of 80.0 GB, of which .* take [0-9.]+ GB; it would with " --model gpt3-175b --gpus 64 --tensor 8 \
  --pipeline 8 --global-batch 64 --micro-batch 4
scale "the runs that it is calibrated with" 0 "^each left out: mean [0-9.]+ %, worst [0-9.]+ %$" --runs
lines "of SC'21" 10 "^sc21-[0-9.]+B "
scale "the fastest plans" 0 "^[0-9]+ plans divide; [0-9]+ do not fit 80.0 GB, [0-9]+ were predicted, the others are slower by a bound$" --model llama3.1-8b --hardware h100-sxm \
  --gpus 64 --global-batch 128 --search --best 4 --explain
lines "as many as are asked for" 4 "^ +[0-9.]+s  [0-9]+ x [0-9]+ x [0-9]+ "
lines "all but the first with what they lose by" 3 " s more in "
scale "a model that no plan fits" 1 "^no plan fits$" --model gpt3-175b --gpus 8 --global-batch 8 --micro-batch 1 --search --zero 0
check "a full disk" 70 "/dev/full" "$plan" scale "${sc21[@]}" --json /dev/full
refused "a plan in no folder" "--json /no/such/file: cannot write it: No such file" "$plan" scale "${sc21[@]}" --json /no/such/file

no_scale() { refused "$1" "$2" "$plan" scale "${@:3}"; }
no_scale "unknown machines" "no hardware is named 'a100-80gb'; .*did you mean a100-80g" "${sc21[@]}" --hardware a100-80gb
sed 's/"heads"/"heds"/' "$work/model.json" >"$work/typo.json"
no_scale "an unknown key of a model" "no key of '.*typo.json' is named 'heds'; .*did you mean heads" --model "$work/typo.json" --gpus 8 --global-batch 8
no_scale "an unknown model" "no model is named 'gpt-175b'; .*did you mean gpt3-175b" --model gpt-175b --gpus 8 --global-batch 8
no_scale "no model" "--layers is missing; give --model" --gpus 8 --global-batch 8
no_scale "two models" "--layers beside --model" --model gpt3-175b --layers 3 --gpus 8 --global-batch 8
no_scale "no batch" "--global-batch is missing" --model gpt3-175b --gpus 8
no_scale "GPUs that are not divided" "--gpus 100 is no multiple of --tensor 8 x --pipeline 8 x --context 1 = 64; the nearest that are: 64 and 128" \
  --model gpt3-175b --gpus 100 --tensor 8 --pipeline 8 --global-batch 64
no_scale "layers that are not divided" "--layers 96 are not divided by --pipeline 7 x --virtual-stages 1 = 7 stages" \
  --model gpt3-175b --gpus 56 --tensor 8 --pipeline 7 --global-batch 56
no_scale "a batch that is not divided" "--global-batch 65 is no multiple of 2 data-parallel ranks x --micro-batch 1 = 2; the nearest that are: 64 and 66" \
  --model gpt3-175b --gpus 128 --tensor 8 --pipeline 8 --global-batch 65
no_scale "heads that are not divided" "--tensor 5 does not divide --heads 96" --model gpt3-175b --gpus 40 --tensor 5 --global-batch 8
no_scale "tensor parallelism beyond a node" "--tensor 16 is more than the 8 GPUs of a node of a100-80g" --model gpt3-175b --gpus 64 --tensor 16 --global-batch 64
no_scale "a type that is none there" "--dtype fp8: a100-80g has no products of fp8" "${sc21[@]}" --dtype fp8
no_scale "sharded gradients in a pipeline" "--zero 2 with --pipeline 8 is not modelled" "${sc21[@]}" --zero 2
no_scale "software that is none" "no software is named 'megatron'" "${sc21[@]}" --software megatron
no_scale "a recomputation that is none" "--recompute some is not none or selective or full" --model gpt3-175b --gpus 8 --global-batch 8 --recompute some
no_scale "a schedule that is none" "no schedule is named '1f2b'; did you mean 1f1b" "${sc21[@]}" --schedule 1f2b
no_scale "too few layers for what is to be cut" "--virtual-stages 2 has no effect: --pipeline is 1" --model gpt3-175b --gpus 8 --global-batch 8 --virtual-stages 2
no_scale "a model beyond all counts" "a model of [0-9]+ parameters; plan at most 1000000000000000" --layers 100000 --hidden 1048576 --heads 8 --vocabulary 8 --sequence 8 --gpus 8 \
  --global-batch 8
no_scale "a schedule that no memory holds" "micro-batches takes [0-9]+ bytes of memory or more, and [0-9]+ are left" --layers 4096 --hidden 1024 --heads 8 \
  --vocabulary 8 --sequence 8 --gpus 4096 --pipeline 4096 --global-batch 2000000000
no_scale "a schedule for no pipeline" "--schedule gpipe has no effect: --pipeline is 1" --model llama3.1-8b --gpus 8 --global-batch 8 --schedule gpipe
no_scale "a search for nothing" "--best has no effect: it counts the plans of --search" "${sc21[@]}" --best 3
no_scale "a batch that nothing divides" "no plan for 64 GPUs and a batch of 0*1 sequences divides" --model gpt3-175b --gpus 64 --tensor 1 --pipeline 1 --global-batch 1 --search
no_scale "chunks placed as a V" "--schedule zb-v places its chunks as a V" --model gpt3-175b --gpus 64 --tensor 8 --pipeline 8 --virtual-stages 2 \
  --global-batch 64 --schedule zb-v
no_scale "runs with a plan" "--gpus beside --runs" --runs --gpus 8
echo '{"name": "x"}' > "$work/hardware.json"
no_scale "half a hardware file" "hardware.json': 'constants' is missing" "${sc21[@]}" --hardware "$work/hardware.json"
echo '{' > "$work/hardware.json"
no_scale "a hardware file that is none" "hardware.json' is no JSON" "${sc21[@]}" --hardware "$work/hardware.json"
echo '{"layers": 4}' > "$work/model.json"
no_scale "half a model" "--hidden 0 is not a number from 1 to 1048576" --model "$work/model.json" --gpus 8 --global-batch 8

# What docs/memory.md shows is what is printed.
page=$(dirname "$0")/../../docs/memory.md
arguments=$(sed -n 's/^    \$ weft-plan //p' "$page")
# shellcheck disable=SC2086
check "the example of the page" 0 "least ranks" "$plan" $arguments
sed -n '/^    \$ weft-plan/,/^[^ ]/{/^    \$/d; s/^    //p; /^$/p}' "$page" | sed -e '${/^$/d}' > "$work/page"
diff "$work/out" "$work/page" > "$work/err" || fail "docs/memory.md shows something else"
finish
