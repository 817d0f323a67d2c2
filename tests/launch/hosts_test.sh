#!/bin/bash
# weft-launch --hosts: where ranks are placed, what they get, what is refused, and that nothing outlives the job. Hosts are names on this machine,
# reached through an agent that does what ssh does: prints what a login shell may, and hands the words to a shell.
# usage: hosts_test.sh PATH_OF_WEFT_LAUNCH PATH_OF_PROBE
set -u
launch=$1 probe=$2
. "$(dirname "$0")/../support/checks.sh"
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
agent=$work/agent
cat > "$agent" <<'SH'
#!/bin/sh
host=$1
shift
echo "welcome to $host"
exec env -i PATH="$PATH" TMPDIR="$TMPDIR" HOST="$host" WEFT_HOST_ID="$host" sh -c "$*"
SH
chmod +x "$agent"
printf 'a  # the first\n\nb\n' > "$work/hosts"
printf 'a slots=3\nb slots=1\nc slots=2\n' > "$work/slots"
two=("$launch" --hosts "$work/hosts" --agent "$agent" --address 127.0.0.1)
slots=("$launch" --hosts "$work/slots" --agent "$agent" --address 127.0.0.1)

# What a job of this test has in its environment: its own TMPDIR.
left() {
  local process
  for process in /proc/[0-9]*; do
    grep -qsz "^TMPDIR=$TMPDIR$" "$process/environ" || continue
    case $(tr '\0' ' ' < "$process/cmdline" 2> /dev/null) in
      *weft-launch*|*sleeps*|"sleep 5"*) echo "$process" ;;
    esac
  done
}
nothing_left() { [ -z "$(left)" ] && [ -z "$(ls -A "$TMPDIR")" ]; }
expect_nothing_left() { until_true 5 nothing_left || fail "$1: left: $(left) $(ls -A "$TMPDIR")"; }
sleeping() { [ "$(grep -c sleeps "$work/out")" -eq "$1" ]; }

# --- refused
wrong() {  # NAME PATTERN CONTENT-OF-FILE
  printf %b "$3" > "$work/wrong"
  refused "$1" "$2" "$launch" --hosts "$work/wrong" -n 2 true
}
refused "no file" "--hosts /no/such/file: cannot read it" "$launch" --hosts /no/such/file -n 2 true
refused "a folder" "cannot read it: Is a directory" "$launch" --hosts /tmp -n 2 true
wrong "no host" "no host is listed in" '# a\n\n'
wrong "an option for a host" "wrong:2: '-oProxyCommand=x' is not the name of a host" 'a\n-oProxyCommand=x\n'
wrong "a host twice" "wrong:3: 'a' is listed twice" 'a\nb\na\n'
wrong "no number of slots" "wrong:1: 'slots=x' is not slots=N" 'a slots=x\n'
wrong "slots on one host alone" "some hosts in .* have slots=N and some have not" 'a slots=1\nb\n'
wrong "localhost for others" "the first host is localhost, which the others cannot reach" 'localhost\nb\n'
refused "more ranks than slots" "-n 7 is more than the 6 slots" "${slots[@]}" -n 7 true
refused "no number of ranks" "-n is missing, and the hosts have no slots" "${two[@]}" true
refused "an agent without hosts" "--agent is given without --hosts" "$launch" --agent ssh -n 1 true
refused "an address without hosts" "--address is given without --hosts" "$launch" --address a -n 1 true
refused "a variable without hosts" "-x is given without --hosts" "$launch" -x HOME -n 1 true
refused "an agent that is not there" "program no-such-agent is not on the PATH" "$launch" --hosts "$work/hosts" --agent no-such-agent -n 2 true
refused "a variable that is not there" "-x NO_SUCH: this environment has no such variable" "${two[@]}" -x NO_SUCH -n 2 true
refused "output of another kind" "--output pretty is neither ranks nor plain" "${two[@]}" --output pretty -n 2 true
check "host without a job" 42 "this is not a job of weft-launch" sh -c "echo job | '$launch' host"
check "host with nobody at the other end" 75 "weft-host" sh -c "'$launch' host < /dev/null"

