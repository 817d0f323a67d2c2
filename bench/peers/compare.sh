#!/usr/bin/env bash
# weft beside PyTorch DDP over gloo at the workload mlp-8x1024, round after round in turn: one table. Plain DDP, its fp16
# hook and its PowerSGD hook of rank 4, each as a share of its own step without communication.
#   bench/peers/compare.sh [--ranks N] [--hosts H:RATE] [--rounds K] [--steps S] [--bin DIR] [--python PYTHON] [--json FILE]
#     --ranks N       processes (2, or one on each host), a thread each
#     --hosts H:RATE  on H hosts of launchers/cluster.sh, such as 4:1gbit, made and taken down here; else in shared memory
#     --rounds K      rounds (3); in every second one torch goes first
#     --steps S       training steps of every strategy in a round (40), of which three are not timed
#     --bin DIR       where weft-scaling is (build/release/bin of this tree)
#     --python PYTHON interpreter that has torch; else the first of .venv/bin/python3 of this tree, python3 and
#                     /usr/bin/python3 that does
#     --json FILE     write the figures to FILE, - for standard output
# Example: bench/peers/compare.sh --hosts 4:1gbit --rounds 3 --json build/peers.json
# Exit status: 0 done, 42 wrong usage, 70 when something failed on the way.
set -euo pipefail

weft_strategies=nocomm,ddp,ddp+fp16,ddp+powersgd:4
torch_strategies=no_sync,ddp,ddp+fp16,ddp+powersgd:4

peers=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$peers/../.." && pwd)
ranks='' hosts='' rounds=3 steps=40 bin=$root/build/release/bin python='' json=''

say() { echo "compare.sh: $*" >&2; }
refuse() { say "$*"; exit 42; }
is_number() { [[ $1 =~ ^[1-9][0-9]{0,5}$ ]]; }

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      -h|--help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
      --ranks|--hosts|--rounds|--steps|--bin|--python|--json)
        [ -n "${2:-}" ] || refuse "$1 needs a value; bench/peers/compare.sh --help shows which"
        printf -v "${1#--}" %s "$2"
        shift 2
        ;;
      *) refuse "'$1' is none of --ranks, --hosts, --rounds, --steps, --bin, --python, --json" ;;
    esac
  done
}

check() {
  is_number "$rounds" || refuse "--rounds $rounds is not a number of 1 or more"
  # With fewer, weft-scaling leaves out fewer steps than torch.
  is_number "$steps" && [ "$steps" -ge 12 ] ||
    refuse "--steps $steps is not a number of 12 or more; three are not timed"
  if [ -n "$hosts" ]; then
    [[ $hosts =~ ^([2-9]|[1-5][0-9]|6[0-4]):[0-9]+(\.[0-9]+)?[kmg]?bit$ ]] ||
      refuse "--hosts $hosts is not 2 to 64 hosts and a rate, such as 4:1gbit"
    ranks=${ranks:-${hosts%%:*}}
    is_number "$ranks" && [ "$ranks" -ge "${hosts%%:*}" ] ||
      refuse "--ranks $ranks is not a number of ${hosts%%:*} or more, one on each host"
  fi
  ranks=${ranks:-2}
  is_number "$ranks" && [ "$ranks" -ge 2 ] || refuse "--ranks $ranks is not a number of 2 or more"
  [ -z "$json" ] || [ "$json" = - ] || [ -d "$(dirname "$json")" ] ||
    refuse "--json $json: there is no folder $(dirname "$json")"
  [ -x "$bin/weft-scaling" ] ||
    refuse "no weft-scaling in $bin; build it: cmake --preset release && cmake --build --preset release --target" \
      "weft-scaling, or name its folder: --bin DIR"
  bin=$(cd "$bin" && pwd)
}

