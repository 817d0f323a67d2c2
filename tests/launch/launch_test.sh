#!/bin/bash
# weft-launch, and ranks under every launcher there is here: statuses, lines, and that nothing is left behind.
# usage: launch_test.sh PATH_OF_WEFT_LAUNCH PATH_OF_PROBE [PATH_OF_MPIRUN PATH_OF_MPI_PROBE]   (without: their cases are
# left out)
set -u
launch=$1 probe=$2 mpirun=${3:-} mpi_probe=${4:-}
. "$(dirname "$0")/../support/checks.sh"
export TMPDIR=$work/tmp
mkdir "$TMPDIR"

nothing_left() {
  local left
  left=$(find "$TMPDIR" -mindepth 1 -maxdepth 1 ! -name 'ompi.*')  # Open MPI's own, which its daemon removes a moment later
  if [ -n "$left" ]; then fail "$1: left in $TMPDIR: $left"; fi
  # A rank carries its rendezvous below TMPDIR in its environment.
  left=$(grep -lsz "^WEFT_RENDEZVOUS=file://$TMPDIR" /proc/[0-9]*/environ 2> /dev/null)
  if [ -n "$left" ]; then fail "$1: processes left: $left"; fi
  left=$(guardians)
  if [ -n "$left" ]; then fail "$1: guardians left: $left"; fi
}

# Those of weft-launch with this TMPDIR: other tests have theirs.
guardians() {
  local process
  for process in $(pgrep -x weft-guardian); do
    if grep -qsz "^TMPDIR=$TMPDIR$" "/proc/$process/environ"; then echo "$process"; fi
  done
}

waiting() { [ "$(grep -c waits "$work/out")" -eq "$1" ]; }
sleeping() { [ "$(grep -c sleeps "$work/out")" -eq "$1" ]; }

# --- what weft-launch refuses
refused "no arguments" "-n is missing" "$launch"
refused "no program" "the program to start is missing" "$launch" -n 2
refused "no program after --" "the program to start is missing" "$launch" -n 2 --
refused "zero ranks" "-n 0 is not a number of ranks from 1" "$launch" -n 0 true
refused "negative ranks" "-n -3 is not a number of ranks" "$launch" -n -3 true
refused "ranks that are no number" "two" "$launch" -n two true
refused "unknown option" "--rank" "$launch" --rank 2 true
refused "abbreviated option" "--time" "$launch" -n 1 --time 3 true
refused "bad timeout" "--timeout -1" "$launch" -n 1 --timeout -1 true
refused "program not on the PATH" "program no-such-program is not on the PATH" "$launch" -n 2 no-such-program
refused "program not there" "program ./no-such-program does not exist" "$launch" -n 2 ./no-such-program
refused "program not executable" "is not an executable file" "$launch" -n 2 /etc/passwd
echo "no program at all" > "$work/text" && chmod +x "$work/text"
refused "program the kernel cannot run" "cannot start $work/text: Exec format error" "$launch" -n 2 "$work/text"
refused "folder for a program" "is not an executable file" "$launch" -n 2 /tmp
refused "unknown option of env" "--documents" "$launch" env --documents
refused "environment that contradicts itself" "PMI: rank 0 of 2 . RANK/WORLD_SIZE: rank 1 of 4" \
  env PMI_RANK=0 PMI_SIZE=2 RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1 "$launch" env --json -
refused "a TMPDIR that is not there" "TMPDIR=/no/such/folder is no folder" env TMPDIR=/no/such/folder "$launch" -n 1 true
nothing_left "refusals"

# --- what it tells
check "help" 0 "weft-launch -n 2 --timeout 600" "$launch" --help
check "help of env" 0 "mpirun -n 2 weft-launch env" "$launch" env --help
check "env of nobody" 0 "believed: single process, rank 0 of 1" "$launch" env
check "env of torchrun" 0 "believed: torchrun, rank 1 of 4" \
  env TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1 "$launch" env
