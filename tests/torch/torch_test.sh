#!/usr/bin/env bash
# Builds torch.distributed's backend against the torch of launchers/setup.sh torch, or runs a test of it.
#   usage: torch_test.sh build | TEST.py [ARGUMENT...]; 77 where that torch is not installed
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=${WEFT_TORCH_VENV:-$HOME/.cache/weft-torch}
if [ ! -x "$venv/bin/python" ]; then
  echo "skipped: there is no torch in $venv; launchers/setup.sh torch installs it (WEFT_TORCH_VENV names another place)"
  exit 77
fi
build=${WEFT_TORCH_BUILD:-build/torch}
if [ "${1:?build or a test}" = build ]; then
  . launchers/toolchain.sh
  off=()
  for option in MPI METRICS CUDA TOOLS TESTS BENCH SHARED DEBIAN; do off+=("-DWEFT_$option=OFF"); done
  cmake -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEFT_TORCH=ON -DWEFT_TORCH_PARTS=distributed -DWEFT_TORCH_PYTHON="$venv/bin/python" "${off[@]}"
  exec cmake --build "$build" --target weft_torch_distributed -j "$jobs"
fi
test=$1
shift
export PYTHONPATH="$PWD/$build/python:$PWD/tests/torch" OMP_NUM_THREADS=1
exec "$venv/bin/python" "tests/torch/$test" "$@"
