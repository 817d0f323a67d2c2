#!/bin/bash
# weft-launch --min-ranks: a job that failed starts again with the hosts that are left, takes hosts back, and ends when it should.
# Hosts are names on this machine, reached through an agent; one that is down has a file $work/down.NAME.
# usage: restarts_test.sh PATH_OF_WEFT_LAUNCH
set -u
launch=$1
. "$(dirname "$0")/../support/checks.sh"
export TMPDIR=$work/tmp WEFT_CONNECT_TIMEOUT=1
mkdir "$TMPDIR"
cat > "$work/agent" <<SH
#!/bin/sh
host=\$1
shift
[ ! -e $work/down.\$host ] || exit 255
exec env HOST="\$host" WEFT_HOST_ID="\$host" sh -c "\$*"
SH
chmod +x "$work/agent"
printf 'a slots=2 address=127.0.0.1\nb slots=1 address=127.0.0.1\nc slots=1\n' > "$work/hosts"
hosts=("$launch" --hosts "$work/hosts" --agent "$work/agent")

# job NAME: a program whose ranks count their starts in $work/NAME.starts; what follows on standard input is its body, which knows $start (1, 2, ...)
job() {
  { printf '#!/bin/bash\necho x >> %s.starts.$WEFT_RANK\nstart=$(wc -l < %s.starts.$WEFT_RANK)\nwork=%s\n' "$work/$1" "$work/$1" "$work"; cat; } > "$work/$1"
  chmod +x "$work/$1"
}
starts() { wc -l < "$work/$1.starts.0"; }
expect_starts() { [ "$(starts "$1")" -eq "$2" ] || fail "$1: $(starts "$1") starts, not $2"; }

# --- refused
refused "no such number of ranks" "--min-ranks 0 is not a number of ranks from 1 to 2" "$launch" -n 2 --min-ranks 0 true
refused "more than there are" "--min-ranks 3 is not a number of ranks from 1 to 2" "$launch" -n 2 --min-ranks 3 true
refused "more than hosts take" "--min-ranks 5 is more than the 4 ranks of the job" "${hosts[@]}" --min-ranks 5 true
refused "no restarts" "--max-restarts 0 is not a number of 1 or more" "$launch" -n 2 --max-restarts 0 true
refused "waiting for no hosts" "--wait-hosts is given without --min-ranks and --hosts" "$launch" -n 2 --min-ranks 1 --wait-hosts 5 true
refused "no time" "--grace -1 is not a number of seconds above 0" "$launch" -n 2 --grace -1 true

# --- on this machine
job dies <<'SH'
[ $start -gt 2 ] || [ $WEFT_RANK != 1 ] || kill -9 $$
[ $start -gt 2 ] || { sleep 0.3; exit 75; }
echo "rank $WEFT_RANK meets at $WEFT_RENDEZVOUS"
SH
check "two failures, then success" 0 "starting again, after failure 2 of at most 3: 2 ranks" "$launch" -n 2 --min-ranks 2 "$work/dies"
expect_starts dies 3
lines "the failures are named" 2 "rank 1 \(pid [0-9]+\) was killed by signal 9"
lines "a start has a place of its own to meet" 2 "meets at file://.*/ranks2$"
job fails <<<'exit 3'
check "too many failures" 3 "the job failed 3 times; it does not start again \(--max-restarts 2\)" "$launch" -n 1 --max-restarts 2 "$work/fails"
expect_starts fails 3
job misused <<<'exit 42'
check "wrong usage is not tried again" 42 "ended with status 42" "$launch" -n 1 --max-restarts 2 "$work/misused"
expect_starts misused 1
job once <<<'exit 3'
check "without the option nothing is" 3 "ended with status 3" "$launch" -n 1 "$work/once"
expect_starts once 1
job long <<<'exec sleep 50'
check "a job that took too long" 75 "still running after 0.5 s" "$launch" -n 1 --max-restarts 2 --timeout 0.5 "$work/long"
expect_starts long 1

