#!/usr/bin/env bash
# weft-report as a stranger uses it: folders of flight records and settings of NCCL, what is said of them for people and machines, and
# every wrong input.
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

one=$(operation 1 8 "done")
two=$(operation 2 8 begun)

check help 0 "weft-report flight dumps" "$report" --help
check "help of flight" 0 "weft-report flight dumps --json -" "$report" flight --help
refused "nothing" "nothing to report on is named; allowed is flight, env, nccl, ras, watch, diff, inspector or tune" "$report"
refused "an unknown word" "'lunch' is nothing to report on; allowed is flight, env, nccl, ras, watch, diff, inspector or tune" "$report" lunch "$work"
refused "no folder" "no folder of flight records is named; it comes first" "$report" flight
refused "two folders" "'more' is one folder too many; allowed is one" "$report" flight "$work" more
refused "an unknown option" "unrecognised option '--bogus'; weft-report flight --help" "$report" flight "$work" --bogus
refused "a folder that is not there" "cannot read the folder '/nowhere': No such file" "$report" flight /nowhere
refused "a folder without records" "has no rank-R.json; ranks write them" "$report" flight "$work"

flight well 0 2 signal "" "$one"
flight well 1 2 signal "" "$one"
check "ranks that are well" 0 "^nothing wrong: 2 ranks, step 16 to 17; 'world' \(host\) at all_reduce #1, done on ranks 0, 1$" \
  "$report" flight "$work/well"
lines "their table" 1 "^1 +node1 +signal +16 +world host: all_reduce #1 done$"
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
check "one raised, one left no record" 2 "^critical: rank 1 on node1 failed first: system: cannot allocate\\\\nmemory \[rank-raised-first, confidence 0.95\]$" \
  "$report" flight "$work/failed" --json "$work/json"
lines "its message in one line" 1 "^    rank-1.json: rank 1, .* UTC, system in all_reduce #2: cannot allocate\\\\nmemory$"
lines "the table too" 1 "^1 +node1 +error +16 .* system: cannot allocate\\\\nmemory$"
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

# Settings of NCCL. $here is an environment with nothing else in it.
here=(env -i "HOME=$work/home")
mkdir "$work/home"
check "help of env" 0 "weft-report env node0.env node1.env --nccl 2.28.9" "$report" env --help
check "no settings" 0 "^nothing wrong: 0 settings of NCCL, judged for NCCL 2.32.3$" "${here[@]}" "$report" env
check "settings that are well" 0 "^nothing wrong: 2 settings of NCCL" "${here[@]}" NCCL_DEBUG=WARN NCCL_IB_TC=106 "$report" env
check "a typo" 1 "^warning: NCCL_IB_DISABEL is unknown: nothing reads it; NCCL_IB_DISABLE is near \[unknown-variable, confidence 0.95\]$" \
  "${here[@]}" NCCL_IB_DISABEL=1 "$report" env
lines "the verdict" 1 "^0 critical, 1 warning, 0 notices: 0 settings of NCCL, judged for NCCL 2.32.3$"
lines "where it is" 1 "^    environment: NCCL_IB_DISABEL=1$"
lines "what mends it" 1 "^    fix: write NCCL_IB_DISABLE$"
check "a danger, for machines" 2 '^\{"findings":\[\{"cause":"chunk-size-too-large","severity":"critical","confidence":9E-1,"evidence":\[\{"file":"environment","line":0,"text":"NCCL_CHUNK_SIZE=1048576"\}\],"fix":"[^"]*","verdict":"NCCL_CHUNK_SIZE=1048576: [^"]*"\}\],"nccl":"2.28.9","ranks":\[\{"file":"environment","settings":\[\{"name":"NCCL_CHUNK_SIZE","value":"1048576","file":"environment","line":0\}\]\}\]\}$' \
  "${here[@]}" NCCL_CHUNK_SIZE=1048576 "$report" env --nccl 2.28.9 --json -
[ "$(wc -l < "$work/out")" -eq 1 ] || fail "nothing but JSON on standard output"

printf 'NCCL_DEBUG=INFO\nNCCL_IB_TC=106\n' > "$work/home/.nccl.conf"
check "a configuration file below the environment" 0 "^notice: NCCL_DEBUG of $work/home/.nccl.conf has no effect: environment sets it, too \[conf-value-hidden" \
  "${here[@]}" NCCL_DEBUG=WARN "$report" env
