#!/usr/bin/env bash
# bench/peers: the table of recorded runs, what compare.sh refuses, and its rounds, hosts and endings with stand-ins for torch,
# weft, mpirun and the hosts. The records in peers/ are of real runs. Ends with 77 (skipped) where there is no Python.
# usage: peers_test.sh
set -u
. "$(dirname "$0")/../support/checks.sh"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
records=$here/peers
python=$(command -v python3) && "$python" -c pass || { echo "skipped: there is no python3"; exit 77; }

# The table: what is expected was worked out by hand from the records.
weft=("$records"/weft-{1,2,3}.json) torch=("$records"/torch-{1,2,3}.json)
table=("$python" "$root/bench/peers/table.py" --setting "shared memory" --steps 20 --weft-version 0.1.0 --python /usr/bin/python3)
check "three rounds" 0 "^mlp-8x1024 on 2 ranks, shared memory; 20 steps, 3 rounds taking turns" \
  "${table[@]}" --weft "${weft[@]}" --torch "${torch[@]}" --json "$work/table.json"
lines "versions" 1 "^weft 0.1.0; torch 1.13.0a0 of /usr/bin/python3, over gloo$"
lines "weft nocomm" 1 "^weft nocomm +22.8 \(21.8 to 25.1\) +1.000 \(1.000 to 1.000\) +0.53 \(0.49 to 0.62\)$"
lines "weft ddp" 1 "^weft ddp +43.3 \(40.3 to 44.9\) +0.526 \(0.486 to 0.623\) +1.00 \(1.00 to 1.00\)$"
lines "torch no_sync" 1 "^torch no_sync +37.0 \(34.2 to 105.4\) +1.000 \(1.000 to 1.000\) +0.92 \(0.79 to 2.35\)$"
lines "torch ddp" 1 "^torch ddp +86.7 \(60.7 to 109.2\) +0.610 \(0.395 to 0.965\) +2.00 \(1.51 to 2.43\)$"
lines "torch ddp+fp16" 1 "^torch ddp\+fp16 +217.0 \(160.6 to 351.4\) +0.231 \(0.158 to 0.300\) +5.01 \(3.99 to 7.82\)$"
lines "torch ddp+powersgd:4" 1 "^torch ddp\+powersgd:4 +101.7 \(77.6 to 133.5\) +0.477 \(0.337 to 0.790\) +2.35 \(1.93 to 2.97\)$"
for key in '"ranks": 2, "steps": 20, "rounds": 3' '"weft": {"version": "0.1.0"}' '"torch": {"version": "1.13.0a0", "python": "/usr/bin/python3"}' \
  '{"peer": "torch", "strategy": "ddp", "step_seconds": {"median": 0.08665460500014888, "least": 0.060704970001097536, "greatest": 0.10921620699809864}'; do
  grep -qF -- "$key" "$work/table.json" || fail "no $key in the figures"
done
check "one round" 0 "^weft ddp +40.3 +0.623 +1.00$" "${table[@]}" --weft "${weft[0]}" --torch "${torch[0]}"
check "figures on standard output, the rest on standard error" 0 '^\{"workload": "mlp-8x1024"' "${table[@]}" --weft "${weft[0]}" --torch "${torch[0]}" --json -
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "more than the figures on standard output"
refused "NumPy without mpi4py" "python.* has no numpy and no mpi4py; pip install" "$python" -S "$root/bench/peers/numpy_mpi4py.py"
refused "a step in JAX without JAX" "python.* has no jax; launchers/setup.sh jax" "$python" -S "$root/bench/peers/jax_step.py"
check "a full disk" 70 "cannot write the figures to /dev/full: No space" "${table[@]}" --weft "${weft[0]}" --torch "${torch[0]}" --json /dev/full

