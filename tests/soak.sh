#!/usr/bin/env bash
# Trials that take longer than a test may.
#   tests/soak.sh mixes [COUNT [BIN]]    random mixes of collectives against the sequential reference (1000)
#   tests/soak.sh kills [COUNT [BIN]]    kill -9 of one rank at random moments (200): every survivor names it, within 5 s under
#                                        weft-launch and 0.8 s under mpirun, and nothing stays in /dev/shm
# BIN: where the programs are (build/dev/bin). SEED=N begins elsewhere.
set -uo pipefail
cd "$(dirname "$0")/.."
trial=${1:-}
bin=${3:-build/dev/bin}
seed=${SEED:-1}

mixes() {
  WEFT_MIXES=${1:-1000} WEFT_SEED=$seed exec "$bin/conformance_mixes"
}

kills() {
  local count=${1:-200} failed=0
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local launchers=(launch)
  command -v mpirun >/dev/null && launchers+=(mpirun)
  ls /dev/shm > "$work/before"
  for launcher in "${launchers[@]}"; do
    local limit=5
    [ "$launcher" = mpirun ] && limit=0.8
    : > "$work/times"
    for ((i = 0; i < count; ++i)); do
      local ranks=$((2 + (seed + i) % 3)) victim
      victim=$(((seed + i) / 3 % ranks))
      rm -f "$work/killed"
      if [ "$launcher" = mpirun ]; then
        timeout 60 mpirun --bind-to none --oversubscribe -n $ranks "$bin/soak_victim" $victim $((seed + i)) "$work/killed" > "$work/out" 2>&1
      else
        timeout 60 "$bin/weft-launch" -n $ranks "$bin/soak_victim" $victim $((seed + i)) "$work/killed" > "$work/out" 2>&1
      fi
      if [ "$(grep -c ' named ' "$work/out")" -ne $((ranks - 1)) ]; then
        echo "FAILED: $launcher, seed $((seed + i)), rank $victim of $ranks killed: not every survivor named it"
        sed 's/^/    | /' "$work/out"
        failed=$((failed + 1))
      fi
      grep -o 'survivor [0-9]* named [0-9.-]*' "$work/out" | awk '{print $4}' >> "$work/times"
    done
    sort -g "$work/times" | awk -v limit=$limit -v name="$launcher" '
      {time[NR] = $1} $1 > limit {late++}
      END {printf "%s: %d survivors named the dead rank; seconds: median %.3f, longest %.3f, %d above %s\n",
           name, NR, time[int((NR + 1) / 2)], time[NR], late, limit; exit late > 0}' || failed=$((failed + 1))
  done
  ls /dev/shm > "$work/after"
  if ! diff "$work/before" "$work/after"; then
    echo "FAILED: something stayed in /dev/shm"
    failed=$((failed + 1))
  fi
  echo "$failed failed"
  [ $failed -eq 0 ]
}

case $trial in
  mixes|kills) $trial "${2:-}" ;;
  *) echo "soak.sh: '$trial' is neither mixes nor kills" >&2; exit 42 ;;
esac