check "env as JSON" 0 '"decision":\{"launcher":"torchrun","rank":1,"size":4,.*"rendezvous":"tcp://a:1"' \
  env TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1 "$launch" env --json -
full_output "help" "$launch" --help
full_output "env" "$launch" env
check "table of variables" 0 '^\| .WEFT_RANK. \|' "$launch" env --document

# --- ranks that do well
check "one rank" 0 "rank 0 of 1" "$launch" -n 1 "$probe"
check "four ranks" 0 "rank 3 of 4 by options or WEFT_RANK, group 1 of 2" "$launch" -n 4 "$probe"
lines "four ranks" 4 "^rank [0-3] of 4"
check "arguments that look like ours" 0 "^<-n><--help><--><>$" "$launch" -n 1 -- printf "<%s><%s><%s><%s>\n" -n --help -- ""
check "variables of an outer launcher" 0 "rank 1 of 2 by options" \
  env OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=9 PMIX_NAMESPACE=x PMIX_RANK=7 RANK=5 WORLD_SIZE=6 MASTER_ADDR=a \
  MASTER_PORT=1 TORCHELASTIC_RUN_ID=x WEFT_RANK=3 WEFT_SIZE=4 WEFT_RENDEZVOUS=tcp://a:1 SLURM_STEP_ID=0 "$launch" -n 2 "$probe"
check "what a rank finds" 0 "^1 2 1 2 1 2 1 2 none none none$" env MASTER_ADDR=a MASTER_PORT=1 PMI_FD=3 "$launch" -n 2 \
  sh -c 'echo $WEFT_RANK $WEFT_SIZE $WEFT_LOCAL_RANK $WEFT_LOCAL_SIZE $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE \
  ${MASTER_ADDR:-none} ${MASTER_PORT:-none} ${PMI_FD:-none}'
check "settings of NCCL and UCX" 0 "^INFO n 1s$" env NCCL_DEBUG=INFO UCX_TCP_CONN_NB=n UCX_KEEPALIVE_INTERVAL=1s "$launch" -n 1 \
  sh -c 'echo $NCCL_DEBUG $UCX_TCP_CONN_NB $UCX_KEEPALIVE_INTERVAL'
nothing_left "ranks that do well"

# --- one of several that make up a job
node_0=("$launch" --nodes 2 --node 0 -n 2 --address) node_1=("$launch" --nodes 2 --node 1 -n 2 --address)
refused "a node alone" "--node is given without --nodes" "$launch" --node 1 -n 1 true
refused "nodes without a number" "--nodes is given without --node" "$launch" --nodes 2 -n 1 true
refused "no nodes" "--nodes 0 is not a number of nodes" "$launch" --nodes 0 --node 0 -n 1 true
refused "a node too high" "--node 2 is not below --nodes 2" "$launch" --nodes 2 --node 2 -n 1 true
refused "nodes without a port" "--address 'pod-0.pods' has no port" "$launch" --nodes 2 --node 0 --address pod-0.pods -n 1 true
refused "nodes without an address" "--address '' has no port" "$launch" --nodes 2 --node 0 -n 1 true
refused "nodes with hosts" "--nodes and --hosts are given" "$launch" --nodes 2 --node 0 --hosts /dev/null -n 1 true
refused "nodes without a token" "neither WEFT_TOKEN nor WEFT_TOKEN_FILE is set" "${node_0[@]}" 127.0.0.1:5 true
refused "too many ranks on nodes" "more than 4096 ranks" "$launch" --nodes 4096 --node 0 -n 2 --address a:1 true
check "one node" 0 "rank 1 of 2" "$launch" --nodes 1 --node 0 -n 2 "$probe"
show='echo $WEFT_RANK $WEFT_SIZE $WEFT_LOCAL_RANK $WEFT_LOCAL_SIZE $WEFT_RENDEZVOUS'
export WEFT_TOKEN=0123456789abcdef
check "what a rank of node 1 finds" 0 "^3 4 1 2 tcp://127.0.0.1:5$" "${node_1[@]}" 127.0.0.1:5 sh -c "$show"
port=$((20000 + $$ % 10000))
WEFT_HOST_ID=b "${node_1[@]}" 127.0.0.1:$port "$probe" > "$work/second" 2>&1 & second=$!
check "two nodes" 0 "rank 1 of 4 by options or WEFT_RANK" env WEFT_HOST_ID=a "${node_0[@]}" 127.0.0.1:$port "$probe"
wait $second || { cp "$work/second" "$work/out"; fail "the second node: status $?"; }
grep -q "rank 3 of 4" "$work/second" || fail "the second node did not say rank 3 of 4"
unset WEFT_TOKEN
nothing_left "nodes"

