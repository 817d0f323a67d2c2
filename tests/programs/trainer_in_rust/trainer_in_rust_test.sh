#!/usr/bin/env bash
# The trainer of examples/rust, built by rustc alone: what it declares is what weft.h has, it learns on 2 and 4 ranks what it learns on one, and what is
# wrong is one line or a panic that the other ranks hear of.
# usage: trainer_in_rust_test.sh TOP LIBRARIES WEFT_LAUNCH
set -u
top=$1 libraries=$2 launch=$3
. "$(dirname "$0")/../../support/checks.sh"
command -v rustc >/dev/null && command -v gcc >/dev/null || { echo "skipped: there is no rustc, or no gcc; launchers/setup.sh rust installs them"; exit 77; }
rust=$top/examples/rust
: >"$work/out"
: >"$work/err"

# weft.rs in C, after weft.h: a compiler refuses a function that is declared in two ways.
in_c() {  # WEFT_RS
  local handles='(World|Comm|Stream|Layout|Reducer)'
  echo '#include <weft/weft.h>'
  sed -nE "
    s/^ *pub const ([A-Z0-9_]+): c_(int|double) = (.*);\$/_Static_assert(WEFT_\\1 == \\3, \"\\1\");/p; t
    s/^ *pub fn (weft_[a-z_0-9]+)\\((.*)\\) -> (.*);\$/\\3 \\1(\\2);/; T
    s/[a-z_0-9]+: //g
    s/\\(\\)/(void)/
    s/\\*const (World|Connect|Reducer)Options/const weft_\\L\\1_options_t*/g
    s/\\*const \\*mut c_void/void* const*/g
    s/\\*const c_(void|char)/const \\1*/g
    s/\\*const i64/const int64_t*/g
    s/\\*mut c_void/void*/g
    s/\\*mut $handles/weft_\\L\\1_t*/g
    s/\\b$handles\\b/weft_\\L\\1_t/g
    s/\\bc_(int|double)\\b/\\1/g
    s/\\bi64\\b/int64_t/g
    p" "$1"
}
accepted() { gcc -std=c11 -Wall -Wextra -Werror -I"$top/include" -fsyntax-only "$1" 2>"$work/err"; }
in_c "$rust/weft.rs" >"$work/declared.c"
functions=$(grep -c ' weft_' "$work/declared.c")
[ "$functions" -eq "$(grep -cE '\bfn weft_' "$rust/weft.rs")" ] && [ "$functions" -gt 20 ] && [ "$(grep -c _Static_assert "$work/declared.c")" -gt 5 ] ||
  fail "$functions functions of weft.rs in C: teach this test what they look like"
accepted "$work/declared.c" || fail "weft.rs declares what weft.h has not"
for wrong in 's/weft_comm_rank(comm: Comm)/weft_comm_rank(comm: c_int)/' 's/(layout: Layout, id: c_int) -> i64/(layout: Layout, id: c_int) -> c_int/' \
  's/FROM_RANK_0: c_int = 1/FROM_RANK_0: c_int = 0/'; do
  sed "$wrong" "$rust/weft.rs" >"$work/wrong.rs"
  cmp -s "$rust/weft.rs" "$work/wrong.rs" && fail "$wrong changes nothing"
  in_c "$work/wrong.rs" >"$work/wrong.c"
  accepted "$work/wrong.c" && fail "$wrong is not noticed"
done

built() {  # PROGRAM SOURCE
  rustc --edition 2021 -O -D warnings "$2" -L "$libraries" -l weft -C link-arg="-Wl,-rpath,$libraries" -o "$work/$1" 2>"$work/err" || fail "rustc does not build $1"
}
built train "$rust/train.rs"
text=$top/docs/pytorch.md
for ranks in 1 2 4; do
  check "$ranks ranks" 0 "^(.*: )?rank $((ranks - 1)) of $ranks: the first weight is" "$launch" -n $ranks "$work/train" "$text"
  [ "$(sed -n 's/.*the first weight is //p' "$work/out" | sort -u | wc -l)" -eq 1 ] || fail "$ranks ranks have different parameters"
  sed -n 's/.*held-out loss //p' "$work/out" >"$work/losses.$ranks"
done
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 4 && last < first - 1.5) }' "$work/losses.1" || fail "it does not learn: $(xargs <"$work/losses.1")"
for ranks in 2 4; do
  paste "$work/losses.1" "$work/losses.$ranks" | awk '{ d = $1 - $2; if (NF != 2 || d > 0.005 || d < -0.005) exit 1 }' ||
    fail "$ranks ranks learn $(xargs <"$work/losses.$ranks"), one learns $(xargs <"$work/losses.1")"
done
refused "no text" "^train: cannot read /nowhere: " "$work/train" /nowhere
refused "a short text" "has 0 bytes; name a text of 10000 bytes" "$work/train" "$top/python/weft/py.typed"
check "ranks that cannot share a batch" 42 "train: 3 ranks cannot share 128 places" "$launch" -n 3 "$work/train" "$text"

cp "$rust/weft.rs" "$top/tests/programs/trainer_in_rust/mistakes.rs" "$work"
built mistakes "$work/mistakes.rs"
check "a gradient on the wire" 101 "rank 0 heard, for status 75: .*rank 1 failed: the program panicked" "$launch" -n 2 "$work/mistakes"
lines "it says which" 1 "gradient 1 is on the wire until finish"
finish
