#!/bin/bash
# What trainers do that others wrote, with their mistakes: one status for the job, that of its cause; and what is no mistake works.
#   usage: trainers_test.sh FOLDER_OF_PROGRAMS [MPIRUN]
set -u
. "$(dirname "$0")/../support/checks.sh"
launch=$1/weft-launch
probe=$1/trainers_probe
mpirun=${2:-}
export WEFT_PROGRESS=auto

# everywhere NAME STATUS PATTERN MODE [RANKS]: with each launcher
everywhere() {
  check "$1, weft-launch" "$2" "$3" "$launch" -n "${5:-2}" "$probe" "$4"
  if [ -n "$mpirun" ]; then check "$1, mpirun" "$2" "$3" "$mpirun" --oversubscribe -n "${5:-2}" "$probe" "$4"; fi
}

for again in 1 2 3; do
  everywhere "a mark is forgotten ($again)" 42 "never marked ready: slope; mark every parameter" forget
  everywhere "and its rank ends last ($again)" 42 "never marked ready: slope" forget_slow 3
done
# The order in which ranks end is given here, and by chance above.
ends() { check "$1" "$2" "ended with status $2" "$launch" -n 3 sh -c "[ \$WEFT_RANK != 2 ] || exec sleep 20; [ \$WEFT_RANK = 0 ] && exit $3; sleep 0.4; exit $4"; }
ends "a rank that lost another ends before the cause" 42 75 42
ends "the cause ends before a rank that lost it" 42 42 75
ends "the first of two causes counts" 3 3 42
check "such a job does not start again" 42 "never marked ready" "$launch" --max-restarts 3 -n 2 "$probe" forget_slow
lines "such a job does not start again" 1 "rank 1: finish_step #6: 1 of 2 parameters were never marked ready"
check "an exception of the program's own is no misuse of weft" 1 "no file" "$launch" -n 3 "$probe" throws_its_own
check "and the others read it in run()" 1 "rank 0: .*rank 1 failed: no file" "$launch" -n 2 "$probe" throws_in_run

everywhere "exit(0) while others wait" 75 "rank 0: .*rank 1 called exit\(0\), or returned 0 from main" exits_0
check "exit(3) while others wait" 3 "rank 0: .*rank 1 called exit\(3\)" "$launch" -n 2 "$probe" exits_3
everywhere "exit(42) while others wait" 42 "rank 0: .*rank 1 called exit\(42\)" exits_42
everywhere "a rank leaves and goes on with other things" 75 "rank 0: .*rank 1 has left the communicator without an error" leaves

export WEFT_TIMEOUT=4
everywhere "a rank has more to do after the training" 0 "rank 0 is done" evaluates
unset WEFT_TIMEOUT

# The same between nodes, over a network.
printf '#!/bin/sh\nWEFT_HOST_ID=node$WEFT_RANK exec "$@"\n' > "$work/node" && chmod +x "$work/node"
apart=("$launch" -n 2 "$work/node" "$probe")
check "a mark is forgotten, two nodes" 42 "never marked ready: slope" "${apart[@]}" forget
check "and its rank ends last, two nodes" 42 "never marked ready: slope" "${apart[@]}" forget_slow
check "exit(0) while others wait, two nodes" 75 "rank 0: .*rank 1 called exit\(0\)" "${apart[@]}" exits_0
check "a rank leaves and goes on with other things, two nodes" 75 "rank 0: .*rank 1 " "${apart[@]}" leaves
check "a process connects three times, two nodes" 0 "three communicators" "${apart[@]}" connects_twice

everywhere "a process connects three times" 0 "three communicators" connects_twice
if [ -n "$mpirun" ]; then
  check "a process connects again, mpirun" 0 "another communicator" "$mpirun" --oversubscribe -n 2 "$probe" connects_again
fi
everywhere "one line for a rank that is late once" 0 "rank 1: all_reduce #[0-9]+ has waited .* s for rank 0" is_late
lines "one line for a rank that is late once" 1 "has waited"
everywhere "two threads in one reducer" 42 "two threads use one GradientReducer at once: thread [0-9]+ \(trainers_probe\) calls mark_ready while thread [0-9]+" two_threads
finish
