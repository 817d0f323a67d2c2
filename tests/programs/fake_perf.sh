#!/usr/bin/env bash
# A program of nccl-tests that runs on no GPU: prints the same table, with times that depend on the settings it gets. To be called all_reduce_perf.
# FAKE: what it does besides. late: takes 60 s under NCCL_BUFFSIZE=8388608, and a child of its longer; failing: ends with 3 under NCCL_MIN_NCHANNELS;
# wrong: has wrong elements under NCCL_NTHREADS=512; nan: has a time that is none under NCCL_NTHREADS=256; broken: always fails.
# Calls are counted in $FAKE_CALLS.
set -u
echo "${NCCL_BUFFSIZE:-} ${NCCL_NTHREADS:-} ${NCCL_TUNER_CONFIG_FILE:-}" >> "${FAKE_CALLS:-/dev/null}"
wrong=0 time=100
case ${FAKE:-} in
  *broken*) echo "node0: Test NCCL failure common.cu:1018 'unhandled system error'" >&2; exit 2 ;;
esac
case ${FAKE:-} in *late*) if [ "${NCCL_BUFFSIZE:-}" = 8388608 ]; then sleep 60 & echo $! >> "$FAKE_CALLS.children"; sleep 60; fi ;; esac
case ${FAKE:-} in *failing*) [ -z "${NCCL_MIN_NCHANNELS:-}" ] || { echo "no so many channels" >&2; exit 3; } ;; esac
case ${FAKE:-} in *wrong*) [ "${NCCL_NTHREADS:-}" != 512 ] || wrong=12 ;; esac
[ "${NCCL_BUFFSIZE:-}" = 1048576 ] && time=70
[ "${NCCL_NTHREADS:-}" = 512 ] && time=$((time * 8 / 10))
small=$time large=$((time * 10))
if [ -n "${NCCL_TUNER_CONFIG_FILE:-}" ] && [ "${NCCL_TUNER_PLUGIN:-}" = weft ]; then
  # The first row that is for each size, as the tuner reads it.
  read -r small large < <(awk -F, -v small=$small -v large=$large '
    /^#/ {next}
    $2 <= 1024 && ($3 < 0 || $3 >= 1024) && !a {a = 1; small *= $4 == "tree" ? 0.6 : 1.4}
    $2 <= 1048576 && ($3 < 0 || $3 >= 1048576) && !b {b = 1; large *= $4 == "tree" ? 1.5 : 1.1}
    END {print int(small), int(large)}' "$NCCL_TUNER_CONFIG_FILE")
fi
case ${FAKE:-} in *nan*) [ "${NCCL_NTHREADS:-}" != 256 ] || small=nan ;; esac
noise() { [ "$1" = nan ] && echo nan || echo "$1.$((RANDOM % 100))"; }
cat <<END
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1048576 step: 1024(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid      7 on      node0 device  0 [0000:01:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid      8 on      node0 device  1 [0000:02:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1   $(noise "$small")    0.03    0.03      $wrong   $(noise "$small")    0.03    0.03      0
     1048576        262144     float     sum      -1   $(noise "$large")    1.03    1.03      0   $(noise "$large")    1.03    1.03    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.1
#
END
