#!/usr/bin/env bash
# Makes the wheel of weft for Python without PyTorch (docs/python.md): python/weft with libweft.so, weft-launch, weft-plan and weft-report.
#   launchers/packages/wheel.sh [OPTION_OF_CMAKE...]     installs what is missing, builds, and leaves the wheel in build/wheel/dist
# It needs nothing of a machine but C's and C++'s own libraries, as new as here, and Python 3.9 or newer. UCX and PMIx are loaded where they are. What it
# does without: MPI, CUDA and optimizer state in files; for these, build weft on the machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

begin=$SECONDS
launchers/setup.sh run
. launchers/toolchain.sh
log=build/wheel.log
mkdir -p build
echo "wheel: configuring"
if ! cmake --preset wheel "$@" >"$log" 2>&1; then
  tail -n 30 "$log"
  echo "wheel: it cannot be configured; all of it is in $log" >&2
  exit 70
fi
echo "wheel: building, $jobs at a time"
# A line for each tenth of the build.
if ! cmake --build --preset wheel -j "$jobs" 2>&1 | tee -a "$log" |
     awk 'match($0, /^\[ *[0-9]+\/[0-9]+\]/) { split(substr($0, 2, RLENGTH - 2), n, "/"); tenth = int(10 * n[1] / n[2])
                                             if (tenth > seen) { seen = tenth; print "wheel: built " n[1] " of " n[2]; fflush() } }'; then
  tail -n 30 "$log"
  echo "wheel: the build failed; all of it is in $log" >&2
  exit 70
fi
rm -rf build/wheel/dist
launchers/packages/wheel.py build/wheel build/wheel/dist
echo "wheel: made in $((SECONDS - begin)) s. Next, in a venv: pip install build/wheel/dist/*.whl && python3 -m weft demo"