# --- ranks that do well
show='echo $HOST $WEFT_RANK $WEFT_SIZE $WEFT_LOCAL_RANK $WEFT_LOCAL_SIZE $RANK $WORLD_SIZE ${OTHER:-none} ${MINE:-none} ${WEFT_LOG:-none} $(pwd)'
check "two hosts" 0 "^\[2\] b 2 3 0 1 2 3 none none info $(pwd)$" env OTHER=x WEFT_LOG=info "${two[@]}" -n 3 sh -c "$show"
lines "two hosts" 2 "^\[[01]\] a [01] 3 [01] 2 [01] 3 "
lines "what a login shell prints is left out" 0 "welcome"
check "slots" 0 "^\[3\] b 3 6 0 1 " "${slots[@]}" sh -c "$show"
lines "slots of the last" 2 "^\[[45]\] c [45] 6 [01] 2 "
check "fewer ranks than slots" 0 "^a 1 2 1 2 1 2 none y " env MINE=y "${slots[@]}" -x MINE -n 2 --output plain sh -c "$show"
lines "hosts without ranks" 2 "^a "
check "the ranks meet" 0 "^\[3\] rank 3 of 4 by options or WEFT_RANK, group 1 of 2" "${two[@]}" -n 4 "$probe"
check "standard error, and a line without end" 0 "^\[0\] begun$" "${two[@]}" -n 2 sh -c 'printf begun >&2'
check "lines without end stay apart" 0 "^\[1\] one$" "${two[@]}" -n 2 sh -c 'printf one; sleep 0.1; printf two >&2'
lines "lines without end stay apart" 2 "^\[[01]\] two$"
check "long output" 0 "" "${two[@]}" -n 2 sh -c 'head -c 3000000 /dev/zero | tr "\0" "x" | fold -w 1000; echo'
[ "$(wc -c < "$work/out")" -eq $((2 * (3000000 + 3000 + 3000 * 4 ))) ] || fail "long output: $(wc -c < "$work/out") bytes"
check "labels on one machine" 0 "^\[1\] hello$" "$launch" -n 2 --output ranks echo hello
lines "labels on one machine" 2 "^\[[01]\] hello$"
check "no input" 0 "^\[0\] 0$" sh -c 'echo words | "$@"' - "${two[@]}" -n 2 wc -c
# The token is in no command line, and each job has its own.
check "the token" 0 "" "${two[@]}" -n 2 sh -c 'echo $WEFT_TOKEN
  all=$(cat /proc/[0-9]*/cmdline 2> /dev/null | tr "\0" " "); case $all in *$WEFT_TOKEN*) echo told ;; *) echo secret ;; esac'
[ "$(grep -cE '^\[[01]\] [0-9a-f]{64}$' "$work/out")" -eq 2 ] && [ "$(grep -cE '^\[[01]\] secret$' "$work/out")" -eq 2 ] || fail "the token"
expect_nothing_left "ranks that do well"

# --- ranks that fail
check "status of the first rank that fails" 3 "weft-launch: rank 1 \(pid [0-9]+ on a\) ended with status 3" \
  env WEFT_CONNECT_TIMEOUT=1 "${two[@]}" -n 4 "$probe" exit 1 3
lines "the others name it" 3 "rank 1 has ended before all ranks met for probe"
# A rank that ends before it comes: nobody else could tell the others.
check "a rank that ends before it comes" 3 "rank 1 has ended before all ranks met for probe: it ended with status 3" "${two[@]}" -n 4 \
  sh -c '[ $WEFT_RANK != 1 ] || exit 3; exec "$0"' "$probe"
lines "a rank that ends before it comes: all name it" 3 "^\[[0-9]\] weft: rank [023]: rank 1 has ended before all ranks met for probe: it ended with status 3"
check "rank 0 killed before it comes" 75 "rank 0 \(pid [0-9]+ on a\) was killed by signal 9" "${two[@]}" -n 4 \
  sh -c '[ $WEFT_RANK != 0 ] || kill -9 $$; exec "$0"' "$probe"
lines "rank 0 killed before it comes: all name it" 3 "^\[[0-9]\] weft: rank [123]: rank 0 has ended before all ranks met for probe: it was killed by signal 9"
check "a rank that comes when the others know" 75 "rank 2 \(pid [0-9]+ on b\) was killed by signal 9" "${two[@]}" -n 4 \
  sh -c 'if [ $WEFT_RANK = 3 ]; then sleep 1; fi; exec "$0" kill 2' "$probe"
