#!/usr/bin/env bash
# Builds weft in each way that users may: every preset, every option on and off, every compiler of GCC 12 to 14 and clang 14 to 19 that is
# installed, tests without precompiled headers, and each source alone. Names each build that fails or warns.
#   tests/builds.sh             all that this machine can, one after the other
#   tests/builds.sh --list      what there is, and why a build is left out here
#   tests/builds.sh NAME...     these: tests/builds.sh release WEFT_MPI=OFF g++-12 alone
# SOURCE=FOLDER builds another checkout. Logs are in build/builds; what was built is removed.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
source=$(realpath "${SOURCE:-$here}")
cd "$here" || exit 70
. launchers/toolchain.sh

names=()
declare -A arguments reasons
build() { names+=("$1"); arguments[$1]=$2; }
left_out() { names+=("$1"); reasons[$1]=$2; }

# Optimized as the preset says: some warnings need that. What only asks whether it compiles is not optimized.
quick="--preset release -DWEFT_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0"
with_tests="-DWEFT_TESTS=ON -DWEFT_BENCH=ON -DWEFT_PCH=OFF"

# shellcheck disable=SC2013
for preset in $(sed -nE 's/.*\{"name": "([a-z0-9-]+)", .*("inherits"|"displayName").*/\1/p' "$source/CMakePresets.json" | grep -vx base | sort -u); do
  case $preset in
    cuda) command -v nvcc >/dev/null || { left_out cuda "there is no nvcc"; continue; } ;;
    fuzz) command -v clang++ >/dev/null || { left_out fuzz "there is no clang++ (launchers/setup.sh fuzz)"; continue; } ;;
    arm64) command -v aarch64-linux-gnu-g++ >/dev/null || { left_out arm64 "there is no compiler for it (launchers/setup.sh arm64)"; continue; } ;;
  esac
  build "$preset" "--preset $preset"
done
options=$(sed -nE 's/^weft_option\((WEFT_[A-Z_]+) .*/\1/p' "$source"/cmake/*.cmake | grep -vx -e WEFT_TORCH_CUDA -e WEFT_TESTS -e WEFT_BENCH)
nothing=
for option in $options WEFT_SHARED; do
  build "$option=OFF" "$quick -D$option=OFF"
  nothing+=" -D$option=OFF"
done
build WEFT_UNITY=0 "$quick -DWEFT_UNITY=0"
# What a compiler alone has; and with tests and benches, as on a machine that has everything.
build nothing "$quick $nothing"
build tests "--preset release $with_tests"
build alone "$quick $with_tests -DWEFT_UNITY=0"
for compiler in g++-12 g++-13 g++-14 clang++-14 clang++-15 clang++-16 clang++-17 clang++-18 clang++-19; do
  if command -v $compiler >/dev/null; then build $compiler "$quick $with_tests -DCMAKE_CXX_COMPILER=$compiler"
  else left_out $compiler "it is not installed"; fi
done

case ${1:-} in
  -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p;}' "$0"; exit ;;
  --list) for name in "${names[@]}"; do echo "$name${reasons[$name]:+: not here: ${reasons[$name]}}"; done; exit ;;
esac
for name in "$@"; do
  [ -n "${arguments[$name]:-}${reasons[$name]:-}" ] || { echo "builds.sh: there is no build called $name; --list names all" >&2; exit 42; }
done
[ $# -gt 0 ] || set -- "${names[@]}"

bad=0
good=0
out=0
mkdir -p build/builds
for name in "$@"; do
  if [ -n "${reasons[$name]:-}" ]; then
    echo "$name: not built: ${reasons[$name]}"
    out=$((out + 1))
    continue
  fi
  folder=$here/build/builds/${name//[^A-Za-z0-9+-]/_}
  log=$folder.log
  start=$SECONDS
  status=0
  # The rest of the words is one argument each: none has a space.
  # shellcheck disable=SC2086
  (cd "$source" && cmake ${arguments[$name]} -B "$folder" && cmake --build "$folder" -j "$jobs" -- -k 0) >"$log" 2>&1 || status=$?
  warnings=$(grep -cE '(^|[^_-])warning:|^CMake (Deprecation )?Warning' "$log")
  if [ $status -ne 0 ] || [ "$warnings" -gt 0 ]; then
    echo "$name: FAILED: status $status, $warnings warnings; all of it is in ${log#"$here/"}"
    grep -E 'error:|(^|[^_-])warning:|^CMake (Error|Warning)' "$log" | sed "s|$source/||" | sort -u | head -n 20 | sed 's/^/    /'
    bad=$((bad + 1))
  else
    echo "$name: builds, without a warning, in $((SECONDS - start)) s"
    good=$((good + 1))
  fi
  rm -rf "$folder"
done
echo "$good build, $bad do not, $out left out"
[ $bad -eq 0 ]
