#!/usr/bin/env bash
# pytorch/examples' C++ mnist, dcgan, dist-mnist and regression on weft, by the diffs in libtorch_examples/: whether the parameters are
# those of one process, bit by bit, and what a step costs beside no exchange, beside ranks that only meet (a barrier after backward), and
# beside all_reduce by hand over MPI and gloo.
#   bench/peers/libtorch_examples.sh [--rounds K] [--steps S] [--work DIR] [--examples DIR] [--argparse DIR] [--torch PREFIX] [--python PYTHON]
#                                    [--only NAME]
#     --rounds K      rounds on two ranks (9): in each, every variant of a program runs once, in another order
#     --steps S       training steps of a run (60); the first fifth is not timed
#     --work DIR      where sources, builds and data are kept (build/libtorch_examples)
#     --examples DIR  a clone of github.com/pytorch/examples; else it is cloned. --argparse DIR: the same of github.com/p-ranav/argparse
#     --torch PREFIX  CMAKE_PREFIX_PATH of a LibTorch; else the system's (Debian's libtorch-dev)
#     --only NAME     this of mnist, dcgan, dist-mnist and regression alone
#     --python PYTHON has numpy and pip, to get MNIST (python3)
# Needs Open MPI. gloo is measured where its headers are (Debian's libgloo-dev, for Debian's LibTorch alone).
# Exit status: 0 done, 1 parameters differ, 42 wrong usage, 70 when something failed on the way.
set -euo pipefail
peers=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$peers/../.." && pwd)
own=$peers/libtorch_examples
rounds=9 steps=60 work=$root/build/libtorch_examples examples='' argparse='' torch='' python=python3 only=''
fail() { echo "libtorch_examples.sh: $*" >&2; exit 70; }
while [ $# -gt 0 ]; do
  case $1 in
    -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --rounds|--steps|--work|--examples|--argparse|--torch|--python|--only)
      [ -n "${2:-}" ] || { echo "libtorch_examples.sh: $1 needs a value" >&2; exit 42; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) echo "libtorch_examples.sh: unknown option '$1'; --help lists them" >&2; exit 42 ;;
  esac
done
declare -A folder=([mnist]=mnist [dcgan]=dcgan [dist-mnist]=distributed [regression]=regression)
names=(mnist dcgan dist-mnist regression)
if [ -n "$only" ]; then
  [ -n "${folder[$only]:-}" ] || { echo "libtorch_examples.sh: there is no '$only'; --help lists them" >&2; exit 42; }
  names=("$only")
fi
mkdir -p "$work/sources" "$work/run"
clone() { [ -d "$2" ] || git clone -q --depth 1 "https://github.com/$1" "$2" || fail "cannot clone $1"; }
[ -n "$examples" ] || { examples=$work/examples; clone pytorch/examples "$examples"; }
[ -n "$argparse" ] || { argparse=$work/argparse; clone p-ranav/argparse "$argparse"; }
[ -e "$work/data/train-images-idx3-ubyte" ] || "$python" "$own/mnist.py" "$work/data" || fail "cannot get MNIST"
ln -sfn "$work/data" "$work/run/data"

# The diff, then the end of a trial behind the program's step.
declare -A step=([mnist]='optimizer\.step' [dcgan]='generator_optimizer\.step' [dist-mnist]='optimizer\.step' [regression]='optim\.step')
declare -A modules=([mnist]=model [dcgan]='*generator, *discriminator' [dist-mnist]='*model' [regression]='*fc')
for name in "${names[@]}"; do
  patch -s -o "$work/sources/$name.cpp.new" "$examples/cpp/${folder[$name]}/$name.cpp" "$own/$name.diff" || fail "$name.diff does not fit"
  sed -i "s|^\( *\)${step[$name]}();|&\n\1trial::stepped(${modules[$name]});|; 1i #include \"trial.hpp\"" "$work/sources/$name.cpp.new"
  cmp -s "$work/sources/$name.cpp.new" "$work/sources/$name.cpp" || cp "$work/sources/$name.cpp.new" "$work/sources/$name.cpp"
  echo "$name: $(grep -c '^+[^+]' "$own/$name.diff") new or changed lines, $(grep -c '^-[^-]' "$own/$name.diff") old ones gone or changed"
