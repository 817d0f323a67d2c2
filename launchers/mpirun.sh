#!/usr/bin/env bash
# Starts ranks under Open MPI with the settings that weft is measured with. Ranks on other hosts get every NCCL_*, UCX_*, WEFT_* and OMP_*
# variable that is set here: mpirun alone hands on none of them.
#   launchers/mpirun.sh [--over auto|ob1|ucx] [--interface NAME] [--numa] MPIRUN-ARGUMENTS... PROGRAM...
#     --over auto   what Open MPI chooses
#     --over ob1    Open MPI's own transports: shared memory within a node, TCP between nodes
#     --over ucx    UCX: InfiniBand or RoCE where there is any, else whatever UCX finds
#     --interface   TCP of Open MPI, NCCL and weft keeps to this interface, such as eth0
#     --numa        ranks are spread over the NUMA nodes of a host, and each keeps to one
# Example: launchers/mpirun.sh --over ucx -n 2 build/release/bin/weft-bench all_reduce --against mpi
set -euo pipefail

usage() { echo "mpirun.sh: $*" >&2; exit 42; }
over=auto interface='' settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --over) over=${2:-}; shift 2 || usage "--over needs one of auto, ob1, ucx" ;;
    --interface) interface=${2:-}; shift 2 || usage "--interface needs a name, such as eth0" ;;
    --numa) settings+=(--map-by numa --bind-to numa); shift ;;
    *) break ;;
  esac
done
case ${1:-} in
  ''|-h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; [ $# -gt 0 ] && exit 0; exit 42 ;;
esac
command -v mpirun >/dev/null || usage "there is no mpirun; launchers/setup.sh installs Open MPI"

case $over in
  auto) ;;
  ob1) settings+=(--mca pml ob1 --mca btl "self,vader,tcp") ;;
  ucx)
    # Open MPI refuses UCX where it finds none of the devices it was made for, unless it is told that any will do.
    settings+=(--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any)
    ;;
  *) usage "--over $over is none of auto, ob1, ucx" ;;
esac
if [ -n "$interface" ]; then
  interfaces=(/sys/class/net/*)
  [ -e "/sys/class/net/$interface" ] || usage "--interface $interface is none of this host's: ${interfaces[*]##*/}"
  settings+=(--mca btl_tcp_if_include "$interface" --mca oob_tcp_if_include "$interface")
  export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-$interface} WEFT_INTERFACE=${WEFT_INTERFACE:-$interface}
fi
while read -r name; do settings+=(-x "$name"); done < <(compgen -e | grep -E '^(NCCL|UCX|WEFT|OMP)_' | sort)
if [ "$(id -u)" -eq 0 ]; then  # as in containers; mpirun wants to hear that it is meant
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
exec mpirun "${settings[@]}" "$@"
