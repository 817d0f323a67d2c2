#!/usr/bin/env bash
# weft-report as a stranger uses it: folders of flight records, what is said of them for people and machines, and every
# wrong input.
# usage: report_test.sh WEFT_REPORT
set -u
report=$1
. "$(dirname "$0")/../support/checks.sh"

# operation NUMBER COUNT STATE: issued at second NUMBER
operation() {
  echo "{\"lane\":\"host\",\"number\":$1,\"kind\":\"all_reduce\",\"count\":$2,\"dtype\":\"f32\",\"op\":\"sum\",\"root\":0,
    \"state\":\"$3\",\"issued_ns\":${1}000000000,\"begun_ns\":0,\"ended_ns\":0}"
}

# flight FOLDER RANK SIZE REASON ERROR OPERATION...: a record written 100 s after the steady clock's start. ERROR may be empty.
flight() {
  local folder=$work/$1 rank=$2 size=$3 reason=$4 error=$5
  shift 5
  mkdir -p "$folder"
  {
    echo "{\"weft_flight\":1,\"rank\":$rank,\"size\":$size,\"host\":\"node$rank\",\"pid\":$((100 + rank)),\"reason\":\"$reason\","
    echo "\"clock\":{\"steady_ns\":100000000000,\"wall_ns\":1790000000000000000},"
    [ -z "$error" ] || echo "\"error\":$error,"
    echo "\"progress\":[{\"track\":\"gradients\",\"step\":$((17 - rank)),\"waits_for\":[\"block.3.bias\"],\"waits_for_count\":2}],"
    echo "\"communicators\":[{\"name\":\"world\",\"ranks\":[$(seq -s, 0 $((size - 1)))],\"rank\":$rank,\"operations\":["
    local comma=""
    local issued
    for issued in "$@"; do
      echo "$comma$issued"
      comma=,
    done
    echo "]}]}"
  } > "$folder/rank-$rank.json"
}

# an error of KIND with a message at second SECOND
error() { echo "{\"kind\":\"$1\",\"message\":\"$2\",\"operation\":\"all_reduce\",\"number\":2,\"at_ns\":${3}000000000}"; }

one=$(operation 1 8 done)
two=$(operation 2 8 begun)

check help 0 "weft-report flight dumps" "$report" --help
check "help of flight" 0 "weft-report flight dumps --json -" "$report" flight --help
refused "nothing" "nothing to report on is named; allowed is flight" "$report"
refused "an unknown word" "'lunch' is nothing to report on; allowed is flight" "$report" lunch "$work"
refused "no folder" "no folder of flight records is named; it comes first" "$report" flight
refused "two folders" "'more' is a second folder; allowed is one" "$report" flight "$work" more
refused "an unknown option" "unrecognised option '--bogus'; weft-report flight --help" "$report" flight "$work" --bogus
refused "a folder that is not there" "cannot read the folder '/nowhere': No such file" "$report" flight /nowhere
refused "a folder without records" "has no rank-R.json; ranks write them" "$report" flight "$work"

flight well 0 2 signal "" "$one"
flight well 1 2 signal "" "$one"
check "ranks that are well" 0 "^nothing wrong: 2 ranks, step 16 to 17; 'world' \(host\) at all_reduce #1, done on ranks 0, 1$" \
  "$report" flight "$work/well"
lines "their table" 1 "^1 +node1 +signal +16 +world host: all_reduce #1 done +-$"
check "no finding for machines" 0 '^\{"findings":\[\],"ranks":\[\{"rank":0,"host":"node0","pid":100,"step":17,"last":\[\{"communicator":"world","lane":"host","number":1,"kind":"all_reduce","state":"done"\}\],"error":null\},' \
  "$report" flight "$work/well" --json -
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "nothing but JSON on standard output"

flight slow 0 2 signal "" "$one" "$two"
flight slow 1 2 signal "" "$one"
check "a rank that is behind, none failed" 1 "^warning: rank 1 is behind on 'world' \(host\): rank 0 waits in all_reduce #2, for up to 98.000 s \[rank-behind, " \
  "$report" flight "$work/slow"
lines "what it does" 1 "^    rank-1.json: rank 1's last operation is all_reduce #1 of 8 f32 \(sum, root 0\), done; step 16 of gradients waits for block.3.bias and 1 more parameter$"
lines "what mends it" 1 "^    fix: see what rank 1 does instead"

flight failed 0 3 error "$(error timeout 'rank 2 is missing' 90)" "$one" "$(operation 2 8 failed)"
flight failed 1 3 error "$(error system 'cannot allocate\nmemory' 50)" "$one"
check "one raised, one left no record" 2 "^critical: rank 1 on node1 alone raised an error of its own: system: cannot allocate memory \[rank-raised-first, confidence 0.95\]$" \
  "$report" flight "$work/failed" --json "$work/json"
lines "its message in one line" 1 "^    rank-1.json: rank 1, .* UTC, system in all_reduce #2: cannot allocate memory$"
lines "the table too" 1 "^1 +node1 +error +16 .* system: cannot allocate memory$"
order=$(grep -o '"cause":"[a-z-]*","severity":"[a-z]*"' "$work/json" | cut -d'"' -f4,8 | tr '"\n' '  ')
[ "$order" = "rank-raised-first critical rank-left-no-record critical rank-behind critical " ] || fail "findings in the JSON: $order"
grep -q '"evidence":\[{"file":"rank-2.json","line":0,"text":"is not in the folder"}\]' "$work/json" || fail "evidence in the JSON"

flight other 0 3 signal "" "$one" "$(operation 2 9 begun)"
flight other 1 3 signal "" "$one" "$two"
flight other 2 3 signal "" "$one" "$two"
check "a rank that issued something else" 2 "^critical: rank 0 diverged at #2 of 'world' \(host\) \[rank-diverged, " "$report" flight "$work/other"

check "a full disk" 70 "/dev/full" "$report" flight "$work/well" --json /dev/full
refused "findings in no folder" "--json /no/such/file: cannot write it: No such file" "$report" flight "$work/well" --json /no/such/file
full_output "findings" "$report" flight "$work/well"
cp "$work/well/rank-1.json" "$work/well/rank-01.json"
refused "two records of a rank" "rank-01.json and .*rank-1.json are both of rank 1; keep the records of one run" "$report" flight "$work/well"
rm "$work/well/rank-01.json"
flight well 2 3 signal "" "$one"
refused "jobs of different sizes" "rank-1.json is of a job of 2 ranks, .*rank-2.json of one of 3" "$report" flight "$work/well"
sed -i 's/"weft_flight":1/"weft_flight":2/' "$work/well/rank-2.json"
refused "another version" "well/rank-2.json: weft_flight is 2; this program reads version 1" "$report" flight "$work/well"
head -c 300 "$work/slow/rank-1.json" > "$work/well/rank-2.json"
refused "half a record" "well/rank-2.json: is no whole JSON: incomplete" "$report" flight "$work/well"
echo '{"traceEvents":[]}' > "$work/well/rank-2.json"
refused "a foreign file" "well/rank-2.json: is no flight record: it has no .weft_flight." "$report" flight "$work/well"
finish
