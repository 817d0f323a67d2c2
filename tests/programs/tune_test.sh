#!/usr/bin/env bash
# weft-report tune as a stranger uses it: over a program that behaves like nccl-tests, well and badly, over weft-bench, and every wrong input.
# usage: tune_test.sh FOLDER_OF_PROGRAMS
set -u
bin=$1
report=$bin/weft-report
. "$(dirname "$0")/../support/checks.sh"
mkdir "$work/fake"
cp "$(dirname "$0")/fake_perf.sh" "$work/fake/all_reduce_perf"
export PATH=$work/fake:$PATH FAKE_CALLS=$work/calls
unset "${!NCCL_@}"

# json EXPRESSION: of the figures of the last tune
json() { python3 -c "import json, sys; j = json.load(open('$work/tuned.json')); sys.exit(0 if ($1) else 1)" || fail "not so: $1: $(cat "$work/tuned.json")"; }
tune=("$report" tune --pairs 8 -q --json "$work/tuned.json")

check "what is faster is kept" 0 '^kept after [0-9]+ runs' "${tune[@]}" --output "$work/out dir" -- all_reduce_perf -b 1K -e 1M
json "j['complete'] and j['kept']['variables'] == {'NCCL_BUFFSIZE': '1048576', 'NCCL_NTHREADS': '512'}"
json "j['kept']['ranges'] == [{'from_bytes': 0, 'algorithm': j['kept']['ranges'][0]['algorithm']}, {'from_bytes': 1048576, 'algorithm': None}]"
json "j['kept']['ranges'][0]['algorithm'].startswith('tree/')"
json "j['ranks'] == 2 and j['trials'] == $(wc -l < "$work/calls") - 1"  # the first run only looks
grep -qx 'NCCL_BUFFSIZE=1048576' "$work/out dir/nccl.conf" || fail "nccl.conf: $(cat "$work/out dir/nccl.conf")"
grep -q '^-x NCCL_BUFFSIZE=1048576 -x NCCL_NTHREADS=512 -x NCCL_TUNER_CONFIG_FILE=' "$work/out dir/mpirun-flags.txt" || fail "mpirun-flags.txt: $(cat "$work/out dir/mpirun-flags.txt")"
grep -qE '^allreduce,0,1048575,tree,[a-z0-9]+,-1,1,2$' "$work/out dir/nccl-tuner.csv" || fail "nccl-tuner.csv: $(cat "$work/out dir/nccl-tuner.csv")"
# shellcheck source=/dev/null  # which the run wrote
[ "$(. "$work/out dir/settings.sh" && echo "$NCCL_TUNER_CONFIG_FILE")" = "$work/out dir/nccl-tuner.csv" ] || fail "settings.sh: $(cat "$work/out dir/settings.sh")"
[ "$(ls "$work/out dir")" = "$(printf 'mpirun-flags.txt\nnccl-tuner.csv\nnccl.conf\nsettings.sh')" ] || fail "more is left: $(ls "$work/out dir")"

export FAKE="late failing wrong nan"
check "runs that are late, fail, are wrong or have no time are dropped" 0 '^kept after' "${tune[@]}" --deadline 1 -- all_reduce_perf
json "j['kept']['variables'] == {'NCCL_BUFFSIZE': '1048576'}"
for words in 'NCCL_BUFFSIZE=8388608 is dropped: it took longer than 1 s' 'NCCL_MIN_NCHANNELS=8 is dropped: it ended with status 3; its last line: no so many channels' \
  'NCCL_NTHREADS=512 is dropped: 12 elements of 1024 bytes are wrong' 'NCCL_NTHREADS=256 is dropped: the time of 1024 bytes is nan'; do
  json "any(note == '$words' for note in j['notes'])"
done
while read -r child; do ! kill -0 "$child" 2> /dev/null || fail "child $child of a late run still runs"; done < "$work/calls.children"
unset FAKE

check "variables that are set are left alone" 0 'note: NCCL_NTHREADS is set already, and is left alone' env NCCL_NTHREADS=64 "$report" tune --pairs 8 -q -- all_reduce_perf
check "without the time for more" 0 'note: the time was over before all was tried' "${tune[@]}" --minutes 0.05 -- all_reduce_perf
json "not j['complete']"

