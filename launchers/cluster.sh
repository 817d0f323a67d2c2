#!/usr/bin/env bash
# Several hosts on this machine, for trying out what happens between hosts: a network namespace each, joined by a bridge,
# with a limited rate, a host name and a /dev/shm of their own. Needs root. Exit status: a program's own, 42 wrong usage, 70
# when the system does not allow it.
#   launchers/cluster.sh up HOSTS RATE        such as: up 4 1gbit   (each host's line, both ways; tc's units)
#   launchers/cluster.sh run [--over ob1|ucx] -np RANKS PROGRAM...   under mpirun, consecutive ranks on one host
#   launchers/cluster.sh run --launcher weft -np RANKS PROGRAM...    under weft-launch: WEFT_LAUNCH, on the PATH, or the newest build's
#   launchers/cluster.sh exec HOST PROGRAM... on one host (0 is the first)
#   launchers/cluster.sh bytes HOST           what the host has sent since `up`, in bytes, as its interface counts
#   launchers/cluster.sh status | down
# Everything it makes is called wefth*, wefttv* or weftbr0, and down removes just that, also after a crash. One cluster at
# a time; processors and memory are shared, so keep to a few ranks a processor.
set -euo pipefail

network=10.77.0
bridge=weftbr0
launchers=$(cd "$(dirname "$0")" && pwd)

say() { echo "cluster.sh: $*" >&2; }
usage() { say "$1"; say "launchers/cluster.sh --help shows what there is"; exit 42; }
is_number() { [[ $1 =~ ^[1-9][0-9]*$ ]]; }
hosts() { ip netns list 2>/dev/null | awk '/^wefth[0-9]+( |$)/ {print $1}' | sort -V; }
is_up() { ip link show "$bridge" >/dev/null 2>&1; }

need_root() {
  [ "$(id -u)" -eq 0 ] || { say "network namespaces need root; start it with sudo"; exit 42; }
  for tool in ip tc unshare; do
    command -v $tool >/dev/null || { say "there is no $tool; install iproute2 and util-linux"; exit 42; }
  done
}

down() {
  for host in $(hosts); do
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete "$host"
  done
  for link in $(ip -o link show 2>/dev/null | awk -F': ' '{print $2}' | cut -d@ -f1 | grep -E '^wefttv[0-9]+$' || true); do
    ip link delete "$link" 2>/dev/null || true
  done
  if is_up; then ip link delete "$bridge"; fi
}