changed() { sed "$1" "$2" > "$work/changed.json"; }
wrong_weft() { refused "$1" "$2" "${table[@]}" --weft "$work/changed.json" "${weft[1]}" --torch "${torch[@]:0:2}"; }
changed s/nocomm/no_such/ "${weft[0]}"
wrong_weft "no step without communication" "changed.json has no row nocomm, .*; it has: no_such, ddp"
changed 's/"ddp"/"ddp+fp16"/' "${weft[0]}"
wrong_weft "rounds that differ" "weft-2.json has nocomm, ddp on 2 ranks, and .*changed.json nocomm, ddp\+fp16 on 2"
changed 's/"ranks":2/"ranks":3/' "${weft[0]}"
wrong_weft "ranks that differ within a run" "changed.json makes no sense: ranks \[2, 3\]"
changed 's/"median":[^,]*/"median":"soon"/' "${weft[0]}"
wrong_weft "a step that is no number" "changed.json is not what weft writes"
: > "$work/changed.json"
wrong_weft "an empty file" "cannot read .*changed.json"
changed 's/"ranks":2/"ranks":4/g' "${weft[0]}"
refused "peers on other numbers of ranks" "weft ran on 4 ranks and torch on 2" "${table[@]}" --weft "$work/changed.json" --torch "${torch[0]}"
refused "rounds without their turn" "3 rounds of weft and 2 of torch do not take turns" "${table[@]}" --weft "${weft[@]}" --torch "${torch[@]:0:2}"
refused "a file that is not there" "cannot read /nowhere" "${table[@]}" --weft /nowhere --torch "${torch[0]}"

# compare.sh in a tree of its own, where stand-ins answer with the records and write down that they were called.
tree=$work/tree log=$work/calls
mkdir -p "$tree/bench" "$tree/launchers" "$work/bin" "$work/path" "$work/debian"
cp -r "$root/bench/peers" "$tree/bench/"
cp "$root/launchers/mpirun.sh" "$tree/launchers/"
compare=$tree/bench/peers/compare.sh
sed -i "s|/usr/bin/python3; do|$work/debian/python3; do|" "$compare"  # this machine may have torch
stand_in() { { echo "#!/usr/bin/env bash"; cat; } > "$1"; chmod +x "$1"; }
stand_in "$work/path/mpirun" <<END
while [ "\$1" = -x ]; do shift 2; done
[ "\$1 \$2" = "--oversubscribe -n" ] || exit 1
shift 3
exec "\$@"
END
stand_in "$work/bin/weft-scaling" <<END
echo "weft \$*" >> "$log"
[ ! -e "$work/weft_sleeps" ] || exec sleep 60
[ ! -e "$work/weft_fails" ] || { echo "weft fails" >&2; exit 75; }
cp "$records/\$(basename "\${@: -1}")" "\${@: -1}"
END
stand_in "$work/has_torch" <<END
case "\$*" in
  *torch_ddp.py\ --version) echo 1.13.0a0 ;;
  *torch_ddp.py*)
    echo "torch \$GLOO_SOCKET_IFNAME \$*" >> "$log"
    cat "$records/torch-\$(tail -n 1 "$log" | grep -oE 'store-[0-9]+' | tr -dc 0-9).json"
    ;;
  *) exec "$python" "\$@" ;;
esac
END
stand_in "$tree/launchers/cluster.sh" <<END
echo "cluster \${*:1:3}" >> "$log"
case \$1 in
  up) [ ! -e "$work/is_up" ] || { echo "cluster.sh: a cluster is up already" >&2; exit 42; }; echo made ;;
  run) shift 3; exec "\$@" ;;
esac
END
stand_in "$work/path/python3" <<< 'echo "ModuleNotFoundError: No module named torch" >&2; exit 1'
export PATH=$work/path:$PATH
calls() { grep -oE "$2" "$log" | paste -sd ' ' > "$work/err"; : > "$work/out"; [ "$(cat "$work/err")" = "$3" ] || fail "$1: not $3"; }

check help 0 "compare.sh --hosts 4:1gbit --rounds 3" "$compare" --help
run=("$compare" --bin "$work/bin")
refused "an option that is none" "'--bogus' is none of --ranks, --hosts" "${run[@]}" --bogus
refused "a word that is no option" "'ddp' is none of" "${run[@]}" ddp
refused "an option without its value" "--rounds needs a value" "${run[@]}" --rounds
refused "one rank" "--ranks 1 is not a number of 2 or more" "${run[@]}" --ranks 1
refused "ranks that are no number" "--ranks two is not a number" "${run[@]}" --ranks two
refused "no rounds" "--rounds 0 is not a number of 1 or more" "${run[@]}" --rounds 0
refused "too few steps" "--steps 11 is not a number of 12 or more" "${run[@]}" --steps 11
for hosts in 4 1:1gbit 65:1gbit 4:fast 4:; do refused "hosts $hosts" "--hosts $hosts is not 2 to 64 hosts and a rate" "${run[@]}" --hosts $hosts; done
refused "hosts without a rank" "--ranks 2 is not a number of 4 or more, one on each host" "${run[@]}" --hosts 4:1gbit --ranks 2
refused "a folder that is not there" "--json /no/such/file: there is no folder /no/such" "${run[@]}" --json /no/such/file
refused "no weft" "no weft-scaling in $work/none; build it: cmake --preset release" "$compare" --bin "$work/none"
refused "an interpreter that is not there" "--python /none: there is no such program" "${run[@]}" --python /none
refused "an interpreter without torch" "cannot run torch: ModuleNotFoundError" "${run[@]}" --python "$work/path/python3"
refused "no torch at all" "no Python here has torch and numpy; launchers/setup.sh peers installs" "${run[@]}"
[ ! -e "$log" ] || fail "something ran all the same"

