#!/bin/bash
# tests/gpu.sh where there is no card: it says so, counts what it skipped, and ends well.
# usage: gpu_script_test.sh
set -u
. "$(dirname "$0")/../support/checks.sh"
script=$(dirname "$0")/../gpu.sh
mkdir "$work/no_card"
printf '#!/bin/sh\nexit 9\n' > "$work/no_card/nvidia-smi"
chmod +x "$work/no_card/nvidia-smi"
export PATH=$work/no_card:$PATH OUT=$work/figures

check "without a GPU" 0 '^gpu.sh: no GPU here: [1-9][0-9]* suites skipped$' "$script"
grep -q '^{"card": null, "skipped": [1-9]' "$OUT/gpu.jsonl" || fail "without a GPU: gpu.jsonl is $(cat "$OUT/gpu.jsonl")"
check "the suites" 0 '^kernels$' "$script" --list
check "two of them" 0 'no GPU here: 2 suites skipped' "$script" --suites kernels,train-zero3
check "a suite that is none" 42 'gpu.sh: no suite kernel: driver-waits,kernels,low-rank,' "$script" --suites kernel
check "no time" 42 'gpu.sh: --minutes 0: a whole number of minutes' "$script" --minutes 0
check "no suites at a time" 42 'gpu.sh: --at-a-time 0: a whole number of suites' "$script" --at-a-time 0
check "an option that is none" 42 'gpu.sh: --fast is none of --suites' "$script" --fast

# A GPU that is a script, and programs that are: what passes, fails, hangs and is not there.
printf '#!/bin/sh\ncase "$*" in *name*) echo "a script" ;; *) echo 9.0 ;; esac\n' > "$work/no_card/nvidia-smi"
mkdir -p "$work/tree/tests" "$work/tree/build/gpu/bin"
cp "$script" "$work/tree/tests/gpu.sh"
printf '#!/bin/sh\n[ "$1" = -S ] && exit 0\nexit 1\n' > "$work/no_card/cmake"  # configures, and does not build all
printf '#!/bin/sh\necho fine\n' > "$work/tree/build/gpu/bin/gpu_kernels_test"
printf '#!/bin/sh\necho broken\nexit 3\n' > "$work/tree/build/gpu/bin/gpu_low_rank_test"
printf '#!/bin/sh\necho "rank $WEFT_RANK of $WEFT_SIZE"\n[ "$WEFT_RANK" = 0 ] && echo "{\\"figure\\": 1}"\nexit 0\n' > "$work/tree/build/gpu/bin/gpu_figures"
chmod +x "$work/no_card/"* "$work/tree/build/gpu/bin/"*
check "suites that pass, fail and are not built" 1 '2 of 4 not passed' "$work/tree/tests/gpu.sh" --suites kernels,low-rank,overhead,models
check "what does not build" 1 'gpu.sh: not all of it builds' "$work/tree/tests/gpu.sh" --build
for line in '{"card": "a script"' '{"suite": "kernels", "state": "passed"' '{"suite": "low-rank", "state": "failed"' '{"suite": "models", "state": "failed"' \
  '{"figure": 1}' '{"failed": 2'; do
  grep -qF "$line" "$OUT/gpu.jsonl" || fail "gpu.jsonl lacks $line: $(cat "$OUT/gpu.jsonl")"
done
grep -q '^rank 1: rank 1 of 2$' "$OUT/gpu.log" || fail "gpu.log lacks what rank 1 said: $(cat "$OUT/gpu.log")"
[ -e "$OUT/machine.txt" ] || fail "what nvidia-smi says of the GPU is not kept"
grep -q '"driver_version": "9.0", ' "$OUT/gpu.jsonl" || fail "gpu.jsonl does not say what it ran on: $(head -n 1 "$OUT/gpu.jsonl")"

# Several at a time: each has its own folder, and its own line.
check "several suites at a time" 1 '2 of 4 not passed' "$work/tree/tests/gpu.sh" --built --at-a-time 3 --suites kernels,low-rank,models,overhead
for line in '{"suite": "kernels", "state": "passed"' '{"suite": "overhead", "state": "passed"' '{"figure": 1}' '{"failed": 2'; do
  grep -qF "$line" "$OUT/gpu.jsonl" || fail "several at a time: gpu.jsonl lacks $line: $(cat "$OUT/gpu.jsonl")"
done
finish
