#!/usr/bin/env bash
# bench/results: README.md is what tables.py writes, every figure has command, machine and date; and bench/readme.sh puts
# what it measures in the top-level README.md, beside the ratios of ratios.json, with stand-ins for the quick start, the build and the training. Ends with 77
# (skipped) where there is no Python.
# usage: results_test.sh
set -u
. "$(dirname "$0")/../support/checks.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$(command -v python3) && "$python" -c pass || { echo "skipped: there is no python3"; exit 77; }
tables=$root/bench/results/tables.py

check "the pages are what tables.py writes" 0 '[0-9]+ figures, each with command, machine and date' "$python" "$tables" --check
check "help" 0 'Writes bench/results/README.md' "$python" "$tables" --help
check "an unknown option" 42 'unrecognized arguments: --fast' "$python" "$tables" --fast

# A tree with the same files, to change and to spoil.
tree=$work/tree
mkdir -p "$tree/bench" "$tree/launchers"
cp -r "$root/bench/results" "$root/bench/readme.sh" "$tree/bench"
printf 'before\n<!-- figures: bench/readme.sh -->\nold figures\n<!-- /figures -->\n<!-- ratios: bench/results/ratios.json -->\n<!-- /ratios -->\nafter\n' > "$tree/README.md"
results=$tree/bench/results
changed() {  # FILE SED-SCRIPT: check with this change of a file, and back
  cp "$results/$1" "$work/kept"
  sed -i "$2" "$results/$1"
  cmp -s "$results/$1" "$work/kept" && fail "$1: '$2' changed nothing"
}
spoiled() {  # NAME PATTERN FILE SED-SCRIPT
  changed "$3" "$4"
  check "$1" 1 "$2" "$python" "$results/tables.py" --check
  cp "$work/kept" "$results/$3"
}
check "an old block" 1 'README.md is not what tables.py writes: line 3 is .old figures' "$python" "$results/tables.py" --check
check "a new one" 0 '[0-9]+ figures, each with command, machine and date' "$python" "$results/tables.py"
grep -q '^    ddp ' "$tree/README.md" || fail "no row of ddp in the block: $(cat "$tree/README.md")"
{ [ "$(head -n 1 "$tree/README.md")" = before ] && [ "$(tail -n 1 "$tree/README.md")" = after ]; } || fail "the lines around the block"
check "and again" 0 '[0-9]+ figures, each with command, machine and date' "$python" "$results/tables.py" --check
spoiled "another figure" 'README.md is not what tables.py writes: line [0-9]+ is' 13_sum.json 's/"median": 2.1,/"median": 2.2,/;s/60.7 GB/60.8 GB/'
grep -q '^| all_reduce of 1 MiB in a node | 10 us | 38 us, Open MPI | \[3.7 times\](bench/results/README.md#all_reduce-f32-sum-in-place-2-ranks) |$' "$tree/README.md" ||
  fail "the ratio beside Open MPI: $(cat "$tree/README.md")"
spoiled "another ratio" 'README.md is not what tables.py writes: line [0-9]+ is' ratios.json 's/"weft", 1\]/"weft", 2]/;s/"gloo", 1\]/"gloo", 2]/'
spoiled "a ratio of no row" "ratios.json, .*: 0 rows begin with '2 MB'" ratios.json 's/"1 MiB", 1/"2 MB", 1/'
spoiled "a ratio of two units" "'ms' and '' are two units" ratios.json 's/"gloo", 1\]/"gloo", 2]/'
spoiled "a ratio of no table" "has 0 measurements 'none'" ratios.json 's/mlp-8x1024, plain weft/none/'
spoiled "an edited page" 'README.md is not what tables.py writes' README.md 's/60.7/60.8/'
spoiled "no command" '13_sum.json, all_reduce of two ranks as threads has no command' 13_sum.json '/"command"/d'
spoiled "no machine" '13_sum.json, .* has no machine: None' 13_sum.json '/"machine"/d'
spoiled "an unknown machine" "has no machine: 'Z' is neither A, B" 13_sum.json 's/"machine": "A"/"machine": "Z"/'
spoiled "no date" '13_sum.json, .* has no date' 13_sum.json '/"date"/d'
spoiled "no such day" '13_sum.json, .* has no date' 13_sum.json 's/"date": "....-/"date": "2026-13-/'
spoiled "a row without its date" 'row 1 has a machine of its own and no date' 02_data_parallel.json 's/"machine": "A", "date": "[0-9-]*",/"machine": "A",/'
spoiled "a spread that makes no sense" 'the spread of .* makes no sense' 03_pytorch_ddp.json 's/"least": 22.1/"least": 99/'
spoiled "a key that is none" 'has unknown keys: comand' 13_sum.json 's/"command"/"comand"/'
spoiled "a cell too few" 'row 1 has [0-9]+ cells for [0-9]+ columns' 03_pytorch_ddp.json 's/\["weft ddp", /[/'
spoiled "not JSON" '13_sum.json: Extra data' 13_sum.json '1d'

