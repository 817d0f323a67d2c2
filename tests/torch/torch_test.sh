#!/usr/bin/env bash
# Builds torch.distributed's backend against the torch of launchers/setup.sh torch, or runs a test of it.
#   usage: torch_test.sh [emulated|asan] build | TEST.py [ARGUMENT...]; 77 where that torch is not installed
#   emulated: another build, where CUDA is emulated, NCCL is a fake, and host tensors stand for a device's (tests/torch/emulated_lane.cpp)
#   asan: another build, under the address sanitizer, for the host's tensors. It sees what weft reads and writes of memory that torch has freed.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${WEFT_TORCH_VENV:-$HOME/.cache/weft-torch}
if [ ! -x "$venv/bin/python" ]; then
  echo "skipped: there is no torch in $venv; launchers/setup.sh torch installs it (WEFT_TORCH_VENV names another place)"
  exit 77
fi
build=${WEFT_TORCH_BUILD:-build/torch}
options=(-DWEFT_TESTS=OFF -DWEFT_CUDA_ARCHITECTURES=90)
targets=(weft_torch_distributed)
if [ "${1:?build or a test}" = emulated ]; then
  shift
  build=${WEFT_TORCH_EMULATED_BUILD:-build/torch-emulated}
  # What is compiled here is not measured: with -O2, GCC's warnings are right, and are errors.
  options=(-DWEFT_CUDA=ON -DWEFT_CUDA_EMULATION=ON -DWEFT_TESTS=ON "-DWEFT_TEST_FOLDERS=fake_nccl" -DWEFT_URING=OFF -DWEFT_UCX=OFF
           -DWEFT_WARNINGS_AS_ERRORS=ON "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG")
  targets+=(weft_fake_nccl)
  export LD_LIBRARY_PATH=$PWD/$build/lib WEFT_EMULATED_DEVICES=1 WEFT_NCCL_LIBRARY=$PWD/$build/lib/libweft_fake_nccl.so WEFT_SHARE_DEVICE=1
fi
if [ "$1" = asan ]; then
  shift
  build=${WEFT_TORCH_ASAN_BUILD:-build/torch-asan}
  options=(-DWEFT_TESTS=OFF -DWEFT_CUDA=OFF -DWEFT_SANITIZE=address "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -g1 -DNDEBUG")
  # Python is not linked to the sanitizer, nor to the library whose exceptions it follows: both come first. What torch keeps at its end is no leak of weft's.
  preload="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)"
  export ASAN_OPTIONS="detect_leaks=0:abort_on_error=0:exitcode=99:${ASAN_OPTIONS:-}"
fi
if [ "$1" = build ]; then
  . launchers/toolchain.sh
  for option in MPI METRICS TOOLS BENCH SHARED DEBIAN; do options+=("-DWEFT_$option=OFF"); done
  cmake -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_TORCH=ON -DWEFT_TORCH_PARTS=distributed -DWEFT_TORCH_PYTHON="$venv/bin/python" "${options[@]}"
  exec cmake --build "$build" --target "${targets[@]}" -j "$jobs"
fi
test=$1
shift
export PYTHONPATH="$PWD/$build/python:$PWD/tests/torch" OMP_NUM_THREADS=1 WEFT_PLAN="${WEFT_PLAN:-$PWD/build/dev/bin/weft-plan}"
exec env ${preload:+"LD_PRELOAD=$preload"} "$venv/bin/python" "tests/torch/$test" "$@"
