#!/usr/bin/env bash
# Builds and runs everything that needs a CUDA card, on a machine with CUDA, NCCL, CMake and Ninja and nothing else of
# what weft can use. Several ranks share one card: a process each, over NCCL's sockets on loopback.
#   tests/gpu.sh --pack     gathers into gpu-pack/ what such a machine lacks: GoogleTest's sources, from Debian's package, and a text
#   tests/gpu.sh --build    builds only, as it would there
#   tests/gpu.sh            builds and runs; a line a suite, and JSON in ${OUT:-build/gpu}/gpu.json
# Without a card it says so, counts the tests as skipped and ends with 0.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=build/gpu/bin
out=${OUT:-build/gpu}
begin=$SECONDS
ranks_tried=(1 2 3 4 8)

pack() {
  local sources=/usr/src/googletest
  [ -d "$sources" ] || { echo "gpu.sh: $sources is missing: install the package googletest" >&2; exit 1; }
  rm -rf gpu-pack && mkdir -p gpu-pack/text && cp -r "$sources" gpu-pack/googletest
  find /usr/share/common-licenses -maxdepth 1 -type f -exec cp {} gpu-pack/text \;
  echo "gpu.sh: packed $(du -sm gpu-pack | cut -f1) MB into gpu-pack/"
}

build() {
  local capability=${1:-90} sources=$PWD/gpu-pack/googletest
  [ -d "$sources" ] || sources=  # then GoogleTest is installed, or configuring says that it is not
  mkdir -p build/gpu
  { cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWEFT_WARNINGS_AS_ERRORS=ON -DWEFT_CUDA=ON -DWEFT_TESTS=ON \
      -DWEFT_MPI=OFF -DWEFT_BOOST=OFF -DWEFT_TOOLS=OFF -DWEFT_BENCH=OFF -DWEFT_SIMD=OFF \
      -DWEFT_CUDA_ARCHITECTURES="$capability" -DWEFT_GOOGLETEST_SOURCE="$sources" &&
    cmake --build build/gpu --target core_test collectives_test gradient_test compression_test zero_test \
      conformance_processes gpu_kernels_test gpu_low_rank_test gpu_fused_step_test gpu_math_test gpu_train gpu_victim gpu_figures gpu_low_rank_figures
  } > build/gpu/build.log 2>&1 || { tail -n 40 build/gpu/build.log; echo "gpu.sh: does not build; all of it is in build/gpu/build.log" >&2; exit 1; }
}

