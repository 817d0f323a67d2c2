#!/usr/bin/env bash
# Builds and runs everything that needs a GPU, on a machine with CUDA, CMake and Ninja; NCCL and cuBLAS may lie in Python's packages.
# Several ranks share one GPU: a process each, over NCCL's sockets on loopback.
#   tests/gpu.sh                    builds, and runs all suites; a line each
#   tests/gpu.sh --list             the suites, in the order of what they tell
#   tests/gpu.sh --suites A,B       these alone
#   tests/gpu.sh --minutes N        for all together, the build included (9): a suite that does not fit any more is "not run"
#   tests/gpu.sh --at-a-time N      so many suites at a time (1), but for those that measure, which run alone
#   tests/gpu.sh --build            builds only
#   tests/gpu.sh --built            builds no more than torch.distributed's backend, where the suite torch is asked for
#   tests/gpu.sh --dry              the same suites without a GPU: kernels are emulated, NCCL is a fake whose ranks are processes
#                                   (tests/emulation, tests/fake_nccl), the model is small. It says whether suites run, and keeps no figure
#   tests/gpu.sh --pack             gathers into gpu-pack/ and gpu-pack.tar.xz what such a machine lacks: GoogleTest's sources, from Debian's package, a
#                                   text, and the programs, linked with Boost and OpenBLAS in them (for this machine's glibc and newer; compute
#                                   capability 9.0), which --built takes from there; needs nvcc
# In ${OUT:-build/gpu}, or build/gpu-dry: gpu.jsonl, a line for the machine, for each suite when it ends and for each figure; gpu.log, what suites and all of
# their ranks said; build.log; machine.txt, what nvidia-smi says of the GPU. Kept under bench/results/raw/DATE-GPU they are what figures are taken from.
# It ends with 0 if every suite asked for has passed: one that was not run has not.
# Without a GPU it says so, counts the suites as skipped and ends with 0.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
begin=$SECONDS
minutes=9
dry=0
only_build=0
at_a_time=1
read -ra suites <<< "driver-waits kernels low-rank fused-step codecs conformance-2 deadline-one deadline-load deadline-full abort abort-load pipelines windows captures \
bandwidth codec-figures powersgd-figures powersgd-torch memory driver-costs overhead issue torch-costs torch torch-suite train-ddp train-zero1 train-zero2 \
train-zero3 train-offload train-powersgd train-pipeline killed-rank pipeline-ways tuner scaling conformance-1 conformance-3 models conformance-4 sanitizer conformance-8"
chosen=("${suites[@]}")
alone=" driver-waits bandwidth codec-figures powersgd-figures powersgd-torch memory driver-costs overhead issue torch-costs "  # they measure
after_build=" driver-costs overhead issue torch-costs torch torch-suite "  # they measure the host's time, or need torch.distributed's backend

usage() { echo "gpu.sh: $1" >&2; exit 42; }

pack() {
  local sources=/usr/src/googletest
  [ -d "$sources" ] || { echo "gpu.sh: $sources is missing: install the package googletest" >&2; exit 1; }
  rm -rf gpu-pack gpu-pack.tar.xz && mkdir -p gpu-pack/text && cp -r "$sources" gpu-pack/googletest
  find /usr/share/common-licenses -maxdepth 1 -type f -exec cp {} gpu-pack/text \;
  pack_programs > gpu-pack/build.log 2>&1 || { tail -n 5 gpu-pack/build.log; echo "gpu.sh: not all of it builds here: gpu-pack/build.log" >&2; exit 1; }
  git rev-parse HEAD > gpu-pack/commit
  tar -cf - gpu-pack | xz -T1 --lzma2=preset=4,dict=256MiB > gpu-pack.tar.xz  # the programs have the same libraries in them: a third
  echo "gpu.sh: packed $(du -sm gpu-pack | cut -f1) MB into gpu-pack/, $(du -sm gpu-pack.tar.xz | cut -f1) MB into gpu-pack.tar.xz; programs ask for $(newest_glibc) at most"
}