# Sets $python to the interpreter that torch runs in.
find_torch() {
  local candidate path reason
  if [ -n "$python" ]; then
    path=$(command -v "$python") || refuse "--python $python: there is no such program"
    path=$(realpath -s "$path")
    reason=$("$path" "$peers/torch_ddp.py" --version 2>&1 >/dev/null) ||
      refuse "--python $python cannot run torch: $(tail -n 1 <<<"$reason")"
    python=$path
    return 0
  fi
  for candidate in "$root/.venv/bin/python3" python3 /usr/bin/python3; do
    path=$(command -v "$candidate") || continue
    if "$path" "$peers/torch_ddp.py" --version >/dev/null 2>&1; then python=$path; return; fi
  done
  refuse "no Python here has torch and numpy; launchers/setup.sh peers installs Debian's," \
    "python3 -m venv .venv && .venv/bin/pip install torch numpy a newer one, and --python PYTHON names another"
}

# Programs do not say their version: that of the tree they were built from, as it is now.
weft_version() {
  local cache=$bin/../CMakeCache.txt commit
  [ -r "$cache" ] || { echo "of $bin"; return; }
  of_cache() { sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
  commit=$(git -C "$(of_cache CMAKE_HOME_DIRECTORY)" describe --always --dirty --exclude '*' 2>/dev/null) || commit='no commit'
  echo "$(of_cache CMAKE_PROJECT_VERSION) ($commit, $(of_cache CMAKE_BUILD_TYPE))"
}

running='' cluster='' work=''
clean() {
  trap '' INT TERM HUP
  if [ -n "$running" ]; then
    kill "$running" 2>/dev/null || true
    for ((i = 0; i < 50; ++i)); do kill -0 "$running" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$running" 2>/dev/null || true
  fi
  [ -z "$cluster" ] || "$root/launchers/cluster.sh" down || say "the hosts are still up: launchers/cluster.sh down"
  [ -z "$work" ] || rm -rf "$work"
}

on_signals() { trap 'exit 130' INT; trap 'exit 143' TERM HUP; }

# A cluster that is half made would have no owner: signals are ignored until it is complete and ours.
make_hosts() {
  trap '' INT TERM HUP
  "$root/launchers/cluster.sh" up "${hosts%%:*}" "${hosts#*:}" >&2 || exit $?
  cluster=up
  on_signals
}

# run NAME OUTPUT COMMAND...: in the background, so that a signal is heard at once
run() {
  local name=$1 output=$2 status=0
  shift 2
  "${launch[@]}" "$@" >"$output" 2>"$work/errors" &
  running=$!
  wait "$running" || status=$?
  running=''
  [ $status -eq 0 ] && return
  tail -n 20 "$work/errors" >&2
  say "$name of round $round ended with $status; see above"
  exit 70
}

run_weft() {
  run weft-scaling "$work/weft.log" "$bin/weft-scaling" --model mlp-8x1024 --strategies "$weft_strategies" --steps "$steps" \
    --json "$work/weft-$round.json"
}

run_torch() {
  run torch_ddp.py "$work/torch-$round.json" env GLOO_SOCKET_IFNAME="$interface" "$python" "$peers/torch_ddp.py" \
    --rendezvous "file://$work/store-$round" --strategies "$torch_strategies" --steps "$steps"
}

parse "$@"
check
find_torch
trap clean EXIT
on_signals
work=$(mktemp -d)
if [ -n "$hosts" ]; then
  make_hosts
  launch=("$root/launchers/cluster.sh" run -np "$ranks")
  interface=eth0 setting="${hosts%%:*} hosts at ${hosts#*:}"
else
  launch=("$root/launchers/mpirun.sh" --oversubscribe -n "$ranks")
  interface=lo setting='shared memory'
fi

weft_files=() torch_files=()
for ((round = 1; round <= rounds; ++round)); do
  turns=(weft torch)
  if ((round % 2 == 0)); then turns=(torch weft); fi
  for peer in "${turns[@]}"; do
    say "round $round of $rounds: $peer"
    "run_$peer"
  done
  weft_files+=("$work/weft-$round.json")
  torch_files+=("$work/torch-$round.json")
done
"$python" "$peers/table.py" --weft "${weft_files[@]}" --torch "${torch_files[@]}" --setting "$setting" --steps "$steps" \
  --weft-version "$(weft_version)" --python "$python" ${json:+--json "$json"}
