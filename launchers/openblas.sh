# shellcheck shell=bash
# To be sourced by scripts that train. OpenBLAS takes a processor that is newer than it for an old one (Debian 12's a
# Sapphire Rapids for a Prescott), and its products take three times as long. What is set stays.
if [ -z "${OPENBLAS_CORETYPE:-}" ] && [ -r /proc/cpuinfo ]; then
  if grep -qw avx512vl /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SKYLAKEX
  elif grep -qw avx2 /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=Haswell
  fi
fi
