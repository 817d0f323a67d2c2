#!/bin/bash
# weft-launch before mpirun: what mpirun is told, and that it starts again after a failure, with the hosts that are left, and with those that are back.
# A stand-in for mpirun shows its words; the real one, where it is installed, starts ranks on hosts that are names on this machine.
# usage: mpirun_restarts_test.sh PATH_OF_WEFT_LAUNCH [MPIRUN]
set -u
launch=$1 mpirun=${2:-}
. "$(dirname "$0")/../support/checks.sh"
export TMPDIR=$work/tmp WEFT_CONNECT_TIMEOUT=1
mkdir "$TMPDIR" "$work/stand-in"
# The agent: what weft-launch and mpirun take for ssh. A host that is down has a file $work/down.NAME.
cat > "$work/agent" <<SH
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
[ ! -e $work/down.\$host ] || exit 255
exec env HOST="\$host" sh -c "\$*"
SH
chmod +x "$work/agent"
printf 'a slots=2\nb slots=1\nc slots=1\n' > "$work/hosts"
on_hosts=("$launch" --hosts "$work/hosts" --agent "$work/agent")

# stand_in: an mpirun that writes its words, and what it has of a rank's variables, into $work/words, and whose body is standard input; it knows $start
stand_in() {
  { printf '#!/bin/bash\necho "$* ${WEFT_RANK:-no rank} ${RANK:-}" >> %s/words\nstart=$(wc -l < %s/words)\nwork=%s\n' "$work" "$work" "$work"; cat; } > "$work/stand-in/mpirun"
  chmod +x "$work/stand-in/mpirun"
  rm -f "$work/words"
}
told() { sed -n "$1p" "$work/words" 2> /dev/null; }
expect_told() { [ "$(told "$2")" = "$3" ] || fail "$1: mpirun was told '$(told "$2")' at start $2, not '$3'"; }
stand=$work/stand-in/mpirun

stand_in <<< 'echo ended'
check "on this machine" 0 "^ended$" "$launch" -n 4 -- "$stand" --bind-to none ./train --steps 5
expect_told "on this machine" 1 "-n 4 --bind-to none ./train --steps 5 no rank "
rm "$work/words"
check "on hosts" 0 "^ended$" "${on_hosts[@]}" "$stand" --mca btl tcp,self ./train -n 5
expect_told "on hosts" 1 "-n 4 --host a:2,b:1,c:1 --mca btl tcp,self ./train -n 5 no rank "
refused "a number of ranks for mpirun" "-np of .*mpirun is weft-launch's to say; give weft-launch -n" "$launch" -n 2 "$stand" --bind-to none -np 2 ./train
refused "hosts for mpirun" "--hostfile of .*mpirun is weft-launch's to say" "$launch" -n 2 "$stand" --hostfile x ./train
refused "an address" "--address has no effect: mpirun starts the ranks" "${on_hosts[@]}" --address a "$stand" ./train
refused "variables" "-x has no effect: mpirun starts the ranks" "${on_hosts[@]}" -x PATH "$stand" ./train
refused "more than hosts take" "--min-ranks 5 is more than the 4 ranks" "${on_hosts[@]}" --min-ranks 5 "$stand" ./train

stand_in <<< '[ $start -gt 2 ] || exit 137'
check "two failures, then success" 0 "starting again, after failure 2 of at most 3: 2 ranks, by mpirun" "$launch" -n 2 --max-restarts 3 "$stand" ./train
lines "each is named" 2 "mpirun \(pid [0-9]+\) ended with status 137"
stand_in <<< 'exit 42'
check "wrong usage is not tried again" 42 "mpirun \(pid [0-9]+\) ended with status 42" "$launch" -n 2 --max-restarts 3 "$stand" ./train
[ "$(wc -l < "$work/words")" -eq 1 ] || fail "wrong usage is tried again"
stand_in <<< 'exec sleep 30'
check "a job that takes too long" 75 "ranks 0, 1 still running after 0.5 s" "$launch" -n 2 --timeout 0.5 "$stand" ./train

# A host is lost with its ranks, and is back a while after the others went on: they are told to save, and the job starts again with it.
stand_in <<'SH'
trap 'echo saved at $start; exit 75' USR1
[ $start -gt 1 ] || { touch $work/down.b; exit 1; }
[ $start -gt 2 ] && exit 0
sleep 1
rm $work/down.b
for i in $(seq 200); do sleep 0.1; done
SH
check "a host is lost, and back" 0 "starting again, after failure 1 of at most 3: 3 ranks on a, c; without b, by mpirun" "${on_hosts[@]}" --min-ranks 3 "$stand" ./train
expect_told "without the lost host" 2 "-n 3 --host a:2,c:1 ./train no rank "
expect_told "with the host that is back" 3 "-n 4 --host a:2,b:1,c:1 ./train no rank "
lines "they save before" 1 "^saved at 2$"
lines "it is said" 1 "starting again: 4 ranks on a, b, c, by mpirun"
stand_in <<< 'touch $work/down.b $work/down.c; exit 1'
check "too few hosts are left" 75 "the hosts that are there take 2 ranks, and 3 must run: b, c did not answer" "${on_hosts[@]}" --min-ranks 3 --wait-hosts 6 "$stand" ./train
rm -f "$work"/down.*

if [ -n "$mpirun" ]; then
  cat > "$work/train" <<'SH'
#!/bin/bash
echo x >> $WORK/starts.$OMPI_COMM_WORLD_RANK
start=$(wc -l < $WORK/starts.$OMPI_COMM_WORLD_RANK)
trap 'echo rank $OMPI_COMM_WORLD_RANK saved; exit 75' USR1
echo "start $start rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"
case $start in
  1) [ $OMPI_COMM_WORLD_RANK = 1 ] && kill -9 $$; sleep 20 & wait ;;
  2) touch $WORK/runs.$OMPI_COMM_WORLD_RANK; sleep 20 & wait ;;
esac
SH
  chmod +x "$work/train"
  export WORK=$work
  "$launch" -n 2 --max-restarts 2 "$mpirun" --oversubscribe --bind-to none "$work/train" > "$work/out" 2> "$work/err" < /dev/null &
  job=$!
  runs() { [ -e "$work/runs.0" ] && [ -e "$work/runs.1" ]; }
  until_true 30 runs || fail "mpirun's ranks do not start again"
  sleep 0.3
  kill -USR1 $job
  wait $job
  status=$?
  [ $status -eq 75 ] || fail "a notice through mpirun: status $status"
  grep -q "starting again, after failure 1 of at most 2: 2 ranks, by mpirun" "$work/err" || fail "mpirun's ranks: the restart is not said"
  [ "$(grep -c ' saved' "$work/out")" -eq 2 ] || fail "not both ranks of mpirun got the notice"
  [ "$(grep -c '^start 2 rank [01] of 2' "$work/out")" -eq 2 ] || fail "mpirun's ranks did not start twice"
  echo "ok: Open MPI's mpirun starts again, and hands the notice on"
fi
finish
