#!/usr/bin/env bash
# weft-bench as a stranger uses it: its layouts to the letter, what it compares with, and every wrong input.
# usage: bench_test.sh WEFT_BENCH WEFT_LAUNCH [MPIRUN]
set -u
bench=$1 launch=$2 mpirun=${3:-}
. "$(dirname "$0")/../support/checks.sh"

check help 0 "mpirun -n 2 weft-bench all_reduce" "$bench" --help
refused "no collective" "the first argument is one" "$bench"
refused "unknown collective" "'allreduce' is unknown; allowed are all_reduce" "$bench" allreduce
refused "-b above -e" "--minbytes 2097152 is above --maxbytes 1048576" "$bench" all_reduce -b 2M -e 1M
refused "a size that overflows" "'99999999999G' is not a size" "$bench" all_reduce -b 99999999999G
refused "more than any machine has" "--maxbytes .* is above 1024 G" "$bench" all_reduce -e 2000G
refused "a size that is none" "--maxbytes '1X' is not a size" "$bench" all_reduce -e 1X
refused "no bytes" "--minbytes 0" "$bench" all_reduce -b 0
refused "a factor that does not grow" "--stepfactor 1 is not" "$bench" all_reduce -f 1
refused "no samples" "--iters 0 is not" "$bench" all_reduce -n 0
refused "unknown type" "'f8' is unknown; allowed are float \(f32\)" "$bench" all_reduce -d f8
refused "unknown operation" "'xor' is unknown" "$bench" all_reduce -o xor
refused "a root that is no rank" "--root 4 is not a rank from 0 to 0" "$bench" broadcast -r 4
refused "an unknown peer" "--against 'nccl' is unknown" "$bench" all_reduce --against nccl
refused "a ratio to nothing" "--expect needs --against" "$bench" all_reduce --expect 2
refused "unknown layout" "--format 'xml' is unknown" "$bench" all_reduce --format xml
refused "unknown option" "unrecognised option '--bogus'" "$bench" all_reduce --bogus
refused "a table of itself and others" "use one of them" "$bench" all --tune=table --against mpi
refused "measuring and not measuring" "use one of them" "$bench" all --tune=table --explain
refused "a table of several types" "--tune measures one type and one operation" "$bench" all -d all --tune=table
refused "a table of means" "which avg is not" "$bench" all -o avg --tune=table
refused "figures of nothing" "--json and --format are for measured rows" "$bench" all --explain --json figures
refused "a table in a layout" "--json and --format are for measured rows" "$bench" all --tune=table --format csv
refused "explaining others" "--explain measures nothing" "$bench" all --explain --against mpi
check "nothing to choose from on one node" 42 "2 ranks on 1 nodes: there is a choice between nodes only" "$launch" -n 2 "$bench" all --tune="$work/table"
check "what would be done" 0 "^broadcast 65536 B f32: direct, spread" "$launch" -n 2 "$bench" all --explain -b 64K -e 64K
check "zero ranks" 42 "-n 0 is not a number of ranks" "$launch" -n 0 "$bench" all_reduce
check "an arena too small" 42 "WEFT_HEAP_BYTES" env WEFT_HEAP_BYTES=1000000 "$launch" -n 2 "$bench" all_reduce -b 8M -e 8M
check "more than the machine has" 70 "needs [0-9]+ bytes, and this rank has [0-9]+ left" env WEFT_HEAP_BYTES=4000000000000 "$launch" -n 2 "$bench" all_reduce -b 900G -e 900G
check "a full disk" 70 "/dev/full" "$bench" all_reduce -b 8 -e 8 --json /dev/full
refused "figures in no folder" "--json /no/such/file: cannot write it: No such file" "$bench" all_reduce -b 8 -e 8 --json /no/such/file
full_output "figures" "$bench" all_reduce -b 8 -e 8

fast=(-n 3 -w 1)
check "nccl-tests' columns" 0 "^ +1024 +256 +float +sum +-1( +[0-9.]+){3} +0( +[0-9.]+){3} +0$" \
  "$launch" -n 2 "$bench" all_reduce -b 1K -e 4K "${fast[@]}" --json "$work/figures.json"
for line in '^# +size +count +type +redop +root +time +algbw +busbw +#wrong +time +algbw +busbw +#wrong$' \
  '^#  Rank  1 Group  0 Pid +[0-9]+ on +[^ ]+ device  0 \[host\] CPU$' '^# Out of bounds values : 0 OK$' '^# Avg bus bandwidth    : [0-9.]+ $'; do
  lines "nccl-tests' layout" 1 "$line"
