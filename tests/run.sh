#!/usr/bin/env bash
# Installs what is missing, builds the tests as users build weft, and runs them.
#   tests/run.sh                dev: every test, as users build weft
#   tests/run.sh all            also in each configuration that can fail it (CONTRIBUTING.md, "Tests"): dev, asan (address and undefined-behaviour
#                               sanitizers), tsan (thread sanitizer), recorded (accesses of kernels), minimal (nothing but a compiler)
#   tests/run.sh PRESET...      these; asan-all: every test under the first two sanitizers
# It says how far it is while it builds and tests (on a terminal in one line, otherwise every 30 s), and at the end how long each phase took.
set -euo pipefail
cd "$(dirname "$0")/.."

presets=()
for preset in "${@:-dev}"; do
  case $preset in
    all) presets+=(dev asan tsan recorded minimal) ;;
    dev | asan | asan-all | tsan | recorded | minimal) presets+=("$preset") ;;
    -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p;}' "$0"; exit ;;
    *) echo "run.sh: $preset is none of all, dev, asan, asan-all, tsan, recorded, minimal; --help says more" >&2; exit 42 ;;
  esac
done

begin=$SECONDS
launchers/setup.sh test
. launchers/openblas.sh
. launchers/toolchain.sh
mkdir -p build
computing=$jobs
waiting=3  # for a deadline, a death or another process
tests/places.sh "$computing" "$waiting" build/places.json
phases="installed in $((SECONDS - begin)) s"
passed=0
failed=0
left_out=0

# While one preset is tested the next is built, with what the tests leave of the processors: they wait a good deal.
idle=(nice -n 19)
if chrt --idle 0 true 2>/dev/null; then idle=(chrt --idle 0); fi
configure_and_build() { "$@" cmake --preset "$preset" && "$@" cmake --build --preset "$preset" -j "$jobs"; }
ahead=
watcher=
trap 'if [ -n "$ahead" ]; then kill -TERM -- "-$ahead" 2>/dev/null; fi; unwatched' EXIT

# How far LOG is: "dev: built 120 of 448, 95 s", from the last "[120/448]" of Ninja or "[ 27%]" of make, or "120/448 Test" of ctest.
progress() {
  local what=$1 pattern=$2 log=$3 start=$SECONDS every=30 reached
  if [ -t 1 ]; then every=1; fi
  while sleep $every >/dev/null 2>&1; do  # ended in its sleep, that keeps no pipe open
    reached=$(tail -c 20000 "$log" 2>/dev/null | grep -aoE "$pattern" | tail -n 1 | grep -oE '[0-9]+(/[0-9]+|%)' | sed 's|/| of |') || true
    reached="$what ${reached:-nothing yet}, $((SECONDS - start)) s"
    if [ -t 1 ]; then printf '\r%s\033[K' "$reached"; else echo "$reached"; fi
  done
}
watch_build() { progress "$preset: built" '^\[ *[0-9]+(/[0-9]+|%)\]' "$log" & watcher=$!; }
watch_tests() { progress "$preset: tested" '^ *[0-9]+/[0-9]+ Test' "$log" & watcher=$!; }
unwatched() {
  [ -n "$watcher" ] || return 0
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  watcher=
  if [ -t 1 ]; then printf '\r\033[K'; fi
}

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
  watch_build
  if [ -n "$ahead" ]; then wait "$ahead" || good=$?; else configure_and_build env >"$log" 2>&1 || good=$?; fi
  ahead=
  unwatched
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
  watch_tests
  ctest --preset "$preset" -j $((computing + waiting)) --resource-spec-file "$PWD/build/places.json" >>"$log" 2>&1 || true
  unwatched
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