lines "a rank that comes when the others know: all name it" 3 "^\[[0-9]\] weft: rank [013]: rank 2 .*has ended before all ranks met for probe"
check "a rank killed by a signal" 75 "weft-launch: rank 2 \(pid [0-9]+ on b\) was killed by signal 9" "${two[@]}" -n 3 \
  sh -c '[ $WEFT_RANK != 2 ] || kill -9 $$; exec sleep 50'
lines "the others are ended" 1 "weft-launch: ending ranks 0, 1$"
check "ranks deaf to SIGTERM" 3 "weft-launch: killing ranks 1, 2$" "${two[@]}" -n 3 "$probe" deaf
check "a job that takes too long" 75 "ranks 0, 1 still running after 0.5 s" "${two[@]}" -n 2 --timeout 0.5 sleep 50
check "a host that is lost" 75 "host b with ranks 2, 3 is lost: its agent ended with status 137" "${two[@]}" -n 4 \
  sh -c '[ $WEFT_RANK != 2 ] || kill -9 $PPID; exec sleep 50'
echo "no program at all" > "$work/text" && chmod +x "$work/text"
check "a program that a host cannot run" 42 "cannot start $work/text: Exec format error" "${two[@]}" -n 2 "$work/text"
grep -q "host [ab] with rank [01] is lost: its agent ended with status 42" "$work/err" || fail "the host is named"
expect_nothing_left "ranks that fail"

# with_agent SCRIPT CHECK...: a check of a job, with what is on the first host instead
with_agent() {
  printf '#!/bin/sh\nif [ "$1" = a ]; then %s; fi\nshift\nexec sh -c "$*"\n' "$1" > "$work/other" && chmod +x "$work/other"
  check "${@:2}" "$launch" --hosts "$work/hosts" --agent "$work/other" --address 127.0.0.1 -n 2 sleep 50
}
with_agent "exec sleep 50" "a host that does not answer" 75 "host a with rank 0 is lost: it has not answered within 0.5 s" env WEFT_CONNECT_TIMEOUT=0.5
with_agent "exit 255" "a host that cannot be reached" 75 "host a with rank 0 is lost: its agent ended with status 255"
with_agent "echo weft-host 9.9.9; exec sleep 50" "another version on a host" 42 "host a has weft-launch 9.9.9, this machine [0-9]"
with_agent "exec head -c 2000000 /dev/zero" "something else than weft-launch on a host" 42 "host a answers something else than weft-launch does"
with_agent "echo weft-host 0.1.0; exec head -c 20 /dev/urandom" "frames that make no sense" 42 "host a sends frames that make no sense"
expect_nothing_left "hosts that fail"

# --- signals, and the death of weft-launch
# started NAME COMMAND...: in the background, as $job, once both of its ranks sleep
started() {
  local name=$1
  shift
  : > "$work/out"  # the job itself may be late to empty it
  "$@" > "$work/out" 2> "$work/err" & job=$!
  until_true 20 sleeping 2 && return 0
  fail "$name: the ranks did not start"
  kill $job
  return 1
}
if started SIGTERM "${two[@]}" -n 2 sh -c 'echo sleeps; exec sleep 50'; then
  kill -TERM $job
  wait $job
  status=$?
  [ $status -eq 75 ] && grep -q "on [ab]) was killed by signal 15" "$work/err" && echo "ok: SIGTERM" || fail "SIGTERM: status $status"
fi
if started "two SIGTERM" "${two[@]}" -n 2 sh -c 'trap "" TERM; echo sleeps; while :; do sleep 0.1; done'; then
  kill -TERM $job
  sleep 0.3
  kill -TERM $job
  wait $job
  status=$?
  [ $status -eq 75 ] && grep -q "killing ranks 0, 1 after a second signal" "$work/err" && echo "ok: two SIGTERM" ||
    fail "two SIGTERM: status $status"
fi
if started "SIGKILL" "${two[@]}" -n 2 sh -c 'sleep 57 & echo sleeps; exec sleep 57'; then
  kill -KILL $job
  wait $job 2> /dev/null
  until_true 5 nothing_left && echo "ok: nothing outlives weft-launch" || fail "SIGKILL: left: $(left)"
fi
finish
