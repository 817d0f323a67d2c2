# shellcheck shell=bash
# For test scripts to source: a folder of their own, and checks of what a program answers.
# Sets $work (removed at the end), $failures, and the variables that let Open MPI start as root; unsets what launchers set.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT WEFT_RANK WEFT_SIZE WEFT_RENDEZVOUS WEFT_LOG WEFT_CONNECT_TIMEOUT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WEFT_FLIGHT_DIR=$work/flight
failures=0

fail() {
  echo "FAILED: $1"
  sed 's/^/    | /' "$work/out" "$work/err"
  failures=$((failures + 1))
}

# check NAME STATUS PATTERN COMMAND...: the status, and a line of standard output or error that matches PATTERN
check() {
  local name=$1 expected=$2 pattern=$3
  shift 3
  timeout -k 5 300 "$@" > "$work/out" 2> "$work/err" < /dev/null
  local status=$?
  if [ $status -ne "$expected" ]; then
    fail "$name: status $status, not $expected"
  elif ! grep -Eq -- "$pattern" "$work/out" "$work/err"; then
    fail "$name: no line matches $pattern"
  else
    echo "ok: $name"
  fi
}

# refused NAME PATTERN COMMAND...: status 42, one line on standard error, nothing on standard output
refused() {
  check "$1" 42 "$2" "${@:3}"
  [ "$(wc -l < "$work/err")" -eq 1 ] || fail "$1: not one line"
  [ ! -s "$work/out" ] || fail "$1: something on standard output"
}

# full_output NAME COMMAND...: what cannot be written to standard output is an error, here and where it is closed
full_output() {
  check "$1, to a full disk" 70 "cannot write to standard output" bash -c '"$@" > /dev/full' - "${@:2}"
  check "$1, to nothing" 70 "cannot write to standard output" bash -c '"$@" >&-' - "${@:2}"
}

# lines NAME COUNT PATTERN: how often PATTERN was in the output of the last check
lines() {
  [ "$(cat "$work/out" "$work/err" | grep -Ec -- "$3")" -eq "$2" ] || fail "$1: not $2 lines match $3"
}

# until_true SECONDS COMMAND...: whether the command succeeds within so long, tried 20 times a second
until_true() {
  local turns=$(($1 * 20))
  shift
  while [ $turns -gt 0 ]; do
    "$@" && return 0
    sleep 0.05
    turns=$((turns - 1))
  done
  return 1
}

# finish: the closing line and status of the script
finish() {
  echo "$failures failed"
  [ "$failures" -eq 0 ]
}