# --- ranks that fail
check "status of the first rank that fails" 3 "weft-launch: rank 1 \(pid [0-9]+\) ended with status 3" \
  env WEFT_CONNECT_TIMEOUT=1 "$launch" -n 3 "$probe" exit 1 3
lines "the others name it" 2 "rank 1 has ended before all ranks met for probe"
check "a rank that ends before it comes" 3 "rank 0: rank 1 has ended before all ranks met for probe: it ended with status 3" "$launch" -n 3 \
  sh -c '[ $WEFT_RANK != 1 ] || exit 3; exec "$0"' "$probe"
lines "a rank that ends before it comes: all name it" 2 "rank 1 has ended before all ranks met for probe: it ended with status 3"
check "rank killed by a signal" 75 "weft-launch: rank 2 \(pid [0-9]+\) was killed by signal 9" \
  env WEFT_CONNECT_TIMEOUT=1 "$launch" -n 3 "$probe" kill 2
# A rank that takes more memory than its control group may: where this user can make such a group (cgroup v1 or v2).
memory=/sys/fs/cgroup/memory/weft-test-$$ limit=memory.limit_in_bytes
if [ ! -d /sys/fs/cgroup/memory ]; then memory=/sys/fs/cgroup/weft-test-$$ limit=memory.max; fi
if mkdir "$memory" 2> /dev/null && echo 67108864 2> /dev/null > "$memory/$limit"; then
  echo "echo \$\$ > $memory/cgroup.procs; exec \"\$@\"" > "$work/limited"
  check "a rank that takes more than the container has" 75 \
    "weft-launch: rank 0 \(pid [0-9]+\) was killed by signal 9: the memory limit of 67108864 bytes was reached \($memory/$limit\)" \
    sh "$work/limited" "$launch" -n 1 sh -c 'all=$(head -c 150000000 /dev/zero | tr "\\0" x)'
else
  echo "left out: a rank that takes more than the container has: this user makes no control groups with a limit"
fi
rmdir "$memory" 2> /dev/null
check "rank that never comes" 75 "rank 0: rank 1 of 2 did not arrive within 1.0 s for probe" \
  env WEFT_CONNECT_TIMEOUT=1 "$launch" -n 2 "$probe" absent 1
lines "it is ended" 1 "weft-launch: ending rank 1$"
check "ranks deaf to SIGTERM" 3 "weft-launch: killing ranks 1, 2$" "$launch" -n 3 "$probe" deaf
check "job that takes too long" 75 "ranks 0, 1 still running after 0.5 s" "$launch" -n 2 --timeout 0.5 sleep 50
check "what a rank started ends with it" 0 "started" "$launch" -n 2 sh -c 'sleep 55 & echo started'
nothing_left "ranks that fail"

# --- signals
: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 "$probe" signal > "$work/out" 2> "$work/err" & job=$!
if until_true 20 waiting 2; then
  kill -USR1 $job
  wait $job
  status=$?
  if [ $status -ne 0 ] || [ "$(grep -c 'got signal 10' "$work/out")" -ne 2 ]; then fail "SIGUSR1: status $status"; else echo "ok: SIGUSR1"; fi
else
  fail "SIGUSR1: the ranks did not start"
  kill $job
fi