# libstdc++ and cuBLAS are that machine's own.
pack_programs() {
  local blas
  blas=$(find /usr/lib -path '*openblas*' -name libopenblas.a | head -n 1)
  [ -n "$blas" ] || { echo "libopenblas.a is missing: install the package libopenblas-dev"; return 1; }
  configure build/gpu-pack 90 -DCMAKE_EXE_LINKER_FLAGS=-s -DCMAKE_SHARED_LINKER_FLAGS=-s -DWEFT_BOOST=ON -DWEFT_TOOLS=ON -DWEFT_METRICS=OFF -DBoost_USE_STATIC_LIBS=ON \
    -DOPENSSL_USE_STATIC_LIBS=ON -DWEFT_OPENBLAS_LIBRARY="$blas" -DWEFT_GOOGLETEST_SOURCE="$PWD/gpu-pack/googletest" &&
    cmake --build build/gpu-pack --target weft-scaling "${targets[@]}" gpu_math_test gpu_train && mkdir -p gpu-pack/bin gpu-pack/lib &&
    cp build/gpu-pack/bin/* gpu-pack/bin/ && cp build/gpu-pack/lib/libnccl-tuner-weft.so gpu-pack/lib/
}

newest_glibc() { objdump -T gpu-pack/bin/* | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1; }

targets=(weft_tuner conformance_processes gpu_kernels_test gpu_low_rank_test gpu_fused_step_test gpu_codecs_test gpu_victim gpu_figures gpu_low_rank_figures)
targets+=(gpu_codec_figures gpu_pipelines gpu_windows gpu_driver_costs gpu_driver_waits gpu_issue_figures gpu_deadlines)

# configure FOLDER CAPABILITY OPTION...
configure() {
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWEFT_CUDA=ON -DWEFT_CUDA_ARCHITECTURES="$2" -DWEFT_TESTS=ON -DWEFT_TEST_KINDS=processes \
    -DWEFT_MPI=OFF -DWEFT_UCX=OFF -DWEFT_BOOST=OFF -DWEFT_TOOLS=OFF -DWEFT_BENCH=OFF -DWEFT_SIMD=OFF -DWEFT_URING=OFF "${@:3}"
}

# What pip has installed: nvidia/*/lib and nvidia/*/include of each folder that Python looks into.
from_pip() {  # FILE...: the first that is there
  local site file
  for site in $(python3 -c 'import site, sys; print(*site.getsitepackages(), site.getusersitepackages(), *sys.path)' 2>/dev/null); do
    for file in "$@"; do
      for found in "$site"/nvidia/*/"$file"; do [ -e "$found" ] && { echo "$found"; return; }; done
    done
  done
}