# --- told to end
# signalled NAME SIGNAL STATUS PATTERN COMMAND...: once its rank 0 says "runs"
all_run() { [ "$(grep -c runs "$work/out")" -ge 2 ]; }  # ranks that have set their traps
signalled() {
  : > "$work/out"
  "${@:5}" > "$work/out" 2> "$work/err" & local launcher=$!
  until_true 20 all_run || fail "$1: it does not start"
  kill "-$2" $launcher
  wait $launcher
  local status=$?
  [ $status -eq "$3" ] && grep -Eq "$4" "$work/out" "$work/err" && echo "ok: $1" || fail "$1: status $status, or not $4"
}
job saves <<'SH'
trap 'echo saved; exit 75' USR1
echo runs
while :; do sleep 0.05; done
SH
signalled "a notice ends the job" USR1 75 "^saved$" "$launch" -n 2 --min-ranks 1 "$work/saves"
expect_starts saves 1
signalled "SIGTERM, too" TERM 75 "killed by signal 15" "$launch" -n 2 --min-ranks 1 "$work/saves"
expect_starts saves 2
job deaf <<'SH'
trap '' USR1
echo runs
while :; do sleep 0.05; done
SH
signalled "ranks that do not end" USR1 75 "ranks 0, 1 still running 0.3 s after the notice \(--grace\); ending them" "$launch" -n 2 --grace 0.3 "$work/deaf"

# --- hosts
job loses <<'SH'
if [ $start = 1 ] && [ $HOST = c ]; then touch $work/down.c; kill -9 $PPID; fi
[ $start -gt 1 ] || { sleep 0.3; exit 75; }
echo "rank $WEFT_RANK of $WEFT_SIZE on $HOST"
SH
check "with the hosts that are left" 0 "starting again, after failure 1 of at most 3: 3 ranks on a, b; without c" "${hosts[@]}" --min-ranks 3 "$work/loses"
lines "they are" 3 "^\[[012]\] rank [012] of 3 on [ab]$"
lines "the lost one is named" 1 "host c with rank 3 is lost: its agent ended with status 137"
rm "$work/loses".starts.*
check "too few are left" 75 "the hosts that are there take 3 ranks, and 4 must run: c did not answer for [0-9.]+ s" \
  "${hosts[@]}" --min-ranks 4 --wait-hosts 0.5 "$work/loses"
rm "$work/down.c"

job first <<'SH'
if [ $start = 1 ] && [ $HOST = a ]; then touch $work/down.a; kill -9 $PPID; fi
[ $start -gt 1 ] || { sleep 0.3; exit 75; }
echo "meets at $WEFT_RENDEZVOUS"
SH
check "the first host is lost" 0 "^\[0\] meets at tcp://127.0.0.1:[0-9]+$" "${hosts[@]}" --min-ranks 2 "$work/first"
rm "$work/down.a" "$work"/first.starts.*
check "which alone has an address" 75 "host a is lost, and rank 0 cannot listen at --address 127.0.0.1 on another" "${hosts[@]}" --address 127.0.0.1 --min-ranks 2 "$work/first"
rm "$work/down.a"

job returns <<'SH'
if [ $start = 1 ] && [ $HOST = c ]; then touch $work/down.c; kill -9 $PPID; fi
[ $start -gt 1 ] || { sleep 0.3; exit 75; }
if [ $WEFT_SIZE = 4 ]; then echo "all are there"; exit 0; fi
trap 'echo saved; exit 75' USR1
[ $WEFT_RANK != 0 ] || rm -f $work/down.c
while :; do sleep 0.05; done
SH
check "a host that is back" 0 "c is back: the ranks are told to save and end \(SIGUSR1\), and start again with more" "${hosts[@]}" --min-ranks 2 --max-restarts 1 "$work/returns"
lines "the others have saved" 3 "^\[[012]\] saved$"
lines "all start again" 4 "^\[[0123]\] all are there$"
lines "which is no failure" 1 "^weft-launch: starting again: 4 ranks on a, b, c$"

job waits <<'SH'
if [ $start = 1 ] && [ $HOST = c ]; then touch $work/down.c; kill -9 $PPID; fi
[ $start -gt 1 ] || { sleep 0.3; exit 75; }
echo "all are there"
SH
(until_true 60 [ -e "$work/down.c" ]; sleep 6; rm "$work/down.c") &  # longer than it waits when enough are left
check "waits for a host that it needs" 0 "waiting for c: the other hosts take 3 ranks, and 4 must run \(--min-ranks\)" "${hosts[@]}" --min-ranks 4 "$work/waits"
lines "and goes on with it" 4 "all are there"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left: $(ls -A "$TMPDIR")"
finish
