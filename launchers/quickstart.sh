#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds what it runs, and trains a small GPT on the
# licences of this machine with 2 ranks, beside the same training without communication. Under five minutes on 2 cores.
#   launchers/quickstart.sh [options of weft-scaling]
set -euo pipefail
cd "$(dirname "$0")/.."

launchers/setup.sh run
. launchers/openblas.sh
jobs=$(nproc)
echo "build: release, $jobs at a time"
log=build/quickstart.log
mkdir -p build
if ! { cmake --preset release -DWEFT_TESTS=OFF -DWEFT_BENCH=OFF && cmake --build --preset release -j "$jobs" --target weft-scaling; } >"$log" 2>&1; then
  tail -n 30 "$log"
  echo "quickstart: the build failed; all of it is in $log" >&2
  exit 70
fi
echo "build: done"
echo

# Open MPI starts as root, in a container for instance, only when told twice.
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
figures=build/quickstart.json
mpirun -n 2 --oversubscribe build/release/bin/weft-scaling --strategies nocomm,ddp --json "$figures" "$@"
echo
echo "quickstart: trained on 2 ranks; figures are in $figures. Next: mpirun -n 2 build/release/bin/weft-scaling --strategies ddp --steps 400"