# NCCL and cuBLAS, for the programs as for what is still to be linked.
find_libraries() {
  local cublas header
  if ! ldconfig -p 2>/dev/null | grep -q libnccl.so.2 && [ -z "${WEFT_NCCL_LIBRARY:-}" ]; then
    WEFT_NCCL_LIBRARY=$(from_pip lib/libnccl.so.2)
    [ -n "$WEFT_NCCL_LIBRARY" ] && export WEFT_NCCL_LIBRARY
  fi
  [ -e /usr/local/cuda/lib64/libcublas.so ] && { export LD_LIBRARY_PATH=/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; return; }
  cublas=$(from_pip lib/libcublas.so.13 lib/libcublas.so.12)
  header=$(from_pip include/cublas_v2.h)
  [ -n "$cublas" ] || return
  options+=("-DCUDA_cublas_LIBRARY=$cublas")
  [ -n "$header" ] && options+=("-DCMAKE_CXX_FLAGS=-isystem ${header%/*}")
  export LD_LIBRARY_PATH=${cublas%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

build() {
  local capability=${1:-90} built sources=$PWD/gpu-pack/googletest
  [ -d "$sources" ] || sources=  # then GoogleTest is installed, or configuring says that it is not
  if [ $dry = 1 ]; then
    { cmake --preset recorded && cmake --build --preset recorded -j "$(nproc)" &&
      cmake --preset recorded -B build/gpu-dry/tools -DWEFT_TOOLS=ON && cmake --build build/gpu-dry/tools --target weft-scaling -j "$(nproc)"
    } > "$out/build.log" 2>&1 && return
    tail -n 20 "$out/build.log"
    return 1
  fi
  # What does not build fails its own suites alone.
  { configure build/gpu "$capability" -DWEFT_GOOGLETEST_SOURCE="$sources" "${options[@]}" &&
    { ! grep -q gpu_train build/gpu/build.ninja || targets+=(gpu_math_test gpu_train); } &&
    cmake --build build/gpu --target "${targets[@]}" -- -k 0
    built=$?
    if [[ " ${chosen[*]} " = *" torch"* ]]; then build_torch "$capability"; fi && [ $built = 0 ]
  } > "$out/build.log" 2>&1 && return
  grep -E 'error|FAILED' "$out/build.log" | head -n 20
  echo "gpu.sh: not all of it builds: $out/build.log" >&2
  return 1
}

# torch.distributed's backend for the torch of this machine's python3, in a folder of its own.
build_torch() {
  python3 -c 'import torch' 2> /dev/null || { echo "no torch in python3: it is not built"; return 0; }
  cmake -S . -B build/gpu-torch -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_TORCH=ON -DWEFT_TORCH_PARTS=distributed -DWEFT_TORCH_PYTHON="$(command -v python3)" \
    -DWEFT_CUDA=ON -DWEFT_TORCH_CUDA=ON -DWEFT_CUDA_ARCHITECTURES="$1" -DWEFT_TESTS=OFF -DWEFT_MPI=OFF -DWEFT_UCX=OFF -DWEFT_BOOST=OFF -DWEFT_TOOLS=OFF \
    -DWEFT_BENCH=OFF -DWEFT_SIMD=OFF -DWEFT_URING=OFF -DWEFT_METRICS=OFF && cmake --build build/gpu-torch --target weft_torch_distributed -j "$(nproc)"
}

# run_ranks N PROGRAM...: a process a rank. Each one's output, its status and when it ended: $work/R.*
run_ranks() {
  local ranks=$1 rank
  shift
  rm -rf "${work:?}"/*
  for ((rank = 0; rank < ranks; rank++)); do
    (WEFT_RANK=$rank WEFT_SIZE=$ranks WEFT_LOCAL_RANK=$rank WEFT_RENDEZVOUS=file://$work/meet WEFT_DEVICE=${device:-cuda} WEFT_SHARE_DEVICE=1 \
      WEFT_TIMEOUT=${waits:-60} WEFT_CONNECT_TIMEOUT=60 timeout -k 5 "${limit:-60}" "$@" > "$work/$rank.out" 2>&1
      echo $? > "$work/$rank.status"
      date +%s.%N > "$work/$rank.end") &
  done
  wait
  for ((rank = 0; rank < ranks; rank++)); do
    sed "s/^/rank $rank: /" "$work/$rank.out"
    echo "rank $rank: ended with $(cat "$work/$rank.status")"
  done
}

all_ended_well() {
  local rank
  for ((rank = 0; rank < $1; rank++)); do [ "$(cat "$work/$rank.status")" = 0 ] || return 1; done
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
    grep -q 'rank 2' "$work/$rank.out" && [ "$(cat "$work/$rank.status")" = 75 ] || return 1
    late=$(awk -v a="$(cat "$work/$rank.end")" -v b="$(cat "$work/2.end")" 'BEGIN {printf "%.3f", a - b}')
    echo "rank $rank ended $late s after rank 2: $(tail -n 1 "$work/$rank.out")"
    awk "BEGIN { exit !($late < 5) }" || return 1
  done
}

losses() { grep -oE '"losses": \[[^]]*' | grep -oE '[0-9]+\.[0-9e+-]+'; }

# The first steps of ddp on the host, beside the first suites: without a BLAS they are slow. Every strategy but a code has these losses.
train_on_host() {
  local own=$host
  mkdir -p "$own"
  (work=$own device=host limit=400 run_ranks 2 $bin/gpu_train "$model" "$text" "$compared/$steps" ddp > "$own.log" 2>&1; cp "$own/0.out" "$own.json.part"; mv "$own.json.part" "$own.json")
}

# train STRATEGY: 2 ranks learn on the GPU as on the host, within 1e-3, and twice the same bits. Under a code, the loss falls.
train() {
  local gpu again
  run_ranks 2 $bin/gpu_train "$model" "$text" "$steps" "$1" && all_ended_well 2 || return 1
  gpu=$(grep '"losses"' "$work/0.out")
  local trace=$work.trace.json
  if [ "$1" = ddp ]; then trace=$out/trace.json; fi
  run_ranks 2 $bin/gpu_train "$model" "$text" "$steps" "$1" "$trace" && all_ended_well 2 || return 1
  again=$(grep '"losses"' "$work/0.out")
  echo "$gpu" >> "$figures"
  [ "$(echo "$gpu" | grep -o '"hash.*')" = "$(echo "$again" | grep -o '"hash.*')" ] || { echo "two runs differ: $gpu $again"; return 1; }
  if [[ $1 = *powersgd* ]]; then
    echo "$gpu" | losses | awk '{ last = $1; if (NR == 1) first = $1 } END { print "the loss goes from " first " to " last; exit !(last < first) }'
    return
  fi
  while [ ! -e "$host.json" ]; do sleep 0.5; done  # the suite's limit ends this
  paste <(echo "$gpu" | losses | head -n "$compared") <(losses < "$host.json") |
    awk -v all="$compared" '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { print "losses differ from the host'"'"'s by at most " worst; exit !(NR == all && worst < 1e-3) }'
}

# weft-scaling itself. Each strategy's loss falls, and those that only place or cut otherwise have the loss of ddp.
scaling() {
  local program=gpu-pack/bin/weft-scaling strategies=nocomm,ddp,ddp+fp16,ddp+bf16,ddp+int8,ddp+powersgd:4,auto,zero1,zero2,zero3,zero2+offload,pipeline:1f1b
  if [ $dry = 1 ]; then
    program=build/gpu-dry/tools/bin/weft-scaling
    strategies=nocomm,ddp,ddp+fp16,zero3
  fi
  [ -x $program ] || { echo "no $program: tests/gpu.sh --pack makes it, where there are Boost, OpenBLAS and nvcc"; return 1; }
  run_ranks 2 $program --device cuda --model "$model" --text "$text" --steps $((dry == 1 ? 3 : 20)) --strategies $strategies --json "$work.scaling"
  all_ended_well 2 && python3 - "$work.scaling" "$figures" <<'END'
import json, sys
runs = json.load(open(sys.argv[1]))["runs"]
ddp = next(run for run in runs if run["strategy"] == "ddp")["loss"]["last"]
wrong = [run["strategy"] for run in runs if not run["loss"]["last"] < run["loss"]["first"]]
wrong += [run["strategy"] for run in runs if run["strategy"].startswith(("zero", "pipeline")) and abs(run["loss"]["last"] - ddp) > 1e-3]
with open(sys.argv[2], "a") as figures:
    for run in runs:
        figures.write(json.dumps({"figure": "scaling", **run}) + "\n")
print(f"{len(runs)} strategies; ddp's loss ends at {ddp:.4f}" + (f"; wrong: {wrong}" if wrong else ""))
sys.exit(bool(wrong))
END
}

sanitized() {
  local tool
  if [ $dry = 1 ]; then
    echo "emulated: accesses are recorded instead"
    $bin/gpu_kernels_test --gtest_filter='*Twin:*Wait*' && $bin/gpu_low_rank_test --gtest_filter='-*Large*'
    return
  fi
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) || { echo "no compute-sanitizer here"; return 1; }
  "$tool" --error-exitcode 1 $bin/gpu_kernels_test --gtest_filter='*Twin:*Wait*' && "$tool" --error-exitcode 1 $bin/gpu_low_rank_test --gtest_filter='-*Large*'
}

# ranks_figures N PROGRAM...: keeps what rank 0 prints of figures, also where a rank has failed.
ranks_figures() {
  run_ranks "$@"
  grep '^{"figure"' "$work/0.out" >> "$figures"
  all_ended_well "$1" && tail -n 1 "$figures"
}

# Of two ranks, of which one never comes: rank 0 is done when its file is there.
deadline() { ranks_figures 2 $bin/gpu_deadlines "$1" "$work.done"; }

# pipeline_case SCHEDULE BYTES cold|warm [NAME=VALUE...]: one run in a folder of its own, of 15 s at most, with NCCL's own buffers; whether its steps end.
# To be begun in the background: its environment is its own.
pipeline_case() {
  local work=$work.$1.$2.$3.${*:4} waits=8 limit=15 ended=false
  work=${work// /,}
  mkdir -p "$work"
  unset NCCL_MAX_CTAS NCCL_BUFFSIZE
  [ $# -lt 4 ] || export "${@:4}"
  if [ $dry = 1 ]; then waits=60 limit=60; fi  # emulated kernels take long
  run_ranks 2 $bin/gpu_pipelines "$1" "$2" "$3" > "$work.said"
  if all_ended_well 2; then ended=true; fi
  printf '{"figure": "pipeline run", "schedule": "%s", "bytes": %d, "kernels": "%s", "with": "%s", "ended": %s, "steps": %d, "said": "%s"}\n' "$1" "$2" "$3" "${*:4}" $ended \
    "$(grep -c '^step' "$work/0.out")" "$(grep -hv '^step\|^{' "$work/0.out" | tr -d '\042\134' | tr '\n\t' '  ' | LC_ALL=C tr -cd ' -~' | cut -c1-300)" >> "$figures"
  cat "$work.said"
}

# pipeline_cases: a case a line from the standard input, several at a time.
pipeline_cases() {
  local case cases=0
  while read -ra case; do
    [ "$(jobs -pr | wc -l)" -lt 4 ] || wait -n
    pipeline_case "${case[@]}" &
    cases=$((cases + 1))
  done
  wait
  local ended
  ended=$(grep -c '"ended": true' "$figures")
  echo "$ended of $cases came to their end"
  [ "$ended" = $cases ]
}

pipelines() {
  local schedule bytes sizes="65536 8388608 67108864"
  if [ $dry = 1 ]; then sizes=4096; fi
  for bytes in $sizes; do
    for schedule in 1f1b interleaved zb-h1 zb-v; do echo "$schedule $bytes cold"; done
  done | pipeline_cases
}

# What NCCL's settings and kernels that are loaded change.
pipeline_ways() {
  local schedule bytes sizes="8388608 67108864"
  if [ $dry = 1 ]; then sizes=4096; fi
  for bytes in $sizes; do
    for schedule in 1f1b interleaved zb-v; do
      echo "$schedule $bytes warm"
      echo "$schedule $bytes cold NCCL_LAUNCH_ORDER_IMPLICIT=1"
      echo "$schedule $bytes cold NCCL_LOCAL_REGISTER=0"
      echo "$schedule $bytes cold NCCL_BUFFSIZE=1048576"
    done
  done | pipeline_cases
}

# Registered memory as ranks may use it; each way of 15 s at most.
windows() {
  unset NCCL_MAX_CTAS NCCL_BUFFSIZE
  local waits=8 limit=15
  if [ $dry = 1 ]; then waits=60 limit=60; fi  # emulated kernels take long
  failed=0
  for how in equal unequal one message; do
    ranks_figures 2 $bin/gpu_windows $how || failed=1
  done
  return $failed
}

# With NCCL's own numbers of thread blocks and buffers.
memory() (
  unset NCCL_MAX_CTAS NCCL_BUFFSIZE
  ranks_figures 2 $bin/gpu_issue_figures memory
)

driver_waits() {
  local loading
  for loading in LAZY EAGER; do
    CUDA_MODULE_LOADING=$loading $bin/gpu_driver_waits calls | sed "s/^{/{\"loading\": \"$loading\", /" | tee -a "$figures" || return
  done
  $bin/gpu_driver_waits queue | tee -a "$figures"
}

# with_torch PROGRAM...: a script of tests/torch over the backend that was built for this machine's torch; of the emulated device where it is dry.
with_torch() {
  if [ $dry = 1 ]; then
    bash tests/torch/torch_test.sh emulated build > "$work.torch" 2>&1
    case $? in 0) ;; 77) tail -n 1 "$work.torch"; return ;; *) tail -n 20 "$work.torch"; return 1 ;; esac
    bash tests/torch/torch_test.sh emulated "$@" 2>&1
    return
  fi
  [ -d build/gpu-torch/python/weft/torch ] || { echo "weft.torch is not built: python3 has no torch, or build.log says why"; return 1; }
  PYTHONPATH=$PWD/build/gpu-torch/python:$PWD/tests/torch OMP_NUM_THREADS=1 WEFT_SHARE_DEVICE=1 python3 "tests/torch/$1" "${@:2}" 2>&1
}

torch_costs() {
  local ended=0
  with_torch device_costs.py | tee "$work.said" || ended=1
  grep '^{"figure"' "$work.said" >> "$figures"
  return $ended
}

# PyTorch's own tests that use CUDA tensors, over ProcessGroupNCCL and over weft.
torch_suite() {
  if [ $dry = 1 ]; then
    echo "DistributedTest with CUDA tensors needs torch's CUDA: tests/torch/pytorch_suite.py runs it with tensors of the host"
    return
  fi
  with_torch cuda_suite.py --seconds $((limit - 5)) --out "$figures"
}

# PyTorch's hook beside ours, on the same GPU.
powersgd_torch() {
  if [ $dry = 1 ]; then
    echo "PyTorch's hook needs torch's CUDA: the suite powersgd-figures runs ours"
    return
  fi
  python3 bench/peers/torch_powersgd.py --weft $bin/gpu_low_rank_figures | tee "$work.said" && grep '^{"figure"' "$work.said" >> "$figures" && grep -q torch_over_weft "$figures"
}

overhead() { run_ranks 2 $bin/gpu_figures overhead && all_ended_well 2 && grep '^{"figure"' "$work/0.out" | tee -a "$figures"; }
bandwidth() { $bin/gpu_figures bandwidth | tee -a "$figures" && $bin/gpu_low_rank_figures | tee -a "$figures"; }
# The hook's step alone: bench/peers/torch_powersgd.py runs it beside PyTorch's, where there is a PyTorch.
powersgd_figures() { WEFT_DEVICE=cuda $bin/gpu_low_rank_figures powersgd 4 $((dry == 1 ? 1 : 48)) | grep '^{"figure"' | tee -a "$figures" && grep -q '"device": "cuda' "$figures"; }

# NCCL reads our nccl.conf, which alone names our tuner, loads it, and takes a row of its table.
tuner() {
  local library=$PWD/$bin/../lib/libnccl-tuner-weft.so conf=$work.tuner
  if [ "$dry" = 1 ]; then
    library=$PWD/build/recorded/lib/libnccl-tuner-weft.so
    [ -e "$library" ] && echo "the fake of NCCL loads no tuner: tests/unit/tools/weft-report/tuner plays that part of NCCL"
    return
  fi
  mkdir -p "$conf"
  printf 'allreduce,0,-1,ring,simple,1,-1,2\n' > "$conf/table.csv"
  printf 'NCCL_TUNER_PLUGIN=%s\nNCCL_TUNER_CONFIG_FILE=%s\n' "$library" "$conf/table.csv" > "$conf/nccl.conf"
  NCCL_CONF_FILE=$conf/nccl.conf NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING,ENV run_ranks 2 $bin/conformance_processes nccl
  all_ended_well 2 && grep -m 1 'TUNER/Plugin: Using weft' "$work/0.out" && grep -q 'TUNER/weft: .*1 of 1 rows are for 2 ranks' "$work/1.out" &&
    grep -m 1 'TUNER/weft: .*line 1: allreduce of .*ring/simple, 1 channel' "$work/0.out"
}

run_suite() {
  case $1 in
    kernels) $bin/gpu_kernels_test ;;
    low-rank) $bin/gpu_low_rank_test ;;
    fused-step) $bin/gpu_fused_step_test ;;
    codecs) $bin/gpu_codecs_test ;;
    models) $bin/gpu_math_test ;;
    conformance-*) conformance "${1#conformance-}" ;;
    torch) with_torch cuda_test.py ;;  # each collective beside what it should give
    torch-costs) torch_costs ;;
    torch-suite) torch_suite ;;
    powersgd-torch) powersgd_torch ;;
    driver-waits) driver_waits ;;
    driver-costs) $bin/gpu_driver_costs | tee -a "$figures" ;;
    captures) $bin/gpu_driver_waits captures | tee -a "$figures" ;;
    deadline-*) deadline "${1#deadline-}" ;;
    abort | abort-load) deadline "$1" ;;
    pipelines) pipelines ;;
    pipeline-ways) pipeline_ways ;;
    issue) ranks_figures 2 $bin/gpu_issue_figures calls ;;
    memory) memory ;;
    windows) windows ;;
    codec-figures) $bin/gpu_codec_figures | tee -a "$figures" ;;
    overhead) overhead ;;
    bandwidth) bandwidth ;;
    train-offload) train zero2+offload ;;
    train-powersgd) train ddp+powersgd:4 ;;
    train-pipeline) train pipeline:1f1b ;;
    train-*) train "${1#train-}" ;;
    scaling) scaling ;;
    powersgd-figures) powersgd_figures ;;
    killed-rank) killed_rank ;;
    tuner) tuner ;;
    sanitizer) sanitized ;;
  esac
}

# The figures of a suite are JSON, a line each; those of emulated kernels are thrown away.
figures_are_json() { python3 -c 'import json, sys; [json.loads(line)["figure"] for line in open(sys.argv[1])]' "$figures"; }

# suite NAME: a line, an entry of gpu.jsonl, and its words in gpu.log. It may take two minutes (PyTorch's tests nearly three), or what is left.
suite() {
  local name=$1 start left state=passed whole line
  work=$work/$name
  figures=$out/$name.figures  # what is there already stays if all is ended from outside
  mkdir -p "$work"
  : > "$figures"
  if [ -n "${building:-}" ] && [[ $after_build = *" $name "* ]]; then  # its time is not the suite's
    while kill -0 "$building" 2> /dev/null && [ $((SECONDS - begin)) -lt $((minutes * 60)) ]; do sleep 0.5; done
  fi
  start=$SECONDS
  left=$((minutes * 60 - SECONDS + begin))
  if [ $left -lt 20 ]; then
    state="not run"
    echo "no time is left" > "$work.log"
  else
    whole=$([ "$name" = torch-suite ] && echo 170 || echo 120)
    whole=$((left < whole ? left : whole))
    export limit=$((whole - 8))  # of its ranks: what they have said by then is still printed
    timeout -k 5 "$whole" bash -c "set -o pipefail; $functions"'; run_suite "$1" && figures_are_json' gpu.sh "$name" > "$work.log" 2>&1 || state=failed
  fi
  line=$(printf '%-18s %-8s %4d s  %s' "$name" "$state" $((SECONDS - start)) "$(tail -n 1 "$work.log" | sed "s/^{.*\"figure\".*/$words_of_figures/" | cut -c1-150)")
  if [ "$state" = failed ]; then line+=$'\n'$(sed 's/^/    | /' "$work.log" | tail -n 30); fi
  {
    flock 9
    echo "$line"
    { echo "== $name: $state"; cat "$work.log"; } >> "$out/gpu.log"
    printf '{"suite": "%s", "state": "%s", "seconds": %d}\n' "$name" "$state" $((SECONDS - start)) >> "$out/gpu.jsonl"
    if [ $dry = 0 ]; then cat "$figures" >> "$out/gpu.jsonl"; fi
  } 9>> "$out/gpu.log"
  rm -f "$figures"
}

# In their order, several at a time; what measures runs alone.
run_suites() {
  local name pid running=()
  for name in "${chosen[@]}"; do
    while [ ${#running[@]} -ge "$at_a_time" ] || { [ ${#running[@]} -gt 0 ] && [[ $alone = *" $name "* ]]; }; do
      for pid in "${!running[@]}"; do kill -0 "${running[$pid]}" 2> /dev/null || unset "running[$pid]"; done
      sleep 0.1
    done
    if [ "$at_a_time" = 1 ] || [[ $alone = *" $name "* ]]; then
      (suite "$name")
    else
      (suite "$name") &
      running+=($!)
    fi
  done
  for pid in "${running[@]}"; do wait "$pid"; done
}

# What figures depend on, as members of a JSON object.
machine() {
  nvidia-smi -q > "$out/machine.txt" 2>&1
  local of
  for of in driver_version ecc.mode.current persistence_mode power.limit clocks.sm clocks.mem clocks.max.sm clocks.max.mem temperature.gpu memory.total; do
    printf ', "%s": "%s"' "$of" "$(nvidia-smi --query-gpu=$of --format=csv,noheader 2> /dev/null | head -n 1)"
  done
  printf ', "cores": %d' "$(nproc)"
  python3 - "${WEFT_NCCL_LIBRARY:-libnccl.so.2}" <<'END' 2> /dev/null
import ctypes, json, sys
said = {"python": sys.version.split()[0]}
try:
    version = ctypes.c_int()
    ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version))
    said["nccl"] = version.value
except OSError as error:
    said["nccl"] = str(error)
try:
    said["torch"] = open([p for s in sys.path for p in __import__("glob").glob(s + "/torch/version.py")][0]).read().split("__version__ = ")[1].split("\n")[0].strip("'")
except IndexError:
    said["torch"] = None
print(", " + json.dumps(said)[1:-1], end="")
END
}

while [ $# -gt 0 ]; do
  case $1 in
    --pack) pack; exit ;;
    --build) only_build=1 ;;
    --built) only_build=-1 ;;
    --dry) dry=1 ;;
    --list) printf '%s\n' "${suites[@]}"; exit ;;
    --suites)
      IFS=, read -ra chosen <<< "${2:?gpu.sh: --suites takes names, as --list prints them}"
      for name in "${chosen[@]}"; do
        [[ " ${suites[*]} " = *" $name "* ]] || usage "no suite $name: $(IFS=,; echo "${suites[*]}")"
      done
      shift ;;
    --minutes)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage "--minutes ${2:-}: a whole number of minutes, from 1"
      minutes=$2
      shift ;;
    --at-a-time)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage "--at-a-time ${2:-}: a whole number of suites, from 1"
      at_a_time=$2
      shift ;;
    *) usage "$1 is none of --suites, --minutes, --at-a-time, --list, --build, --built, --dry, --pack" ;;
  esac
  shift