lines "where a setting comes from" 1 "^NCCL_IB_TC=106 +$work/home/.nccl.conf, line 2$"
printf 'export NCCL_DEBUG=WARN\n' > "$work/own.conf"
check "another configuration file" 1 "^warning: a line sets nothing that NCCL reads \[conf-line-ignored" \
  "${here[@]}" "NCCL_CONF_FILE=$work/own.conf" "$report" env
lines "instead of that in the home folder" 0 "NCCL_IB_TC"
check "a configuration file that is not there" 1 "NCCL_CONF_FILE=/no.conf: there is no such file, and NCCL says nothing of it \[conf-file-missing" \
  "${here[@]}" NCCL_CONF_FILE=/no.conf "$report" env

printf 'NCCL_ALGO=Ring\nOMPI_COMM_WORLD_RANK=0\n' > "$work/node0.env"
printf 'NCCL_DEBUG=WARN\nOMPI_COMM_WORLD_RANK=1\n' > "$work/node1.env"
check "ranks that differ" 2 "^critical: NCCL_ALGO differs between ranks: 2 values in 2 files" "$report" env "$work/node0.env" "$work/node1.env"
lines "the way to the other rank" 1 "^    fix: set it to one value on every rank; mpirun passes to other hosts only what -x NAME names$"
check "standard input" 1 "^    -, line 1: NCCL_ALGO=Ring$" bash -c '"$0" env - < "$1"' "$report" "$work/node0.env"
check "the environment of a running process" 1 "NCCL_PROTO=LL: one choice" bash -c 'NCCL_PROTO=LL bash -c "\"\$0\" env /proc/\$\$/environ; exit \$?" "$0"' "$report"

refused "a file that is not there" "/nowhere: cannot read it: No such file" "$report" env /nowhere
refused "a folder" "cannot read it: Is a directory" "$report" env "$work"
refused "a binary file" "weft-report: is a binary file; give the output of env" "$report" env "$report"
: > "$work/empty.env"
refused "an empty file" "empty.env: is empty; give the output of env" "$report" env "$work/empty.env"
echo hello > "$work/prose.env"
refused "a text of something else" "prose.env: has no line NAME=VALUE" "$report" env "$work/prose.env"
refused "a file twice" "node0.env: is given twice" "$report" env "$work/node0.env" "$work/node0.env"
refused "no version" "--nccl new: is no version of NCCL from 2.4 on; give one like 2.28.9" "$report" env --nccl new
refused "a version of long ago" "--nccl 1.3.4: is no version of NCCL from 2.4 on" "$report" env --nccl 1.3.4
refused "two versions" "'--nccl' cannot be specified more than once" "$report" env --nccl 2.28.9 --nccl 2.20
refused "a version that is not said" "argument for option '--nccl' is missing" "$report" env --nccl
refused "an unknown option of env" "unrecognised option '--bogus'; weft-report env --help" "$report" env --bogus
head -c 1048576 /dev/zero | tr '\0' x > "$work/long.env"
printf '\nNCCL_DEBUG=WARN\n' >> "$work/long.env"
check "a line of 1 MiB" 0 "^nothing wrong: 1 setting of NCCL" "$report" env "$work/long.env"
full_output "settings" "${here[@]}" "$report" env

# logs of NCCL
mkdir -p "$work/logs/below"
cat > "$work/logs/rank0" <<'LOG'
node1:700:700 [0] NCCL INFO Bootstrap: Using eth0:10.1.0.1<0>
node1:700:700 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.1<0>
node1:700:700 [0] NCCL INFO Using network IB
LOG
cp "$work/logs/rank0" "$work/well.log"
printf 'node2:811:811 [7] NCCL INFO \033[31mUsing network Socket\nnode2:811:811 [7] NCCL INFO Using network Socket\r\n' > "$work/logs/below/rank7"
check "help of nccl" 0 "weft-report nccl logs/" "$report" nccl --help
check "a job that is well" 0 "^nothing wrong is seen in 3 lines, 3 of them NCCL's$" "$report" nccl "$work/well.log"
lines "its host" 1 "^node1 +1 +IB +eth0 +0 of 0 "
check "hosts compared" 2 "^critical: data between nodes goes over TCP although RDMA hardware is there \[net-fallback-socket, confidence 0.9\]$" \
  "$report" nccl "$work/logs" --json "$work/json"