: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 sh -c 'echo sleeps; sleep 50' > "$work/out" 2> "$work/err" & job=$!
if until_true 20 sleeping 2; then
  kill -TERM $job
  wait $job
  status=$?
  if [ $status -ne 75 ] || ! grep -q "killed by signal 15" "$work/err"; then fail "SIGTERM: status $status"; else echo "ok: SIGTERM"; fi
else
  fail "SIGTERM: the ranks did not start"
  kill $job
fi
nothing_left "signals"

: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 sh -c 'trap "" TERM; echo sleeps; while :; do sleep 0.1; done' > "$work/out" 2> "$work/err" & job=$!
if until_true 20 sleeping 2; then
  kill -TERM $job
  sleep 0.3
  kill -TERM $job
  wait $job
  status=$?
  if [ $status -ne 75 ] || ! grep -q "killing ranks 0, 1 after a second signal" "$work/err"; then
    fail "two SIGTERM: status $status"
  else
    echo "ok: two SIGTERM"
  fi
else
  fail "two SIGTERM: the ranks did not start"
  kill $job
fi

# kill_the_launcher NAME CONDITION: SIGKILL for $job once both of its ranks sleep; the condition holds within 5 s.
kill_the_launcher() {
  if ! until_true 20 sleeping 2; then
    fail "$1: the ranks did not start"
    kill $job
    return
  fi
  kill -KILL $job
  wait $job 2> /dev/null
  if until_true 5 "$2"; then
    echo "ok: $1"
  else
    fail "$1: not within 5 s"
    nothing_left "$1"
  fi
}
: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 sh -c 'echo sleeps; exec sleep 50' > "$work/out" 2> "$work/err" & job=$!
gone() { ! grep -lsz "^WEFT_RENDEZVOUS=file://$TMPDIR" /proc/[0-9]*/environ > /dev/null 2>&1; }
kill_the_launcher "ranks die with weft-launch" gone
# What ranks started, and the folder, go too: a guardian sees the launcher's end. It goes with them.
: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 sh -c 'sleep 57 & echo sleeps; exec sleep 57' > "$work/out" 2> "$work/err" & job=$!
cleared() { gone && [ -z "$(ls -A "$TMPDIR")" ] && [ -z "$(guardians)" ]; }
kill_the_launcher "nothing outlives weft-launch" cleared

# Without its guardian, weft-launch does as well. On a busy machine ranks may run before the guardian has its name.
guardian_named() { guardian=$(pgrep -P $job -x weft-guardian); }
: > "$work/out"  # the job itself may be late to empty it
"$launch" -n 2 sh -c 'echo sleeps; while [ ! -e "'"$work"'/go" ]; do sleep 0.05; done' > "$work/out" 2> "$work/err" & job=$!
if until_true 20 sleeping 2 && until_true 20 guardian_named && kill -KILL "$guardian"; then
  touch "$work/go"
  wait $job
  status=$?
  if [ $status -ne 0 ]; then fail "a guardian killed: status $status"; else echo "ok: a guardian killed"; fi
  nothing_left "a guardian killed"
else
  fail "a guardian killed: it did not start"
  kill $job
fi

# --- torch's variables by hand
port=$((20000 + $$ % 20000))
torch() { env RANK="$1" WORLD_SIZE="$2" MASTER_ADDR=localhost MASTER_PORT=$port WEFT_CONNECT_TIMEOUT=2 "$probe"; }
for rank in 1 2; do torch $rank 3 > "$work/rank$rank" 2>&1 & done
check "three ranks by torch's variables" 0 "rank 0 of 3 by RANK/WORLD_SIZE, group 0 of 2" \
  env RANK=0 WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_CONNECT_TIMEOUT=20 "$probe"
wait
grep -q "rank 2 of 3 by RANK/WORLD_SIZE, group 1 of 2" "$work/rank2" || fail "rank 2: $(cat "$work/rank2")"
torch 2 4 > "$work/rank2" 2>&1 & other=$!
check "peers that never arrive" 75 "rank 0: ranks 1, 3 of 4 did not arrive within 2.[0-9] s for probe" \
  env RANK=0 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_CONNECT_TIMEOUT=2 "$probe"