done
for key in op bytes dtype redop ranks in_place seconds median p99 algbw busbw wrong; do
  grep -q "\"$key\":" "$work/figures.json" || fail "no $key in the figures"
done
check "OSU's layout" 0 "^1024 +[0-9.]+$" "$launch" -n 2 "$bench" all_gather -b 1K -e 1K "${fast[@]}" --format osu
lines "OSU's title" 1 "^# OSU MPI Allgather Latency Test"
check "every collective, type and operation" 0 "^all_reduce,.*,u8,avg,.*,0,0$" \
  "$launch" -n 3 "$bench" all -d all -o all -b 3K -e 3K "${fast[@]}" --format csv
lines "nothing is wrong" 0 ",[1-9][0-9]*,0$"
check "private memory, another root" 0 "^broadcast,65536,.*,2,3,1,.*,0,0$" "$launch" -n 3 "$bench" broadcast -r 2 --private -b 64K -e 64K "${fast[@]}" --format csv
check "the bound" 0 "bound_ratio" "$launch" -n 2 "$bench" all -b 64K -e 64K "${fast[@]}" --against bound --format csv
check "less than expected" 1 "where --expect asks for 1000" "$launch" -n 2 "$bench" all_reduce -b 1K -e 1K "${fast[@]}" --in-place --against bound --expect 1000

if [ -n "$mpirun" ]; then
  export ASAN_OPTIONS=detect_leaks=0  # Open MPI's own
  refused_by_launch="start them with mpirun"
  check "MPI where there is none" 42 "$refused_by_launch" "$launch" -n 2 "$bench" all_reduce --against mpi
  check "a mean, which MPI has not" 42 "MPI has no operation avg" "$mpirun" -n 1 "$bench" all_reduce -o avg -b 8 -e 8 --against mpi
  check "beside MPI" 0 "mpi_ratio" "$mpirun" --oversubscribe -n 3 "$bench" all -d bf16 -b 3K -e 3K "${fast[@]}" --against mpi --format csv
  check "between nodes" 0 "^all_reduce,65536,.*,262144$" env RANKS_PER_NODE=2 "$mpirun" --oversubscribe -n 6 \
    "$(dirname "$0")/../conformance/on_many_nodes.sh" "$bench" all_reduce --in-place -b 64K -e 64K "${fast[@]}" --format csv
  nodes=("$mpirun" --oversubscribe -n 3 "$(dirname "$0")/../conformance/on_many_nodes.sh" "$bench")
  check "the fastest of each" 0 "^all_reduce 4096 B .us.: small .*mpi [0-9.]+; fastest: .*, in any order" \
    env RANKS_PER_NODE=1 "${nodes[@]}" all --tune="$work/table" -b 1K -e 4K "${fast[@]}"
  for row in '^rank broadcast 3 0 ' '^any all_reduce 3 0 ' '^rank all_to_all 3 0 '; do
    grep -q "$row" "$work/table" || fail "no row $row in the table"
  done
  check "its table chooses" 0 "^all_reduce 1024 B f32 sum: .*row 'any all_reduce 3 0 [a-z]+' of the given table" \
    env RANKS_PER_NODE=1 WEFT_ORDER=any WEFT_ALGORITHMS="$work/table" "${nodes[@]}" all_reduce --explain -b 1K -e 1K
  echo "any all_reduce 0 0 mpi" > "$work/table"
  check "MPI's own collectives" 0 "^all_reduce,4096,.*,0,0$" env RANKS_PER_NODE=1 WEFT_ORDER=any \
    WEFT_ALGORITHMS="$work/table" "${nodes[@]}" all_reduce --in-place -d bf16 -b 4K -e 4K "${fast[@]}" --format csv
  echo "any all_reduce 0 0 star" > "$work/table"
  check "a table that is none" 42 "$work/table, line 1: 'star' is no algorithm" env RANKS_PER_NODE=1 WEFT_ALGORITHMS="$work/table" "${nodes[@]}" all_reduce
  check "the bound is of one node" 42 "on 3 nodes" env RANKS_PER_NODE=2 "$mpirun" --oversubscribe -n 6 \
    "$(dirname "$0")/../conformance/on_many_nodes.sh" "$bench" all_reduce --against bound
fi
finish
