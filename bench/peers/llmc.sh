#!/usr/bin/env bash
# llm.c's train_gpt2.c on weft, by the diff and the lines of C in llmc/: whether the parameters are those of one process, bit by
# bit, and what a step costs beside no exchange, beside ranks that only meet (a barrier after backward: what they wait for each other is
# no cost of an exchange), and beside one MPI_Allreduce of its block of gradients.
#   bench/peers/llmc.sh [--rounds K] [--steps S] [--work DIR] [--llmc DIR]
#     --rounds K   rounds on two ranks (7): in each, every variant runs once, in another order
#     --steps S    training steps of a run, at most 19 (12); the first two are not timed
#     --work DIR   where sources, builds and the made model are kept (build/llmc)
#     --llmc DIR   a clone of github.com/karpathy/llm.c; else it is cloned
# The model and the text are drawn (llmc/made.py). Needs Open MPI.
# Exit status: 0 done, 1 parameters differ, 42 wrong usage, 70 when something failed on the way.
set -euo pipefail
peers=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$peers/../.." && pwd)
rounds=7 steps=12 work=$root/build/llmc llmc=''
fail() { echo "llmc.sh: $*" >&2; exit 70; }
while [ $# -gt 0 ]; do
  case $1 in
    -h|--help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --rounds|--steps|--work|--llmc)
      [ -n "${2:-}" ] || { echo "llmc.sh: $1 needs a value" >&2; exit 42; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) echo "llmc.sh: unknown option '$1'; --help lists them" >&2; exit 42 ;;
  esac
done
mkdir -p "$work/run"
if [ -z "$llmc" ]; then
  llmc=$work/llm.c
  [ -d "$llmc" ] || git clone -q --depth 1 https://github.com/karpathy/llm.c "$llmc" || fail "cannot clone llm.c"
fi
[ -e "$work/run/gpt2_124M.bin" ] || python3 "$peers/llmc/made.py" "$work/run"
patch -s -o "$work/train_gpt2.c" "$llmc/train_gpt2.c" "$peers/llmc/train_gpt2.diff" || fail "train_gpt2.diff does not fit"
echo "train_gpt2.c: $(grep -c '^+[^+]' "$peers/llmc/train_gpt2.diff") new or changed lines"
sed -i "s|step <= 40|step < $steps|; s|^ *exchange_end();|    trial_dump(model.params_memory, model.num_parameters, exchange_rank());\n&|; 1i #include \"trial.h\"" "$work/train_gpt2.c"
. "$root/launchers/toolchain.sh"
cmake -S "$peers/llmc" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DLLMC="$llmc" -DSOURCE="$work/train_gpt2.c" >"$work/configured" ||
  fail "cmake; see $work/configured"
cmake --build "$work/build" -j "$jobs" >"$work/built" || { tail -n 30 "$work/built" >&2; fail "the build"; }

cd "$work/run"
export OMP_NUM_THREADS=1
# trial VARIANT RANKS: prints the median of rank 0's steps, in ms
trial() {
  "$root/launchers/mpirun.sh" --oversubscribe --tag-output -n "$2" ${TRIAL_DUMP:+-x TRIAL_DUMP} "$work/build/train_gpt2.$1" >"$work/out" 2>"$work/err" ||
    { tail -n 5 "$work/err" >&2; fail "train_gpt2.$1 on $2 ranks"; }
  sed -n 's/^\[1,0\].*(took \([0-9.]*\) ms)/\1/p' "$work/out" | tail -n +3 | sort -n | awk '{all[NR] = $1} END {print all[int((NR + 1) / 2)]}'
}
different=0
for ranks in 1 2 4; do
  rm -f "$work"/dump.*
  TRIAL_DUMP=$work/dump.weft trial weft "$ranks" >/dev/null
  REFERENCE_RANKS=$ranks TRIAL_DUMP=$work/dump.reference "$work/build/train_gpt2.reference" >"$work/out" || fail "the reference"
  same=0
  for ((rank = 0; rank < ranks; ++rank)); do
    if [ -s "$work/dump.weft.$rank" ] && cmp -s "$work/dump.weft.$rank" "$work/dump.reference.0"; then same=$((same + 1)); fi
  done
  echo "on $ranks: parameters of $same of $ranks ranks are those of one process, after $steps steps"
  [ "$same" = "$ranks" ] || different=1
done
variants=(none meet weft by_mpi)
: >"$work/times"
for ((round = 0; round < rounds; ++round)); do
  for ((i = 0; i < 4; ++i)); do
    variant=${variants[(i + round) % 4]}
    echo "$round $variant $(trial "$variant" 2)" >>"$work/times"
  done
done
python3 - "$work/times" <<'PYTHON'
import collections, statistics, sys
rows = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    number, variant, ms = line.split()
    rows[number][variant] = float(ms)
print(f"on 2: {statistics.median(row['none'] for row in rows.values()):.1f} ms a step without exchange", end="")
for variant in ("meet", "weft", "by_mpi"):
    ratios = [row[variant] / row["none"] for row in rows.values()]
    print(f"; {variant} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", end="")
print()
PYTHON
exit $different