lines "its line" 1 "^    $work/logs/below/rank7, line 2: node2:811:811 \[7\] NCCL INFO Using network Socket$"
grep -q '^{"findings":\[{"cause":"net-fallback-socket","severity":"critical","confidence":9E-1,"evidence":\[{"file":"[^"]*rank7","line":2,' "$work/json" || fail "findings of nccl in the JSON: $(cat "$work/json")"
grep -q ',"verdict":"data between nodes [^"]*","expected_effect":"the rate of the RDMA ports: [^"]*","not_when":"the hardware carries storage only"}\]' "$work/json" || fail "effect in the JSON: $(cat "$work/json")"
lines "what the fix brings" 1 "^    expected effect: the rate of the RDMA ports"
lines "when it does not apply" 1 "^    does not apply when the hardware carries storage only$"
printf 'node1:7:7 [0] nvls.cc:1 NCCL WARN Failed to bind NVLink SHARP\n' > "$work/nvls.log"
check "versions, for machines" 2 '"versions":"2.17 and newer"' "$report" nccl "$work/nvls.log" --json -
check "another version" 0 "^notice: NCCL warned, and no rule knows the line" sh -c "{ echo 'node1:7:7 [0] NCCL INFO NCCL version 2.16.2+cuda11.8'; cat '$work/nvls.log'; } | '$report' nccl -"
check "from standard input" 2 "^    standard input, line 4: " sh -c "cat '$work/logs/rank0' '$work/logs/below/rank7' | sed 2d | '$report' nccl - '$work/well.log'"
check "a file that is no text" 0 "rank9 is not text" sh -c "printf 'a\\0b' > '$work/rank9'; '$report' nccl '$work/well.log' '$work/rank9' 2>&1"
printf 'n\xff1:7:7 [0] NCCL INFO Using network IB\nn1:7:7 [0] x.cc:1 NCCL WARN caf\xe9 cut\n' > "$work/bytes.log"
check "bytes that are not UTF-8, for machines" 0 "\"text\":\"n1:7:7 \[0\] x.cc:1 NCCL WARN caf$(printf '\xef\xbf\xbd') cut\"" "$report" nccl "$work/bytes.log" --json -
# hosts: topologies and tools beside the logs
cat > "$work/topo.txt" <<'XML'
<?xml version="1.0"?>
<!DOCTYPE system SYSTEM "file:///etc/hostname" [<!ENTITY outside SYSTEM "file:///etc/hostname">]>
<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="&outside;">
    <pci busid="0000:18:00.0" class="0x030200" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90"/></pci>
    <pci busid="0000:19:00.0" class="0x030200" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="8"><gpu dev="1" sm="90"/></pci>
  </cpu>
</system>
XML
check "a topology, whatever its name" 1 "^warning: 0000:19:00.0 in $work/topo.txt has a PCIe link of 32 GT/s x8; 0000:18:00.0 of the same kind has 32 GT/s x16 \[pcie-link-slow" \
  "$report" nccl "$work/topo.txt"
check "a topology from standard input" 1 "^    standard input, line 6: <pci busid=\"0000:19:00.0\"" sh -c "'$report' nccl - '$work/well.log' < '$work/topo.txt'"
head -c 300 "$work/topo.txt" > "$work/cut.xml"
check "a broken topology, and the rest" 0 "cut.xml is a topology of NCCL that cannot be read: line 5: " sh -c "'$report' nccl '$work/cut.xml' '$work/well.log' 2>&1"
refused "nothing but a broken topology" "cut.xml is a topology of NCCL that cannot be read: line 5: " "$report" nccl "$work/cut.xml"
{ echo '<system version="1">'; head -c 17000000 /dev/zero | tr '\0' ' '; echo '</system>'; } > "$work/large.xml"
check "a topology that is too large" 0 "large.xml is a topology of NCCL of more than 16 MiB, and was not read" sh -c "'$report' nccl '$work/large.xml' '$work/well.log' 2>&1"
check "a topology that is well" 0 "^nothing wrong is seen in 3 lines, 3 of them NCCL's, and 1 files that were read whole$" \
  sh -c "sed 's/width=\"8\"/width=\"16\"/' '$work/topo.txt' | '$report' nccl - '$work/well.log'"
