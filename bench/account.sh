#!/usr/bin/env bash
# Whether the account of a step says the same with an inline wire as with a thread that carries it: the seconds in which the link was busy, over six
# trainings on two ranks, in turns; and that no overlap is longer than these seconds.
#   bench/account.sh [--rounds K] [--steps S] [--programs DIR]
#     --rounds K       rounds (5): in each, every training runs once with either wire
#     --steps S        steps of a training (20)
#     --programs DIR   where weft-scaling is (build/release/bin)
# Needs Open MPI. Exit status: 0 done, 1 an overlap is longer than the link was busy, 42 wrong usage, 70 when something failed on the way.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
rounds=5 steps=20 programs=$root/build/release/bin
while [ $# -gt 0 ]; do
  case $1 in
    -h|--help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --rounds|--steps|--programs)
      [ -n "${2:-}" ] || { echo "account.sh: $1 needs a value" >&2; exit 42; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) echo "account.sh: unknown option '$1'; --help lists them" >&2; exit 42 ;;
  esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OPENBLAS_NUM_THREADS=1 WEFT_PROGRESS
for ((round = 0; round < rounds; ++round)); do
  for model in gpt-ref mlp-8x1024 gpt-tiny; do
    wires=(inline thread)
    if [ $((round % 2)) -eq 1 ]; then wires=(thread inline); fi
    for WEFT_PROGRESS in "${wires[@]}"; do
      "$root/launchers/mpirun.sh" -n 2 -x WEFT_PROGRESS -x OPENBLAS_NUM_THREADS "$programs/weft-scaling" --model "$model" --strategies ddp,ddp+fp16 \
        --bucket-bytes 1048576 --steps "$steps" -q --json "$work/$round.$model.$WEFT_PROGRESS.json" >"$work/out" 2>&1 ||
        { tail -n 5 "$work/out" >&2; echo "account.sh: $model failed" >&2; exit 70; }
    done
  done
done
python3 - "$work" <<'PYTHON'
import collections, json, pathlib, statistics, sys
seen = collections.defaultdict(dict)
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    number, model, wire, _ = file.name.split(".")
    for run in json.loads(file.read_text())["runs"]:
        seen[model, run["strategy"]][number, wire] = run
too_long = 0
for (model, strategy), runs in seen.items():
    ratios = []
    for number in sorted({number for number, _ in runs}):
        ratios.append(runs[number, "inline"]["link_busy_seconds"] / runs[number, "thread"]["link_busy_seconds"])
    busy = statistics.median(run["link_busy_seconds"] for (_, wire), run in runs.items() if wire == "thread") * 1e3
    over = sum(run["overlap_seconds"] > run["link_busy_seconds"] for run in runs.values())
    too_long += over
    print(f"{model} {strategy}: the link is busy for {busy:.2f} ms of a step with a thread, inline {statistics.median(ratios):.3f} of that "
          f"({min(ratios):.3f} to {max(ratios):.3f}); {over} of {len(runs)} runs have more overlap than that")
sys.exit(too_long > 0)
PYTHON
