#!/usr/bin/env bash
# Installs what is missing, builds and runs every test, each in the configuration that can fail it (CONTRIBUTING.md, "Tests"): as
# users build it, under the address and undefined-behaviour sanitizers, under the thread sanitizer, with the accesses of kernels recorded, and
# with nothing but a compiler.
#   tests/run.sh [PRESET...]     default: dev asan tsan recorded minimal; asan-all: every test under the first two sanitizers
# How long each phase took is printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

for preset in "$@"; do
  case $preset in
    dev | asan | asan-all | tsan | recorded | minimal) ;;
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p;}' "$0"; exit ;;
    *) echo "run.sh: $preset is none of dev, asan, asan-all, tsan, recorded, minimal; --help says more" >&2; exit 42 ;;
  esac
done

begin=$SECONDS
launchers/setup.sh test
. launchers/openblas.sh
. launchers/toolchain.sh
presets=("${@:-}")
if [ -z "${presets[0]}" ]; then presets=(dev asan tsan recorded minimal); fi
mkdir -p build
phases="installed in $((SECONDS - begin)) s"
passed=0
failed=0
left_out=0

# While one preset is tested the next is built, with what the tests leave of the processors: they wait a good deal.
idle=(nice -n 19)
if chrt --idle 0 true 2>/dev/null; then idle=(chrt --idle 0); fi
configure_and_build() { "$@" cmake --preset "$preset" && "$@" cmake --build --preset "$preset" -j "$jobs"; }
ahead=
trap 'if [ -n "$ahead" ]; then kill -TERM -- "-$ahead" 2>/dev/null; fi' EXIT
build_ahead() {
  local preset=$1
  set -m  # a process group of its own, so that what ends this script ends all of it
  configure_and_build "${idle[@]}" >"build/tests-$preset.log" 2>&1 &
  set +m
  ahead=$!
}
for ((i = 0; i < ${#presets[@]}; ++i)); do
  preset=${presets[i]}
  log=build/tests-$preset.log
  start=$SECONDS
  echo "$preset: building, $jobs at a time"
  good=0
  if [ -n "$ahead" ]; then wait "$ahead" || good=$?; else configure_and_build env >"$log" 2>&1 || good=$?; fi
  ahead=
  if [ $good -ne 0 ]; then
    grep -E 'error:|FAILED:' "$log" | head -n 20
    tail -n 40 "$log"
    echo "run.sh: $preset does not build; all of it is in $log" >&2
    exit 1
  fi
  sed -n '/^-- weft /,/^$/p' "$log"
  built=$SECONDS
  if [ $((i + 1)) -lt ${#presets[@]} ]; then build_ahead "${presets[i + 1]}"; fi
  echo "$preset: testing"
  # One more than there are cores: some wait, for a deadline or a process.
  ctest --preset "$preset" -j $((jobs + 1)) >>"$log" 2>&1 || true
  summary=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1) || true
  if [ -z "$summary" ]; then
    tail -n 40 "$log"
    echo "run.sh: $preset ran no test; all of it is in $log" >&2
    exit 1
  fi
  total=${summary##* }
  bad=$(echo "$summary" | sed -E 's/.*passed, ([0-9]+) tests? failed.*/\1/')
  if [ "$bad" -gt 0 ]; then
    grep -E '\*\*\*(Failed|Timeout|Exception)' -A 60 "$log" | grep -vE '^( +Start|[0-9]+/[0-9]+ Test.* Passed )' | head -n 300
    sed -n '/The following tests FAILED/,$p' "$log"
  fi
  tests/skipped.sh "$log" "build/$preset" >"build/skipped-$preset.txt"
  skipped=$(wc -l <"build/skipped-$preset.txt")
  sed "s/^/$preset: not run here: /" "build/skipped-$preset.txt"
  echo "$preset: $((total - bad - skipped)) of $total tests passed; waited $((built - start)) s for its build, tested in $((SECONDS - built)) s"
  phases+=", $preset: build $((built - start)) s, tests $((SECONDS - built)) s"
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
  left_out=$((left_out + skipped))
done
echo
echo "run.sh: $phases"
echo "$passed passed, $failed failed, $left_out skipped"
if [ "$failed" -gt 0 ]; then
  echo "run.sh: tests failed; run one again with: ctest --preset PRESET -R NAME --output-on-failure"
  exit 1
fi
echo "run.sh: $passed tests passed, all that can run here, in $((SECONDS - begin)) s. Next: launchers/quickstart.sh"
