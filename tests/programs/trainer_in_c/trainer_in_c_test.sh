#!/usr/bin/env bash
# A trainer in C with a shim in C++, linked by gcc as docs/foreign-trainers.md says, on 1 to 4 ranks.
# usage: trainer_in_c_test.sh TOP LIBRARIES WEFT_LAUNCH CXX_COMPILER
set -u
top=$1 libraries=$2 launch=$3 compiler=$4
. "$(dirname "$0")/../../support/checks.sh"
command -v gcc >/dev/null || { echo "skipped: there is no gcc"; exit 77; }

shim=$top/bench/peers/llmc
"$compiler" -std=c++20 -O2 -Wall -Wextra -I"$top/include" -c "$shim/exchange_weft.cpp" -o "$work/exchange_weft.o" || fail "the shim does not compile"
gcc -O2 -Wall -Wextra -Werror -I"$shim" -c "$top/tests/programs/trainer_in_c/flat_block.c" -o "$work/trainer.o" || fail "the trainer does not compile"
gcc "$work/trainer.o" "$work/exchange_weft.o" -L"$libraries" -lweft -Wl,-rpath,"$libraries" -lstdc++ -lm -o "$work/trainer" || fail "gcc does not link"
for ranks in 1 2 3 4; do
  check "$ranks ranks" 0 "^(.*: )?rank $((ranks - 1)) of $ranks has the means of 5 steps$" "$launch" -n "$ranks" "$work/trainer"
done
finish