printf '\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-31\t0\nGPU1\tNV4\t X \t0-31\tN/A\n' > "$work/node1.topo"
check "a table of nvidia-smi" 1 "^warning: GPU1 of $work/node1.topo has no NUMA node, GPU0 has 0 \[numa-unknown" "$report" nccl "$work/node1.topo"

cat > "$work/run.txt" <<'END'
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid    501 on      node1 device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    501 on      node1 device  1 [0000:19:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1    20.00   52.43   52.43       0    20.00   52.43   52.43       0
     2097152        524288     float     sum      -1    60.00   34.95   34.95       0    60.00   34.95   34.95       0
  1073741824     268435456     float     sum      -1   3300.0  325.38  325.38       0   3310.0  324.39  324.39       0
# Avg bus bandwidth    : 137.6
END
check "a table of nccl-tests" 0 "^all_reduce +NVLink +2 MiB +2 +1 +1 GiB +325.38 +370.8 +88 % +0$" "$report" nccl "$work/run.txt"
check "a table of nccl-tests, for people elsewhere" 0 "^\| all_reduce \| NVLink \| 2 MiB \| 2 \|" "$report" nccl "$work/run.txt" --markdown -
check "a table of nccl-tests, for machines" 0 '"bandwidth":\[\{"op":"all_reduce","ranks":2,"nodes":1,"device":"NVIDIA H100 80GB HBM3","file":"[^"]*run.txt","line":5,"bytes":1073741824,"busbw":3.2538E2,"bound":3.708E2,"limit":"NVLink",' \
  "$report" nccl "$work/run.txt" --json -
check "a table that shows wrong results" 2 "^critical: all_reduce of 2 ranks gave 7 wrong values \[wrong-results" sh -c "sed 's/325.38       0/325.38       7/' '$work/run.txt' | '$report' nccl -"
cat > "$work/run.json" <<'END'
{"version":3,"args":["./all_gather_perf"],"nccl_version":22809,"results":[{"size":1073741824,"count":4,"type":"float","redop":"none","root":"    -1","out_of_place":{"time":3300.0,"alg_bw":325.4,"bus_bw":162.7,"nwrong":0.0},"in_place":null}]}
END
check "JSON of nccl-tests" 0 "^all_gather +not known +1 +1 GiB +162.70 +0$" "$report" nccl "$work/run.json"
sed 's/"size":/"size":-/' "$work/run.json" > "$work/bad.json"
check "broken JSON of nccl-tests, and the rest" 0 "bad.json is a result of a benchmark that cannot be read: " sh -c "'$report' nccl '$work/bad.json' '$work/well.log' 2>&1"
refused "no log" "no log is named; files, folders or - come first" "$report" nccl
refused "a log that is not there" "there is no '/nowhere'; name files" "$report" nccl /nowhere
refused "standard input twice" "- is named twice" "$report" nccl - -
: > "$work/empty"
refused "an empty log" "empty is empty; name the logs of the ranks" "$report" nccl "$work/empty"
echo "a day in the life of a cat" > "$work/cat"
refused "a log of something else" "none of 1 lines is one of NCCL; run the job with NCCL_DEBUG=INFO" "$report" nccl "$work/cat"
refused "an option of nccl that is none" "unrecognised option '--bogus'; weft-report nccl --help" "$report" nccl "$work/well.log" --bogus
refused "a log beside --rules" "'logs' has no effect: --rules prints the rules; leave it out" "$report" nccl logs --rules
refused "--json beside --rules" "json has no effect: --rules prints the rules" "$report" nccl --rules --json -
if command -v python3 > /dev/null; then
  "$report" nccl --rules | python3 "$(dirname "$0")/../../docs/findings.py" --check > "$work/out" || fail "$(cat "$work/out")"
  "$report" nccl --rules | sed '/`port-down`/d' | python3 "$(dirname "$0")/../../docs/findings.py" --check > "$work/out" && fail "a row less was not noticed"
  grep -q '^findings-p-r.md is not what' "$work/out" || fail "the page without a row is not named: $(cat "$work/out")"
else
  echo "skipped: there is no python3 to compare docs/findings.md"
fi
full_output "findings of nccl" "$report" nccl "$work/logs"
finish