done

bin=build/gpu/bin
out=${OUT:-build/gpu}
model=gpt-ref
steps=20
compared=10
if [ $dry = 1 ]; then
  bin=build/recorded/bin
  out=${OUT:-build/gpu-dry}
  model=gpt-tiny
  steps=6
  compared=4
  [ $only_build = -1 ] || { launchers/setup.sh test && . launchers/toolchain.sh; }
fi
options=()
if [ $dry = 0 ]; then find_libraries; fi
if [ $dry = 0 ] && [ $only_build = -1 ] && [ -d gpu-pack/bin ] && [ ! -d $bin ]; then bin="gpu-pack/bin"; fi
mkdir -p "$out"
if [ $only_build = 1 ]; then
  build || exit 1
  echo "gpu.sh: built in $((SECONDS - begin)) s"
  exit
fi

card=
if [ $dry = 1 ]; then
  card="none: kernels are emulated"
elif command -v nvidia-smi >/dev/null; then card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1); fi
if [ -z "$card" ]; then
  echo "gpu.sh: no GPU here: ${#chosen[@]} suites skipped"
  echo "{\"card\": null, \"skipped\": ${#chosen[@]}}" > "$out/gpu.jsonl"
  exit 0
fi

export NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0
export NCCL_MAX_CTAS=2 NCCL_BUFFSIZE=1048576 NCCL_PXN_DISABLE=1 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
work=$(mktemp -d)
host=$work/host
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT
text="gpu-pack/text"
[ -d $text ] || text=/usr/share/common-licenses
words_of_figures='&'
if [ $dry = 1 ]; then
  words_of_figures="(prints its figures, which mean nothing here)"
  export WEFT_EMULATED_DEVICES=1 WEFT_NCCL_LIBRARY=$PWD/build/recorded/lib/libweft_fake_nccl.so
