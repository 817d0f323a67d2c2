#!/usr/bin/env bash
# What carries data between nodes: which transport is taken, and what is refused. Ranks are processes of this machine, each told
# that it is a node of its own.
#   usage: transports_test.sh LAUNCH PEER SCALING [MPIRUN]; ends with the number of checks that failed
set -uo pipefail
launch=$1 peer=$2 scaling=$3 mpirun=${4:-}
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/checks.sh"
export RANKS_PER_NODE=1 WEFT_TIMEOUT=20 WEFT_CONNECT_TIMEOUT=20

# job NAME STATUS PATTERN [VARIABLE=VALUE...]: two ranks on two nodes, without MPI
job() { check "$1" "$2" "$3" env "${@:4}" "$launch" -n 2 "$here/conformance/on_many_nodes.sh" "$peer" job 0.1; }
# differing NAME STATUS PATTERN ASSIGNMENT: rank 1 alone has the variable
differing() {
  check "$1" "$2" "$3" "$launch" -n 2 sh -c "[ \$WEFT_RANK = 0 ] || export $4; exec '$here/conformance/on_many_nodes.sh' '$peer' job 0.1"
}

job "without MPI over UCX" 0 "rank 1 done"
job "UCX, asked for" 0 "rank 1 done" WEFT_TRANSPORT=ucx
job "a transport that is none" 42 "WEFT_TRANSPORT=carrier-pigeon is none of auto, ucx, tcp, mpi" WEFT_TRANSPORT=carrier-pigeon
job "MPI without mpirun" 42 "the 2 ranks are on 2 nodes .rank 0 on 'node-0', rank 1 on 'node-1'., and they did not meet through MPI.*start them with mpirun" WEFT_TRANSPORT=mpi
job "a network device that does not exist" 70 "UCX does not reach rank [01]: .*UCX_NET_DEVICES" UCX_NET_DEVICES=nosuch0
job "a transport of UCX that does not exist" 70 "rank 0 cannot use UCX: ucp_init failed" UCX_TLS=nosuch
differing "UCX on one rank alone" 70 "rank 1 cannot use UCX: ucp_init failed" UCX_TLS=nosuch
lines "UCX on one rank alone, said by both" 2 "rank 1 cannot use UCX"
differing "different transports" 42 "rank 1 has WEFT_TRANSPORT=ucx, rank 0 has WEFT_TRANSPORT=auto" WEFT_TRANSPORT=ucx
lines "different transports, said by both" 2 "rank 1 has WEFT_TRANSPORT=ucx"
mkdir "$work/broken" && echo "no library" > "$work/broken/libucp.so.0"
job "a broken installation of UCX" 70 "rank 0 cannot use UCX: UCX cannot be loaded: .*libucp.so.0: .*install UCX" \
  LD_LIBRARY_PATH="$work/broken${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
check "weft-scaling names UCX" 0 "0 -> 1, 1 -> 0: UCX" "$launch" -n 2 "$here/conformance/on_many_nodes.sh" \
  "$scaling" --model gpt-tiny --steps 4 --strategies ddp
job "TCP" 0 "rank 1 done" WEFT_TRANSPORT=tcp
job "TCP over an interface that is named" 0 "rank 1 done" WEFT_TRANSPORT=tcp WEFT_INTERFACE=lo
job "an interface that does not exist" 42 "rank 0 cannot use TCP: WEFT_INTERFACE=nosuch0 names no interface of this machine" \
  WEFT_TRANSPORT=tcp WEFT_INTERFACE=nosuch0
export WEFT_TRANSPORT=tcp
differing "an interface that does not exist on one rank alone" 42 "rank 1 cannot use TCP" WEFT_INTERFACE=nosuch0
lines "an interface that does not exist on one rank alone, said by both" 2 "rank 1 cannot use TCP"
unset WEFT_TRANSPORT
check "weft-scaling names TCP" 0 "0 -> 1, 1 -> 0: TCP" env WEFT_TRANSPORT=tcp "$launch" -n 2 \
  "$here/conformance/on_many_nodes.sh" "$scaling" --model gpt-tiny --steps 4 --strategies ddp
if [ -n "$mpirun" ]; then
  for transport in ucx tcp mpi; do
    check "under mpirun over $transport" 0 "rank 1 done" env WEFT_TRANSPORT=$transport ASAN_OPTIONS=detect_leaks=0 \
      "$mpirun" --oversubscribe --bind-to none -n 2 "$here/conformance/on_many_nodes.sh" "$peer" job 0.1
  done
fi
finish