# mpirun hands each variable on with -x; this one does what it is told.
printf '#!/bin/sh\nwhile [ "$1" = -x ]; do export "$2"; shift 2; done\n[ "$1" = -n ] && shift 2\nexec env -u NCCL_BUFFSIZE "$@"\n' > "$work/fake/mpirun"
printf '#!/bin/sh\nwhile [ "$1" = -x ]; do echo "$2" >> %s; shift 2; done\nshift 2\nexec "$@"\n' "$work/flags" > "$work/fake/mpirun"
chmod +x "$work/fake/mpirun"
check "behind mpirun" 0 '^kept after' "${tune[@]}" -- mpirun -n 2 all_reduce_perf
grep -qx 'NCCL_BUFFSIZE=1048576' "$work/flags" || fail "mpirun got no -x: $(head -n 3 "$work/flags")"

# A signal: what was kept so far is written, and the command ends, too.
FAKE=late "$report" tune --pairs 8 -q --json "$work/partial.json" --output "$work/partial" -- all_reduce_perf > "$work/out" 2> "$work/err" &
pid=$!
: > "$work/calls.children"
until_true 60 test -s "$work/calls.children" || fail "no run is late"
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "Ctrl-C did not end it with 130"
python3 -c "import json; j = json.load(open('$work/partial.json')); assert j['partial'] and not j['complete']" || fail "no partial figures"
[ -e "$work/partial/nccl.conf" ] || fail "no partial settings"
until_true 10 sh -c "! kill -0 $(head -n 1 "$work/calls.children") 2> /dev/null" || fail "the command still runs after Ctrl-C"
echo "ok: Ctrl-C"

refused "no command" 'no command is given; it stands behind --' "$report" tune
refused "a program that is no benchmark" 'the command runs no benchmark that can be tuned' "$report" tune -- mpirun -n 2 train
refused "a program that is not there" 'cannot start no_such_perf: No such file' "$report" tune -q -- no_such_perf
refused "processes elsewhere" "'ssh' starts processes whose environment is not this one" "$report" tune -- ssh node1 all_reduce_perf
refused "a command that fails" "the command is no measurement: it ended with status 2; its last line: node0: Test NCCL failure" env FAKE=broken "$report" tune -q -- all_reduce_perf
refused "no minutes" '\-\-minutes 0 is not a number above 0' "$report" tune --minutes 0 -- all_reduce_perf
refused "few pairs" '\-\-pairs 3 is not a number from 8 to 200' "$report" tune --pairs 3 -- all_reduce_perf
refused "a log that is not there" '/no/such/log' "$report" tune -q --log /no/such/log -- all_reduce_perf
refused "a log of NCCL beside weft-bench" '\-\-log has no effect: weft-bench runs no NCCL' "$report" tune -q --log "$work" -- "$bin/weft-bench" all_reduce
refused "a tuner beside weft-bench" '\-\-tuner has no effect: weft-bench runs no NCCL' "$report" tune -q --tuner weft -- "$bin/weft-bench" all_reduce
refused "a folder that cannot be" '\-\-output /proc/none: it is no folder, and cannot be made' "$report" tune --output /proc/none -- all_reduce_perf

printf 'node1:7:7 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\nnode1:7:7 [0] NCCL INFO Using network Socket\n' > "$work/nccl.log"
check "a log says what is worth a try" 0 . "${tune[@]}" --minutes 0.05 --log "$work/nccl.log" -- all_reduce_perf
json "'NCCL_SOCKET_NTHREADS' in j['space']['variables'] and j['network'] == 'Socket'"

# weft-bench, as between two nodes.
check "over weft-bench" 0 'after [0-9]+ runs' "${tune[@]}" --output "$work/host" --minutes 0.2 -- "$bin/weft-launch" -n 2 sh -c 'WEFT_HOST_ID=$WEFT_RANK exec "$@"' sh "$bin/weft-bench" all_gather -b 1K -e 4K -n 2
json "j['collective'] == 'all_gather' and set(j['space']['algorithms']) == {'pairwise', 'ring', 'halving'} and j['network'].startswith('host (')"
[ -e "$work/host/algorithms.txt" ] && [ ! -e "$work/host/nccl.conf" ] || fail "files for weft: $(ls "$work/host")"
finish