fi
export bin out work figures host text model steps compared dry
functions=$(declare -f)
: > "$out/gpu.log"
commit=$(git rev-parse HEAD 2> /dev/null || cat gpu-pack/commit 2> /dev/null)
printf '{"card": "%s", "date": "%s", "commit": "%s"%s}\n' "$card" "$(date +%F)" "$commit" "$([ $dry = 1 ] || machine)" > "$out/gpu.jsonl"
echo "gpu.sh: the GPU: $card"
capability=
if [ $dry = 0 ]; then capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .); fi
if [ $only_build = 0 ]; then
  build "$capability"
  echo "gpu.sh: built in $((SECONDS - begin)) s"
elif [ $dry = 0 ] && [[ " ${chosen[*]} " = *" torch"* ]]; then  # beside other suites
  build_torch "$capability" > "$out/build.log" 2>&1 &
  building=$!
fi
if [[ " ${chosen[*]} " = *" train-"* ]]; then train_on_host & fi
run_suites
failed=$(grep -c '^{"suite": .*"state": "\(failed\|not run\)"' "$out/gpu.jsonl")
printf '{"failed": %d, "seconds": %d}\n' "$failed" $((SECONDS - begin)) >> "$out/gpu.jsonl"
echo "gpu.sh: $failed of ${#chosen[@]} not passed, in $((SECONDS - begin)) s; $out/gpu.jsonl has what came of it, $out/gpu.log what suites said"
[ "$failed" -eq 0 ]
