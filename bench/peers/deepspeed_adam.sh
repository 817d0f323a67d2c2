#!/usr/bin/env bash
# Compiles the CPU Adam of a DeepSpeed source tree, unchanged, into a library that bench_optimizer measures itself beside.
#   bench/peers/deepspeed_adam.sh SOURCES [LIBRARY]
#     SOURCES   a source tree of DeepSpeed: csrc/adam/cpu_adam_impl.cpp and csrc/includes/ are read
#     LIBRARY   what to write; build/deepspeed_adam.so
# Example: bench/peers/deepspeed_adam.sh ~/DeepSpeed && build/release/bin/bench_optimizer --peer build/deepspeed_adam.so
# No PyTorch is needed: torch_stand_in/ has the few types that the kernel takes. Flags are those that DeepSpeed's own
# builder uses on a machine with AVX-512 or, without, AVX2. Exit status: 0 done, 42 wrong usage, 70 it does not compile.
set -euo pipefail

peers=$(cd "$(dirname "$0")" && pwd)
refuse() { echo "deepspeed_adam.sh: $*" >&2; exit 42; }

case ${1:-} in
  -h|--help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '') refuse "which source tree of DeepSpeed? bench/peers/deepspeed_adam.sh SOURCES [LIBRARY]" ;;
esac
[ $# -le 2 ] || refuse "$# arguments; SOURCES and LIBRARY are all there are"
kernel=$1/csrc/adam/cpu_adam_impl.cpp
[ -r "$kernel" ] || refuse "no $kernel: $1 is not a source tree of DeepSpeed 0.15 or newer"
library=${2:-$peers/../../build/deepspeed_adam.so}
mkdir -p "$(dirname "$library")"

vectors=
if grep -qw avx512f /proc/cpuinfo; then
  vectors=-D__AVX512__
elif grep -qw avx2 /proc/cpuinfo; then
  vectors=-D__AVX256__
fi
"${CXX:-g++}" -O3 -std=c++17 -march=native -fopenmp $vectors -w -shared -fPIC -I"$peers/torch_stand_in" \
  -I"$1/csrc/includes" "$peers/deepspeed_adam.cpp" "$kernel" -o "$library" ||
  { echo "deepspeed_adam.sh: the kernel does not compile; torch_stand_in/ may lack what this version asks for" >&2; exit 70; }
echo "$library"