up() {
  [ $# -eq 2 ] || usage "up needs the number of hosts and the rate, such as: up 4 1gbit"
  is_number "$1" && [ "$1" -le 64 ] || usage "up: '$1' is not a number of hosts from 1 to 64"
  [[ $2 =~ ^[0-9]+(\.[0-9]+)?[kmg]?bit$ ]] || usage "up: '$2' is not a rate such as 200mbit or 1gbit"
  if is_up || [ -n "$(hosts)" ]; then say "a cluster is up already; take it down first: launchers/cluster.sh down"; exit 42; fi
  # What the kernel does not allow is said once, and nothing is left behind.
  trap 'down; say "this system does not allow it (see above); nothing is left of the attempt"; exit 70' ERR
  ip link add "$bridge" type bridge
  ip addr add "$network.254/24" dev "$bridge"
  ip link set "$bridge" up
  local control=reno
  grep -qw cubic /proc/sys/net/ipv4/tcp_allowed_congestion_control && control=cubic
  for ((i = 0; i < $1; ++i)); do
    ip netns add "wefth$i"
    ip link add "wefttv$i" type veth peer name eth0 netns "wefth$i"
    ip link set "wefttv$i" master "$bridge" up
    ip -n "wefth$i" addr add "$network.$((10 + i))/24" dev eth0
    ip -n "wefth$i" link set lo up
    ip -n "wefth$i" link set eth0 up
    # Under BBR two hosts that send both ways got half the line: 32 MiB in 561 ms, where Reno takes 282.
    ip netns exec "wefth$i" sysctl -qw net.ipv4.tcp_congestion_control="$control"
    tc -n "wefth$i" qdisc add dev eth0 root tbf rate "$2" burst 256kb latency 50ms
    tc qdisc add dev "wefttv$i" root tbf rate "$2" burst 256kb latency 50ms
  done
  trap - ERR
  echo "$1 hosts at $2: $(hosts | tr '\n' ' ')"
}

# Open MPI starts its daemons through this, and weft-launch its process on a host: HOST COMMAND...
agent() {
  while [ "${1#-}" != "$1" ]; do shift; done
  local host=$1
  shift
  exec ip netns exec "$host" unshare --mount --uts --ipc sh -c \
    "hostname $host; mount -t tmpfs -o size=1g tmpfs /dev/shm; exec sh -c '${*//\'/\'\\\'\'}'"
}

# The weft-launch that WEFT_LAUNCH names, else the one on the PATH, else the newest that was built here.
weft_launch() {
  local found=${WEFT_LAUNCH:-$(command -v weft-launch)} built
  if [ -z "$found" ]; then
    for built in "$launchers"/../build/*/bin/weft-launch; do
      if [ -z "$found" ] || [ "$built" -nt "$found" ]; then found=$built; fi
    done
  fi
  [ -x "$found" ] || { say "there is no weft-launch; build weft, or say where it is: WEFT_LAUNCH"; exit 42; }
  realpath "$found"
}

run_weft() {
  local program slots=$(((ranks + ${#all[@]} - 1) / ${#all[@]}))
  program=$(weft_launch)
  export UCX_TLS=${UCX_TLS:-tcp,self} UCX_NET_DEVICES=${UCX_NET_DEVICES:-eth0}
  exec "$program" --hosts <(printf "%s slots=$slots\n" "${all[@]}") --agent "$launchers/cluster.sh agent" \
    --address "$network.10" --output plain -n "$ranks" "$@"
}

run() {
  is_up || usage "run: no cluster is up; start one: launchers/cluster.sh up 4 1gbit"
  local over="" ranks="" launcher=mpirun
  while [ $# -gt 0 ]; do
    case $1 in
      --over) over=${2:-}; shift 2 || usage "run: --over needs ob1 or ucx" ;;
      --launcher) launcher=${2:-}; shift 2 || usage "run: --launcher needs mpirun or weft" ;;
      -np|-n) ranks=${2:-}; shift 2 || usage "run: $1 needs a number" ;;
      *) break ;;
    esac
  done
  is_number "$ranks" || usage "run: -np '$ranks' is not a number of ranks"
  [ $# -gt 0 ] || usage "run: no program is named"
  local all
  mapfile -t all < <(hosts)
  case $launcher in
    mpirun) run_mpi "$@" ;;
    weft) [ -z "$over" ] || usage "run: --over is of mpirun; weft-launch takes WEFT_TRANSPORT"; run_weft "$@" ;;
    *) usage "run: --launcher $launcher is neither mpirun nor weft" ;;
  esac
}

run_mpi() {
  local list slots=$(((ranks + ${#all[@]} - 1) / ${#all[@]}))
  list=$(printf "%s:$slots," "${all[@]}")
  local tcp=(--mca btl_tcp_if_include "$network.0/24")
  over=${over:-ob1}
  [ "$over" = ucx ] && tcp=(-x "UCX_TLS=tcp,self,sysv,posix" -x UCX_NET_DEVICES=eth0)
  # The hosts share this machine's processors: ranks are not bound, and a rank that waits gives its core away.
  exec "$launchers/mpirun.sh" --over "$over" "${tcp[@]}" --mca oob_tcp_if_include "$network.0/24" --mca plm rsh \
    --mca plm_rsh_agent "$launchers/cluster.sh agent" --mca plm_rsh_no_tree_spawn 1 --mca mpi_yield_when_idle 1 \
    --bind-to none --host "${list%,}" -np "$ranks" "$@"
}

on_host() {
  is_number "$((${1:--1} + 1))" 2>/dev/null && ip netns list | grep -E "^wefth$1( |$)" > /dev/null || usage "'${1:-}' is no host of a running cluster"
}

case ${1:-} in
  up) shift; need_root; up "$@" ;;
  run) shift; need_root; run "$@" ;;
  exec)
    shift; need_root; on_host "${1:-}"; host=wefth$1; shift
    [ $# -gt 0 ] || usage "exec: no program is named"
    exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$host" "$@"
    ;;
  bytes) shift; need_root; on_host "${1:-}"; ip netns exec "wefth$1" cat /sys/class/net/eth0/statistics/tx_bytes ;;
  status)
    if is_up; then
      for host in $(hosts); do
        echo "$host $(ip -n "$host" -4 -o addr show eth0 | awk '{print $4}') $(tc -n "$host" qdisc show dev eth0 | grep -o 'rate [^ ]*')"
      done
    else
      echo "no cluster is up"
    fi
    ;;
  down) need_root; down ;;
  agent) shift; agent "$@" ;;
  -h|--help) sed -n '2,14s/^# \{0,1\}//p' "$0" ;;
  '') usage "nothing to do is named" ;;
  *) usage "'$1' is none of up, run, exec, bytes, status, down" ;;
esac
