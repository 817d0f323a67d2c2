#!/bin/bash
# docs/gpu.md says what the records of tests/gpu.sh say, and no more.
# usage: gpu_page_test.sh
set -u
. "$(dirname "$0")/../support/checks.sh"
tree=$(cd "$(dirname "$0")/../.." && pwd)
page=$tree/tests/gpu/page.py

check "the page of this tree" 0 'as the records are' python3 "$page"
mkdir -p "$work/docs" "$work/tests" "$work/bench/results/raw/2030-01-02-card/newer"
cp "$tree/tests/gpu.sh" "$work/tests/"
row() { printf '| what | suite of tests/gpu.sh | record | state |\n|---|---|---|---|\n| one | %s | %s | open |\n' "$1" "$2" > "$work/docs/gpu.md"; }
row "kernels, conformance-*" none
check "no record" 0 'as the records are' python3 "$page" --root "$work"
row "kernels, conformance-*" "passed (2030-01-02, a card)"
check "a claim without a record" 1 'tests/gpu/page.py --write' python3 "$page" --root "$work"
printf '{"card": "a card", "date": "2030-01-02", "nccl": 22809}\n{"suite": "kernels", "state": "passed"}\n{"suite": "conformance-2", "state": "failed"}\n' \
  > "$work/bench/results/raw/2030-01-02-card/gpu.jsonl"
printf '{"card": "none: kernels are emulated", "date": "2030-01-03"}\n{"suite": "low-rank", "state": "passed"}\n' > "$work/bench/results/raw/2030-01-02-card/newer/gpu.jsonl"
row "kernels, conformance-2" none
check "a record that the page does not have" 1 'says something else than the records' python3 "$page" --root "$work"
check "is written" 0 'as the records are' python3 "$page" --root "$work" --write
grep -qF '| kernels, conformance-2 | failed: conformance-2 (2030-01-02, a card, NCCL 2.28.9) | open |' "$work/docs/gpu.md" || fail "written: $(cat "$work/docs/gpu.md")"
check "and then is as the records are" 0 'as the records are' python3 "$page" --root "$work"
row low-rank none
check "what is emulated is no record" 0 'as the records are' python3 "$page" --root "$work"
row kernel none
check "a suite that is none" 1 'no suite kernel: tests/gpu.sh --list' python3 "$page" --root "$work"
finish