wait $other
[ $? -eq 75 ] && grep -q "rank 2: ranks 1, 3 of 4 did not arrive" "$work/rank2" || fail "rank 2: $(cat "$work/rank2")"
check "rank 0 that never arrives" 75 "rank 0 did not answer at localhost:$port within 1.0 s" \
  env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port WEFT_CONNECT_TIMEOUT=1 "$probe"
check "half of torch's variables" 42 "MASTER_ADDR and MASTER_PORT are not set" env RANK=1 WORLD_SIZE=2 "$probe"

# --- ranks that disagree about the world: each of them is refused, and both sides are named
# disagree NAME PATTERN RANK/SIZE...: one process each, at each kind of rendezvous
disagree() {
  local name=$1 pattern=$2 meeting pids=() pid i
  shift 2
  for meeting in "file://$work/meeting" "tcp://localhost:$((port + 1))"; do
    : > "$work/out"
    pids=()
    i=0
    for claim in "$@"; do
      WEFT_RANK=${claim%/*} WEFT_SIZE=${claim#*/} WEFT_RENDEZVOUS=$meeting WEFT_CONNECT_TIMEOUT=20 \
        timeout 60 "$probe" > "$work/disagree$i" 2>&1 & pids+=($!)
      i=$((i + 1))
    done
    for pid in "${pids[@]}"; do
      wait "$pid"
      echo "status $?" >> "$work/out"
    done
    cat "$work"/disagree* > "$work/err"
    lines "$name at ${meeting%%:*}" $# "^status 42$"
    lines "$name at ${meeting%%:*}" $# "$pattern"
    rm -f "$work"/disagree* "$work/meeting"
  done
  echo "ok: $name"
}
disagree "a rank that counts fewer" "rank 1 \(process [0-9]+ on .*\).* counts 2 ranks, |counts 3 ranks, rank 1 \(process [0-9]+ on .*\) 2" 0/3 1/2 2/3
disagree "a rank that counts more" "rank 2 \(process [0-9]+ on .*\).* counts 4 ranks, |counts 3 ranks, rank 2 \(process [0-9]+ on .*\) 4" 0/3 1/3 2/4
disagree "two processes with one rank" "rank 1 \(process [0-9]+ on .*\) is there twice: process [0-9]+ on" 0/3 1/3 1/3
disagree "two processes with rank 0" "rank 0 \(process [0-9]+ on .*\) is there twice: process [0-9]+ on" 0/3 0/3 1/3

# --- a rank that dies while the others wait for it, without a launcher: named long before the deadline
for meeting in "file://$work/meeting" "tcp://localhost:$((port + 2))"; do
  for rank in 0 1 2; do
    WEFT_RANK=$rank WEFT_SIZE=3 WEFT_RENDEZVOUS=$meeting WEFT_CONNECT_TIMEOUT=60 timeout 20 "$probe" kill 1 > "$work/dies$rank" 2>&1 &
  done
  wait
  cat "$work"/dies* > "$work/out"
  : > "$work/err"
  lines "a rank that dies at ${meeting%%:*}" 2 "^weft: rank [02]: rank 1 has ended before all ranks met for probe"
  echo "ok: a rank that dies at ${meeting%%:*}"
done