cp "$work/has_torch" "$work/debian/python3"
check "three rounds with Debian's torch, found last" 0 "torch 1.13.0a0 of $work/debian/python3, over gloo" "${run[@]}" --json "$work/figures.json"
lines "the weft that ran" 1 "^weft of $work/bin; torch"
lines "rows of both" 6 "^(weft|torch) [^ ]+ +[0-9]"
grep -q '"rounds": 3' "$work/figures.json" || fail "no three rounds in the figures"
calls "every second round starts with torch" '^(weft|torch)|store-.|weft-.\.json' \
  "weft weft-1.json torch store-1 torch store-2 weft weft-2.json weft weft-3.json torch store-3"
calls "weft's arguments" '^weft .* --json' "$(yes 'weft --model mlp-8x1024 --strategies nocomm,ddp,ddp+fp16,ddp+powersgd:4 --steps 40 --json' | head -n 3 | paste -sd ' ')"
calls "torch's way" '^torch (lo|eth0)' "torch lo torch lo torch lo"
mkdir -p "$tree/.venv/bin"
cp "$work/has_torch" "$tree/.venv/bin/python3"
check "a venv comes first" 0 "torch 1.13.0a0 of $tree/.venv/bin/python3" "${run[@]}" --rounds 1
check "the interpreter that is named comes before it" 0 "torch 1.13.0a0 of $work/has_torch" "${run[@]}" --rounds 1 --python "$work/has_torch"

on_hosts=("${run[@]}" --hosts 4:1gbit --rounds 1)
: > "$log"
check "hosts" 0 "4 hosts at 1gbit; 40 steps, 1 round" "${on_hosts[@]}"
calls "hosts are made and taken down" '^cluster .*|^torch eth0' "cluster up 4 1gbit cluster run -np 4 cluster run -np 4 torch eth0 cluster down"
: > "$log"
touch "$work/weft_fails"
check "weft fails" 70 "weft-scaling of round 1 ended with 75" "${on_hosts[@]}"
calls "hosts are taken down all the same" '^cluster .*' "cluster up 4 1gbit cluster run -np 4 cluster down"
: > "$log"
touch "$work/is_up"
refused "another's hosts" "a cluster is up already" "${on_hosts[@]}"
calls "another's hosts stay" '^cluster .*' "cluster up 4 1gbit"
rm "$work/is_up" "$work/weft_fails"

# A signal in the middle of a round, to all as a terminal sends it or to compare.sh alone.
touch "$work/weft_sleeps"
interrupted() {  # NAME SIGNAL ALL STATUS
  : > "$log"
  set -m
  TMPDIR=$work/tmp "${on_hosts[@]}" > "$work/out" 2> "$work/err" &
  local pid=$! status=0
  set +m
  for ((i = 0; i < 300; ++i)); do grep -q '^weft' "$log" && break; sleep 0.1; done
  kill -"$2" -- "$3$pid"
  wait $pid || status=$?
  [ $status -eq "$4" ] && echo "ok: $1" || fail "$1: status $status, not $4"
  calls "$1: hosts are taken down" '^cluster .*' "cluster up 4 1gbit cluster run -np 4 cluster down"
  [ -z "$(ls "$work/tmp")" ] || fail "$1: $(ls "$work/tmp") is left"
  if pgrep -g $pid > "$work/out"; then fail "$1: processes are left"; fi
}
mkdir "$work/tmp"
interrupted "Ctrl-C" INT - 130
interrupted "a kill" TERM "" 143
finish
