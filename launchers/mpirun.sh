#!/usr/bin/env bash
# Starts ranks under Open MPI with the settings that weft is measured with.
#   launchers/mpirun.sh [--over auto|ob1|ucx] MPIRUN-ARGUMENTS... PROGRAM...
#     auto   what Open MPI chooses
#     ob1    Open MPI's own transports: shared memory within a node, TCP between nodes
#     ucx    UCX: InfiniBand or RoCE where there is any, else whatever UCX finds
# Example: launchers/mpirun.sh --over ucx -n 2 build/release/bin/weft-bench all_reduce --against mpi
set -euo pipefail

over=auto
if [ "${1:-}" = --over ]; then
  over=${2:-}
  shift 2 || { echo "mpirun.sh: --over needs one of auto, ob1, ucx" >&2; exit 42; }
fi
case ${1:-} in
  ''|-h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; [ $# -gt 0 ] && exit 0; exit 42 ;;
esac
command -v mpirun >/dev/null || { echo "mpirun.sh: there is no mpirun; launchers/setup.sh installs Open MPI" >&2; exit 42; }

settings=()
case $over in
  auto) ;;
  ob1) settings=(--mca pml ob1 --mca btl self,vader,tcp) ;;
  ucx)
    # Open MPI refuses UCX where it finds none of the devices it was made for, unless it is told that any will do.
    settings=(--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any)
    ;;
  *) echo "mpirun.sh: --over $over is none of auto, ob1, ucx" >&2; exit 42 ;;
esac
if [ "$(id -u)" -eq 0 ]; then  # as in containers; mpirun wants to hear that it is meant
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
exec mpirun "${settings[@]}" "$@"
