#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds what it runs, and trains a small GPT on the
# licences of this machine with 2 ranks, beside the same training without communication.
#   launchers/quickstart.sh [options of weft-scaling]
# How long each phase took is printed at the end; bench/results has what was measured on which machine.
set -euo pipefail
cd "$(dirname "$0")/.."

begin=$SECONDS
launchers/setup.sh run
. launchers/openblas.sh
. launchers/toolchain.sh
installed=$SECONDS
echo "build: weft-scaling for ddp and ZeRO, $jobs at a time"
log=build/quickstart.log
mkdir -p build
if ! { cmake --preset quickstart && cmake --build --preset quickstart -j "$jobs"; } >"$log" 2>&1; then
  tail -n 30 "$log"
  echo "quickstart: the build failed; all of it is in $log" >&2
  exit 70
fi
built=$SECONDS
echo "build: done in $((built - installed)) s"
echo

# Open MPI starts as root, in a container for instance, only when told twice.
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
figures=build/quickstart.json
mpirun -n 2 --oversubscribe build/quickstart/bin/weft-scaling --strategies nocomm,ddp --json "$figures" "$@"
trained=$SECONDS
echo
echo "quickstart: installed in $((installed - begin)) s, built in $((built - installed)) s, trained in $((trained - built)) s"
echo "quickstart: figures are in $figures. Next: mpirun -n 2 build/quickstart/bin/weft-scaling --strategies ddp --steps 400"
