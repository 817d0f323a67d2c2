#!/bin/bash
# Ranks that fork while they communicate, over each transport of this build: what the child tries is refused, and disturbs no parent.
# usage: fork_test.sh BIN [MPIRUN]
set -u
bin=$(realpath "$1")
mpirun=${2:-}
. "$(dirname "$0")/../support/checks.sh"
# Each rank a node of its own, where the transport is one between nodes.
apart='WEFT_HOST_ID=host-${WEFT_RANK:-${OMPI_COMM_WORLD_RANK:-0}} exec "$@"'

# goes_on NAME RANKS PATTERN COMMAND...: with each way in which the child may end
goes_on() {
  local name=$1 ranks=$2 pattern=$3
  shift 3
  for how in returns exits throws "returns queued"; do
    mkdir "$work/children"
    # shellcheck disable=SC2086
    check "$name, the child $how" 0 "$pattern" "$@" "$bin/fork_probe" "$work/children" $how
    lines "$name, the child $how" "$ranks" "^rank [0-9]+ went on"
    rm -rf "$work/children"
  done
}
over() { "$bin/weft-launch" --version | grep -q "$1"; }

goes_on "shared memory" 3 "over host \(shared memory\)" "$bin/weft-launch" -n 3
export WEFT_TRANSPORT
WEFT_TRANSPORT=tcp
over TCP && goes_on "TCP" 2 "TCP" "$bin/weft-launch" -n 2 sh -c "$apart" sh
WEFT_TRANSPORT=ucx
over UCX && goes_on "UCX" 2 "UCX" "$bin/weft-launch" -n 2 sh -c "$apart" sh
WEFT_TRANSPORT=mpi
[ -n "$mpirun" ] && goes_on "MPI" 2 "MPI" "$mpirun" -n 2 --oversubscribe --bind-to none sh -c "$apart" sh
finish