# readme.sh: the clone of a commit, whose quick start, build and training are these.
cat > "$tree/launchers/quickstart.sh" <<'END'
mkdir -p build/release/bin
run() { echo "{\"strategy\":\"$1\",\"ranks\":2,\"step_seconds\":{\"median\":$2,\"p99\":0.4},\"tokens_per_second\":1234.4,\
\"efficiency_vs_nocomm\":$3,\"efficiency_vs_single\":null,\"exposed_seconds\":0.0018,\"wire_bytes_per_step\":36500000,\
\"peak_bytes_per_rank\":229900000,\"loss\":{\"first\":5.545,\"last\":2.9}}"; }
echo "{\"runs\":[$(run nocomm 0.25 1),$(run ddp 0.26 0.9615)]}" > build/quickstart.json
END
touch "$tree/launchers/openblas.sh"
echo "jobs=1" > "$tree/launchers/toolchain.sh"
chmod +x "$tree/launchers/quickstart.sh"
mkdir "$work/bin"
printf '#!/bin/sh\nexit 0\n' > "$work/bin/cmake"
printf '#!/bin/sh\necho "step 1025 of 1025: held-out loss 1.5004 nats per byte"\n' > "$work/bin/mpirun"
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH
git() { command git -c user.name=test -c user.email=test@localhost "$@"; }
git init -q "$tree"
git -C "$tree" add . && git -C "$tree" commit -qm tree || fail "no commit to clone"

check "all figures" 0 'README.md and bench/results have the figures of' "$tree/bench/readme.sh"
grep -qE '^    nocomm +2 +250.0 +400.0 +1234 +1.000 +- +1.8 +36.5 +229.9 +5.545 -> 2.900$' "$tree/README.md" || fail "the row of nocomm: $(cat "$tree/README.md")"
grep -qE '^    ddp +2 +260.0 +400.0 +1234 +0.962 ' "$tree/README.md" || fail "the row of ddp"
grep -qE '^\| 1025 \| 1.500 \|$' "$results/README.md" || fail "the longer training"
grep -q "^The end of the quick start, [0-9]* s after the clone (.launchers/quickstart.sh. on [0-9]* cores of .*; $(date +%F))" "$tree/README.md" ||
  fail "the machine and the date"
grep -q "$(date +%F)" "$results/README.md" || fail "the figures in bench/results"
check "they hold together" 0 '[0-9]+ figures, each with command, machine and date' "$python" "$results/tables.py" --check
sed -i 's/"median": 1.500/"median": 1.600/' "$results/readme.json"
check "without the long training" 0 'have the figures of' "$tree/bench/readme.sh" --skip-long
grep -qE '^\| 1025 \| 1.600 \|$' "$results/README.md" || fail "the longer training is not as it was"
check "an option that is none" 42 "'--fast' is none of --skip-long, --keep" "$tree/bench/readme.sh" --fast
check "the help of readme.sh" 0 'bench/readme.sh \[--skip-long\]' "$tree/bench/readme.sh" --help
printf '#!/bin/sh\nexit 3\n' > "$work/bin/mpirun"
check "a training that fails" 70 'gpt --steps 1025 .* failed' "$tree/bench/readme.sh"
sed -i '/figures -->/d' "$tree/README.md"
check "no markers" 42 'README.md needs the line <!-- /figures --> once' "$tree/bench/readme.sh"
sed -i '/figures/d' "$tree/README.md"
check "no block" 0 'has no block between' "$python" "$results/tables.py"
finish