# --- mpirun
if [ -n "$mpirun" ]; then
  # Open MPI leaks, from modules it has unloaded by then, which no suppression can name.
  under() { check "$1" "$2" "$3" env ASAN_OPTIONS=detect_leaks=0 "$mpirun" --oversubscribe -n "${@:4}"; }
  under "mpirun" 0 "rank 1 of 2 by (PMIx|Open MPI|PMI), group 0 of 1" 2 "$probe"
  lines "mpirun" 2 "^rank [01] of 2"
  under "mpirun, four ranks" 0 "rank 3 of 4 by (PMIx|Open MPI|PMI), group 1 of 2" 4 "$probe"
  WEFT_CONNECT_TIMEOUT=2 under "rank that never comes under mpirun" 75 "rank 0: rank 1 of 3 did not arrive within 2.[0-9] s" \
    3 "$probe" absent 1
  WEFT_CONNECT_TIMEOUT=6 under "rank that leaves early under mpirun" 9 "Exit code: +9" 2 "$probe" exit 1 9
  WEFT_CONNECT_TIMEOUT=2 under "rank that never starts under mpirun" 75 \
    "rank 0 \(process [0-9]+ on .*\): MPI_Init_thread has not returned within 2.0 s" 2 \
    sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 20; fi; exec "$0"' "$probe"
  under "rank killed under mpirun" 137 "signal 9" 2 "$probe" kill 1
  RANK=0 WORLD_SIZE=1 under "a container's RANK beneath mpirun" 0 "rank 1 of 2" 2 "$probe"
  RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1 under "launchers that disagree" 42 "disagree.*RANK/WORLD_SIZE" 2 "$probe"
  under "no MPI although mpirun started it" 0 "rank 1 of 2 by" 2 env WEFT_RENDEZVOUS="file://$TMPDIR/meeting" "$probe"
  under "weft-launch beneath mpirun" 0 "rank 1 of 2 by options" 1 "$launch" -n 2 "$probe"
  # Without MPI: rank 0 says through PMIx where it listens.
  if "$launch" --version | grep -q PMIx; then
    export WEFT_RENDEZVOUS=pmix
    under "PMIx" 0 "rank 1 of 2 by PMIx, group 0 of 1" 2 "$probe"
    under "PMIx, four ranks" 0 "rank 3 of 4 by PMIx, group 1 of 2" 4 "$probe"
    lines "PMIx, four ranks" 4 "^rank [0-3] of 4 by PMIx"
    under "PMIx and the job's token" 0 "rank 1 of 2 by PMIx" 2 env WEFT_TOKEN=0123456789abcdef0123456789abcdef "$probe"
    WEFT_CONNECT_TIMEOUT=2 under "rank that never comes, by PMIx" 75 "rank [02]: rank 1 of 3 did not arrive within 2.[0-9] s" 3 "$probe" absent 1
    WEFT_CONNECT_TIMEOUT=2 under "rank 0 never starts, by PMIx" 75 "rank 1: rank 0 did not say where it listens within 2.0 s" 2 \
      sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec sleep 20; fi; exec "$0"' "$probe"
    under "rank that ends while they meet, by PMIx" 75 "rank 0: rank 1 .*has ended before all ranks met" 2 "$probe" exit 1 0
    under "rank killed under mpirun, by PMIx" 137 "signal 9" 2 "$probe" kill 1
    under "another launcher's variables, by PMIx" 42 "PMIx says rank [01] of 2, but options or WEFT_RANK says" 2 env WEFT_RANK=0 WEFT_SIZE=3 "$probe"
    check "no PMIx launcher" 42 "PMIx_Init failed: .*start the ranks with mpirun, prun or srun" env WEFT_RANK=0 WEFT_SIZE=2 "$probe"
    unset WEFT_RENDEZVOUS
  fi
  for mode in own single weft handler mismatch; do
    under "MPI: $mode" 0 "^$mode holds" 2 "$mpi_probe" $mode
    lines "MPI: $mode" 2 "^$mode holds"
    if [ $mode != mismatch ]; then lines "MPI: $mode, at its end" 2 "^MPI is finalized$"; fi
  done
  WEFT_TIMEOUT=2 under "rank that stops while groups are formed" 75 \
    "rank 0 \(process [0-9]+ on .*\): MPI_Comm_split has not returned within 2.0 s" 2 "$mpi_probe" stops
  check "one rank with its own MPI" 0 "^own holds" env ASAN_OPTIONS=detect_leaks=0 "$mpi_probe" own
  nothing_left "mpirun"
fi

finish
