#!/bin/bash
# What goes wrong beneath a device job on two ranks: one clear line of each rank, whose status says whether to try again.
# usage: bad_input_test.sh GPU_VICTIM FAKE_NCCL
set -u
. "$(dirname "$0")/../support/checks.sh"
victim=$1
touch "$work/err"
export WEFT_NCCL_LIBRARY=$2 NCCL_SOCKET_IFNAME=lo WEFT_TIMEOUT=5 WEFT_CONNECT_TIMEOUT=10 WEFT_FLIGHT_DIR=off WEFT_SIZE=2 WEFT_DEVICE=cuda

# expect NAME RANK STATUS PATTERN: how that rank has ended, and its one line
expect() {
  cp "$work/$2.out" "$work/out"
  grep -v '^now$' "$work/out" > "$work/lines"
  if [ "$(cat "$work/$2.status")" -ne "$3" ]; then
    fail "$1: rank $2 ended with $(cat "$work/$2.status"), not $3"
  elif [ -n "$4" ] && { [ "$(wc -l < "$work/lines")" -ne 1 ] || ! grep -qE -- "$4" "$work/lines"; }; then
    fail "$1: rank $2 does not say $4 in one line"
  else
    echo "ok: $1, rank $2"
  fi
}

# both NAME VARIABLE_0 VARIABLE_1 STATUS_0 PATTERN_0 STATUS_1 PATTERN_1
both() {
  local name=$1 rank
  for rank in 0 1; do
    local variable=$2
    [ $rank = 1 ] && variable=$3
    (WEFT_RANK=$rank WEFT_RENDEZVOUS=file://$work/meet timeout -k 5 60 env "$variable" "$victim" none 0 3 > "$work/$rank.out" 2>&1
      echo $? > "$work/$rank.status") 2> /dev/null &
  done
  wait
  rm -f "$work/meet"
  expect "$name" 0 "$4" "$5"
  expect "$name" 1 "$6" "$7"
}

both "nothing" A=1 A=1 0 '' 0 ''
both "NCCL's init fails" WEFT_FAKE_NCCL=CommInitRankConfig=1 WEFT_FAKE_NCCL=CommInitRankConfig=1 \
  70 'rank 0: connect: NCCL 2.28.9: unhandled cuda error' 70 'rank 1: connect: NCCL 2.28.9: unhandled cuda error'
both "NCCL's init fails on one rank" WEFT_FAKE_NCCL=CommInitRankConfig=2 A=1 \
  70 'rank 0: connect: NCCL 2.28.9: unhandled system error' 75 'rank 1: connect: rank 0 failed: NCCL 2.28.9: unhandled system error'
both "NCCL aborts in its init" WEFT_FAKE_NCCL=CommInitRankConfig=abort A=1 134 '' 75 'rank 1: connect: rank 0 \(process [0-9]+\) has died'
both "two ranks on one device" WEFT_DEVICE=cuda:0 WEFT_DEVICE=cuda:0 \
  42 'ranks 0 and 1 use the same CUDA device .*give each its own' 42 'ranks 0 and 1 use the same CUDA device'
both "no memory" A=1 WEFT_FAKE_NCCL=MemAlloc=1 75 'rank 0: .*rank 1 failed' 70 'rank 1: allocate: NCCL cannot allocate [0-9]+ bytes on cuda:1'
both "an operation that NCCL refuses" A=1 WEFT_FAKE_NCCL=AllReduce=5 42 'rank 0: .*rank 1 failed: NCCL 2.28.9: invalid usage' 42 'rank 1: .*NCCL 2.28.9: invalid usage'
for at in 1 3 5 8 11; do
  both "the device is lost at its event $at" A=1 WEFT_EMULATED_LOST=$at 75 'rank 0: .*rank 1 (failed|has ended)' \
    70 'CUDA: uncorrectable ECC error encountered; the driver.s log \(dmesg, Xid\)'
done
both "no such library" WEFT_NCCL_LIBRARY=/nowhere/libnccl.so A=1 70 'NCCL cannot be loaded: /nowhere/libnccl.so.*install NCCL' 75 'rank 0'
finish