done
. "$root/launchers/toolchain.sh"
cmake -S "$own" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DSOURCES="$work/sources" -DARGPARSE="$argparse/include" \
  ${torch:+-DCMAKE_PREFIX_PATH="$torch"} >"$work/configured" || fail "cmake; see $work/configured"
grep -h 'weft::torch for' "$work/configured" || true
cmake --build "$work/build" -j "$jobs" >"$work/built" || { tail -n 30 "$work/built" >&2; fail "the build"; }

cd "$work/run"
export OMP_NUM_THREADS=1 TRIAL_STEPS=$steps
runs=0
# trial NAME VARIANT RANKS: prints the median of its steps
trial() {
  local program=$1.beside
  if [ "$2" = weft ]; then program=$1.weft; fi
  runs=$((runs + 1))
  rm -rf "$work/ranks"
  # A file for each rank: what two of them print on one pipe mixes within a line.
  TRIAL_EXCHANGE=$2 TRIAL_STORE=$work/store-$$-$RANDOM-$runs- "$root/launchers/mpirun.sh" --oversubscribe --output-filename "$work/ranks" -n "$3" -x OMP_NUM_THREADS -x TRIAL_STEPS -x TRIAL_STORE -x TRIAL_EXCHANGE \
    ${TRIAL_DUMP:+-x TRIAL_DUMP} "$work/build/$program" >"$work/out" 2>"$work/err" || { tail -n 5 "$work/err" >&2; fail "$1.$2 on $3 ranks"; }
  awk '/^median/ {print $2}' "$work"/ranks/*/rank.0/stdout
}
different=0
for name in "${names[@]}"; do
  for ranks in 1 2 4; do
    rm -f "$work"/dump.*
    TRIAL_DUMP=$work/dump.weft trial "$name" weft "$ranks" >/dev/null
    REFERENCE_RANKS=$ranks TRIAL_DUMP=$work/dump.reference "$work/build/$name.reference" >"$work/out" 2>"$work/err" ||
      { tail -n 5 "$work/err" >&2; fail "$name.reference"; }
    same=0
    for ((rank = 0; rank < ranks; ++rank)); do
      if [ -s "$work/dump.weft.$rank" ] && cmp -s "$work/dump.weft.$rank" "$work/dump.reference.0"; then same=$((same + 1)); fi
    done
    echo "$name on $ranks: parameters of $same of $ranks ranks are those of one process, after $steps steps"
    [ "$same" = "$ranks" ] || different=1
  done
done
variants=(none meet weft mpi)
! grep -q '^GLOO_INCLUDE:PATH=/' "$work/build/CMakeCache.txt" || variants+=(gloo)
for name in "${names[@]}"; do
  : >"$work/times"
  for ((round = 0; round < rounds; ++round)); do
    for i in "${!variants[@]}"; do
      turn=$((i + round))
      variant=${variants[turn % ${#variants[@]}]}
      echo "$round $variant $(trial "$name" "$variant" 2)" >>"$work/times"
    done
  done
  "$python" - "$name" "$work/times" <<'PYTHON'
import collections, statistics, sys
rows = collections.defaultdict(dict)
for line in open(sys.argv[2]):
    number, variant, seconds = line.split()
    rows[number][variant] = float(seconds)
print(f"{sys.argv[1]} on 2: {statistics.median(row['none'] for row in rows.values()) * 1e3:.3f} ms a step without exchange", end="")
for variant in ("meet", "weft", "mpi", "gloo"):
    ratios = [row[variant] / row["none"] for row in rows.values() if variant in row]
    if ratios:
        print(f"; {variant} {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", end="")
print()
PYTHON
done
exit $different