# run_ranks N PROGRAM...: a process a rank. The last line of each rank's output, its status and when it ended: $work/R.*
run_ranks() {
  local ranks=$1 rank
  shift
  rm -rf "$work"/*
  for ((rank = 0; rank < ranks; rank++)); do
    (WEFT_RANK=$rank WEFT_SIZE=$ranks WEFT_LOCAL_RANK=$rank WEFT_RENDEZVOUS=file://$work/meet WEFT_DEVICE=${device:-cuda} WEFT_SHARE_DEVICE=1 \
      timeout -k 5 "${limit:-120}" "$@" > "$work/$rank.out" 2>&1
      echo $? > "$work/$rank.status"
      date +%s.%N > "$work/$rank.end") &
  done
  wait
}

all_ended_well() {
  local rank
  for ((rank = 0; rank < $1; rank++)); do
    [ "$(cat "$work/$rank.status")" = 0 ] || { tail -n 25 "$work/$rank.out"; return 1; }
  done
}

conformance() {
  run_ranks "$1" $bin/conformance_processes nccl
  all_ended_well "$1" && grep -E '^\[  PASSED  \]' "$work/0.out"
}

# The others end within 5 s of the one that was killed, with status 75 and its name.
killed_rank() {
  run_ranks 3 $bin/gpu_victim
  local rank late
  for rank in 0 1; do
    grep -q 'rank 2' "$work/$rank.out" && [ "$(cat "$work/$rank.status")" = 75 ] || { cat "$work/$rank.out" "$work/$rank.status"; return 1; }
    late=$(awk -v a="$(cat "$work/$rank.end")" -v b="$(cat "$work/2.end")" 'BEGIN {printf "%.3f", a - b}')
    echo "rank $rank ended $late s after rank 2: $(tail -n 1 "$work/$rank.out")"
    awk "BEGIN { exit !($late < 5) }" || return 1
  done
}

# train DEVICE STEPS [TRACE]: the line of JSON of gpt-ref on 2 ranks
train() {
  local text=gpu-pack/text
  [ -d $text ] || text=/usr/share/common-licenses
  device=$1 limit=200 run_ranks 2 $bin/gpu_train $text "$2" ${3:+"$3"}
  all_ended_well 2 >&2 && cat "$work/0.out"
}

losses() { grep -oE '"losses": \[[^]]*' | grep -oE '[0-9]+\.[0-9e+-]+'; }

# gpt-ref learns on the card as on the host (10 steps there: without a BLAS they are slow), and twice the same bits.
training() {
  local card again host
  card=$(train cuda 40) && again=$(train cuda 40 "$out/trace.json") && host=$(train host 10) || return 1
  echo "$card" > "$work.train"
  echo "$host" >> "$work.train"
  [ "$(echo "$card" | grep -o '"hash.*')" = "$(echo "$again" | grep -o '"hash.*')" ] || { echo "two runs differ: $card $again"; return 1; }
  paste <(echo "$card" | losses | head -n 10) <(echo "$host" | losses) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { print "losses differ from the host'"'"'s by at most " worst; exit !(NR == 10 && worst < 1e-3) }'
}

sanitized() {
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) || { echo "no compute-sanitizer here"; return 77; }
  "$tool" --error-exitcode 1 $bin/gpu_kernels_test --gtest_filter='*Twin:*Wait*' | tail -n 3 || return 1
  "$tool" --error-exitcode 1 $bin/gpu_low_rank_test --gtest_filter='-*Large*' | tail -n 3
}

# The hook's step alone: bench/peers/torch_powersgd.py runs it beside PyTorch's, where there is a PyTorch.
figures() {
  WEFT_DEVICE=cuda $bin/gpu_figures > "$work/figures" && $bin/gpu_low_rank_figures >> "$work/figures" &&
    WEFT_DEVICE=cuda $bin/gpu_low_rank_figures powersgd 4 48 >> "$work/figures"
  local status=$?
  cat "$work/figures"
  return $status
}

# suite NAME COMMAND...: a line, and an entry of the JSON
suite() {
  local name=$1 start=$SECONDS status state
  shift
  "$@" > "$work.log" 2>&1
  status=$?
  state=passed
  [ $status -eq 77 ] && state=skipped && skipped=$((skipped + 1))
  [ $status -ne 0 ] && [ $status -ne 77 ] && state=failed && failed=$((failed + 1))
  printf '%-18s %-8s %4d s  %s\n' "$name" "$state" $((SECONDS - start)) "$(tail -n 1 "$work.log" | cut -c1-150)"
  [ $state = failed ] && sed 's/^/    | /' "$work.log" | tail -n 30
  entries="$entries${entries:+, }{\"suite\": \"$name\", \"state\": \"$state\", \"seconds\": $((SECONDS - start))}"
}

case ${1:-} in
  --pack) pack; exit ;;
  --build) build; echo "gpu.sh: built in $((SECONDS - begin)) s"; exit ;;
  '') ;;
  *) echo "gpu.sh: $1 is neither --pack nor --build" >&2; exit 42 ;;
esac

card=
if command -v nvidia-smi >/dev/null; then card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1); fi
mkdir -p "$out"
if [ -z "$card" ]; then
  tests=$(($(cat tests/gpu/*.cpp | grep -c '^TEST') + $(grep -c '^TEST' tests/conformance/collectives_test.cpp) * ${#ranks_tried[@]} + 3))
  echo "gpu.sh: no GPU here: $tests tests skipped"
  echo "{\"card\": null, \"skipped\": $tests, \"suites\": [], \"figures\": []}" > "$out/gpu.json"
  exit 0
fi

export NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0
export NCCL_MAX_CTAS=2 NCCL_BUFFSIZE=1048576 NCCL_PXN_DISABLE=1
work=$(mktemp -d)
trap 'rm -rf "$work" "$work.log" "$work.train"' EXIT
failed=0 skipped=0 entries=
echo "gpu.sh: building for $card"
build "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)"
echo "gpu.sh: built in $((SECONDS - begin)) s"
suite kernels $bin/gpu_kernels_test
suite "low rank" $bin/gpu_low_rank_test
suite "fused step" $bin/gpu_fused_step_test
suite fakes $bin/collectives_test --gtest_filter='Nccl*:Device*:Places.*'
suite reducer $bin/gradient_test --gtest_filter='*OnDevice*'
suite powersgd $bin/compression_test --gtest_filter='*OnDevice*'
suite optimizers $bin/zero_test --gtest_filter='*OnDevice*'
suite models $bin/gpu_math_test
for ranks in "${ranks_tried[@]}"; do suite "conformance $ranks" conformance "$ranks"; done
suite "killed rank" killed_rank
suite training training
suite figures figures
lines=$(cat "$work.train" "$work/figures" 2> /dev/null | paste -sd,)
suite sanitizer sanitized
printf '{"card": "%s", "date": "%s", "seconds": %d, "suites": [%s], "figures": [%s]}\n' "$card" "$(date +%F)" $((SECONDS - begin)) \
  "$entries" "$lines" > "$out/gpu.json"
echo "gpu.sh: $failed failed, $skipped skipped, in $((SECONDS - begin)) s; figures are in $out/gpu.json"
[ $failed -eq 0 ]
