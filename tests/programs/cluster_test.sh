#!/usr/bin/env bash
# launchers/cluster.sh and launchers/mpirun.sh: what they refuse, and, where this system allows network namespaces, that the
# wire ledger is what the hosts' interfaces count. Ends with 77 (skipped) where it does not.
# usage: cluster_test.sh WEFT_BENCH WEFT_LAUNCH [UCX]   (in a build with it)
set -u
bench=$1
export WEFT_LAUNCH=$2
. "$(dirname "$0")/../support/checks.sh"
cluster="$(dirname "$0")/../../launchers/cluster.sh"
mpirun="$(dirname "$0")/../../launchers/mpirun.sh"
export ASAN_OPTIONS=detect_leaks=0  # Open MPI's own

check "mpirun.sh help" 0 "over auto" "$mpirun" --help
check "an unknown transport" 42 "--over tcp is none of auto, ob1, ucx" "$mpirun" --over tcp -n 1 true
check "ob1" 0 "backend self" "$mpirun" --over ob1 -n 1 "$bench" all_reduce -b 8 -e 8
check "ucx" 0 "backend host \(shared memory\)" "$mpirun" --over ucx --oversubscribe -n 2 "$bench" all_reduce -b 8 -e 8 --against mpi
check "cluster.sh help" 0 "up 4 1gbit" "$cluster" --help
refused_line() { check "$1" 42 "$2" "${@:3}"; }
refused_line "nothing to do" "nothing to do is named" "$cluster"
refused_line "an unknown word" "'start' is none of up, run" "$cluster" start
if [ "$(id -u)" -ne 0 ]; then
  refused_line "without root" "need root" "$cluster" up 2 1gbit
  finish && echo "skipped: the rest needs root" && exit 77
  exit 1
fi
refused_line "no hosts" "'0' is not a number of hosts" "$cluster" up 0 1gbit
refused_line "no rate" "'fast' is not a rate" "$cluster" up 2 fast
if ! ip link show weftbr0 >/dev/null 2>&1; then
  refused_line "no cluster" "no cluster is up" "$cluster" run -np 2 true
fi
if ! "$cluster" up 2 200mbit > "$work/out" 2> "$work/err"; then
  [ "$failures" -eq 0 ] || { finish; exit 1; }
  echo "skipped: $(head -n 1 "$work/err")"
  exit 77
fi
trap '"$cluster" down; rm -rf "$work"' EXIT
refused_line "a second one" "is up already" "$cluster" up 2 1gbit
check status 0 "wefth1 10.77.0.11/24 rate 200Mbit" "$cluster" status
before=$("$cluster" bytes 0)
check "two hosts of two ranks" 0 "backend host \(shared memory \+ MPI\)" "$cluster" run -np 4 "$bench" all -b 256K -e 1M -f 4 -n 1 -w 1 --json "$work/wire.json"
sent=$(($("$cluster" bytes 0) - before))
# Ranks 0 and 1 are on host 0. All kinds of operations: sums by nodes, flat exchanges, messages.
ledger=$(grep -o '"network_bytes_by_rank":\[[^]]*' "$work/wire.json" | tr -dc '0-9,' | awk -F, '{print $1 + $2}')
awk -v sent="$sent" -v ledger="$ledger" 'BEGIN {exit !(sent >= ledger && sent <= 1.08 * ledger)}' ||
  { : > "$work/out"; fail "the interface sent $sent bytes, and the ledger says $ledger"; }
# 2 (M-1) S over M nodes, whatever the ranks: no byte more than the nodes need.
grep -q '"op":"all_reduce","bytes":1048576.*"network_bytes":2097152' "$work/wire.json" || fail "all_reduce sends more than its nodes need"
if [ "${3:-}" = UCX ]; then
  check "hosts without mpirun" 0 "backend host \(shared memory \+ UCX\)" "$cluster" run --launcher weft -np 4 "$bench" all_reduce -b 8 -e 8
  lines "hosts without mpirun" 2 "on +wefth1 "
else
  echo "left out: hosts over UCX, which this build does not have"
fi
check "hosts over TCP" 0 "backend host \(shared memory \+ TCP\)" env WEFT_TRANSPORT=tcp "$cluster" run --launcher weft -np 4 "$bench" all_reduce -b 8 -e 8
# The rendezvous comes through, and the data would have to go where the other host cannot be reached.
check "an interface that does not reach the others" 75 "rank 1 was not reached at 127.0.0.1 port [0-9]+ .*rank [01] listens at 127.0.0.1|rank 0 was not reached at 127.0.0.1" \
  env WEFT_TRANSPORT=tcp WEFT_INTERFACE=lo WEFT_CONNECT_TIMEOUT=2 "$cluster" run --launcher weft -np 2 "$bench" all_reduce -b 8 -e 8
refused_line "an unknown launcher" "--launcher srun is neither mpirun nor weft" "$cluster" run --launcher srun -np 2 true
refused_line "a transport of mpirun under weft-launch" "--over is of mpirun" "$cluster" run --launcher weft --over ucx -np 2 true
"$cluster" down || fail "down"
trap 'rm -rf "$work"' EXIT
ip link show weftbr0 >/dev/null 2>&1 && fail "down left its bridge"
finish
