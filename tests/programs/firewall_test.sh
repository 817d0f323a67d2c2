#!/usr/bin/env bash
# A firewall that lets the rendezvous through and no other port: after the time to connect every rank names whom it misses. One that lets a
# second address through: there they meet. Two network namespaces of its own; their routing rules drop the rest. Ends with 77 (skipped) where
# this system does not allow them.
# usage: firewall_test.sh WEFT_BENCH [UCX]   (in a build with it)
set -u
bench=$1
. "$(dirname "$0")/../support/checks.sh"
export ASAN_OPTIONS=detect_leaks=0 WEFT_FLIGHT_DIR=off WEFT_CONNECT_TIMEOUT=3 WEFT_TIMEOUT=20
port=29477
pair=weftfw$$
[ "$(id -u)" -eq 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
remove() { for host in a b; do ip netns delete "$pair$host" 2> /dev/null; done; rm -rf "$work"; }
trap remove EXIT
# Incoming TCP other than the store's is dropped without an answer.
make() {
  ip netns add "${pair}a" && ip netns add "${pair}b" &&
    ip link add eth0 netns "${pair}a" type veth peer name eth0 netns "${pair}b" || return 1
  local number=1 host
  for host in a b; do
    ip="ip -n $pair$host"
    $ip addr add 10.78.0.$number/24 dev eth0 && $ip link set lo up && $ip link set eth0 up &&
      $ip rule add pref 1 iif eth0 ipproto tcp dport $port lookup local &&
      $ip rule add pref 2 iif eth0 ipproto tcp sport $port lookup local &&
      $ip rule add pref 3 iif eth0 ipproto tcp blackhole &&
      $ip rule add pref 4 lookup local && $ip rule del pref 0 || return 1
    number=2
  done
}
make 2> "$work/err" || { echo "skipped: $(head -n 1 "$work/err")"; exit 77; }
is_up() { ip -n "${pair}a" link show eth0 | grep 'state UP' > /dev/null && ip -n "${pair}b" link show eth0 | grep 'state UP' > /dev/null; }
until_true 5 is_up || fail "the link does not come up"

# on HOST RANK: one of two ranks; the token stays out of command lines
on() {
  WEFT_RANK=$2 WEFT_SIZE=2 WEFT_HOST_ID=$1 WEFT_RENDEZVOUS=tcp://10.78.0.1:$port ip netns exec "$pair$1" \
    "$bench" all_reduce -b 8 -e 8
}
both() {
  on a 0 & local first=$!
  on b 1
  local status=$?
  wait $first && return $status
}
export -f on both
export bench pair port
# through NAME TRANSPORT STATUS PATTERN-OF-RANK-0 PATTERN-OF-RANK-1
through() {
  export WEFT_TRANSPORT=$2
  check "$1" "$3" "$4" bash -c both
  lines "$1, the other side" 1 "$5"
}
WEFT_TOKEN=$(printf 'a%.0s' {1..64})
export WEFT_TOKEN
through "TCP" tcp 75 "rank 0: connect: .*: rank 1 did not call" "rank 1: connect: .*: rank 0 was not reached at 10.78.0.1"
[ "${2:-}" != UCX ] || through "UCX" ucx 75 "rank 0: connect: UCX did not connect the ranks within 3 s: rank 1 was not heard" \
  "rank 1: connect: UCX did not connect the ranks within 3 s: rank 0 was not heard"
# A firewall that refuses connections, and lets them through a second later: the ranks call again. (Only a kernel that forwards says that it refuses.)
if [ "${2:-}" = UCX ]; then
  for host in a b; do
    ip netns exec "$pair$host" sysctl -qw net.ipv4.ip_forward=1
    ip -n "$pair$host" rule add pref 2 iif eth0 ipproto tcp prohibit
  done
  opens() { sleep 1.5; for host in a b; do ip -n "$pair$host" rule add pref 0 iif eth0 ipproto tcp lookup local; done; }
  opens &
  through "UCX, where ports are opened later" ucx 0 "Avg bus bandwidth" "Avg bus bandwidth"
  wait
  for host in a b; do ip -n "$pair$host" rule del pref 0; ip -n "$pair$host" rule del pref 2 prohibit; done
fi
# Both hosts get a second address, which it lets through: that is called when the first one stays silent.
number=1
for host in a b; do
  ip -n "$pair$host" addr add 10.79.0.$number/24 dev eth0
  ip -n "$pair$host" rule add pref 2 iif eth0 to 10.79.0.0/24 lookup local
  number=2
done
through "TCP, at a second address" tcp 0 "Avg bus bandwidth" "Avg bus bandwidth"
unset WEFT_TOKEN
through "no token between hosts" tcp 42 "rank 0: the ranks are to meet .* without a token.*WEFT_TOKEN" "rank 1: .* without a token"
WEFT_TOKEN=$(printf 'a%.0s' {1..64})
export WEFT_TOKEN
for host in a b; do ip -n "$pair$host" rule del pref 3; done
through "no firewall" tcp 0 "Avg bus bandwidth" "Avg bus bandwidth"
finish
