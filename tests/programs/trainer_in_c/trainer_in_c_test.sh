#!/usr/bin/env bash
# A trainer in C on weft.h, compiled and linked by gcc as docs/foreign-trainers.md says, and the trainer of examples/c, on 1 to 4 ranks.
# usage: trainer_in_c_test.sh TOP LIBRARIES WEFT_LAUNCH
set -u
top=$1 libraries=$2 launch=$3
. "$(dirname "$0")/../../support/checks.sh"
command -v gcc >/dev/null || { echo "skipped: there is no gcc"; exit 77; }

exchange=$top/bench/peers/llmc
built() {  # PROGRAM SOURCE...
  gcc -std=c11 -pedantic -O2 -Wall -Wextra -Werror -I"$top/include" -I"$exchange" "${@:2}" -L"$libraries" -lweft -Wl,-rpath,"$libraries" -lm \
    -o "$work/$1" 2>"$work/err" || fail "gcc does not build $1"
}
built trainer "$top/tests/programs/trainer_in_c/flat_block.c" "$exchange/exchange_weft.c"
for ranks in 1 2 3 4; do
  check "$ranks ranks" 0 "^(.*: )?rank $((ranks - 1)) of $ranks has the means of 5 steps$" "$launch" -n "$ranks" "$work/trainer"
done

# examples/c learns, all ranks have the same parameters, and a training that ended early goes on to the same ones.
built example "$top/examples/c/main.c"
[ "$(wc -l <"$top/examples/c/main.c")" -le 120 ] || fail "examples/c/main.c has more than 120 lines"
seq 1 20000 >"$work/text"
check "examples/c" 0 "rank 1: the first weight is" "$launch" -n 2 "$work/example" "$work/text" "$work/checkpoints"
weights=$(grep -h "the first weight is" "$work/out" | sed 's/.*is //' | sort -u)
[ "$(wc -l <<<"$weights")" -eq 1 ] || fail "the ranks have different parameters: $weights"
losses=$(grep -h "held-out loss" "$work/out" | sed 's/.*loss //')
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 5 && last < first / 2) }' <<<"$losses" || fail "it does not learn: $losses"
rm -r "$work/checkpoints/step-00000401"
check "examples/c goes on" 0 "rank 0: the first weight is $weights$" "$launch" -n 2 "$work/example" "$work/text" "$work/checkpoints"
lines "it goes on from step 400" 1 "held-out loss"
check "examples/c without a text" 42 "no 10000 bytes of text" "$work/example" "$work/none"
finish
