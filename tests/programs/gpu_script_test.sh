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

check "without a card" 0 '^gpu.sh: no GPU here: [1-9][0-9]* tests skipped$' "$script"
[ "$(cat "$OUT/gpu.json")" = "{\"card\": null, \"skipped\": $(grep -oE '[0-9]+' "$work/out"), \"suites\": [], \"figures\": []}" ] ||
  fail "without a card: gpu.json is $(cat "$OUT/gpu.json")"
check "an option that is none" 42 'gpu.sh: --fast is neither --pack nor --build' "$script" --fast
finish
