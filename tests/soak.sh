#!/usr/bin/env bash
# Trials that take longer than a test may.
#   tests/soak.sh mixes [COUNT [BIN]]    random mixes of collectives against the sequential reference (1000)
#   tests/soak.sh torch_mixes [COUNT]    the same of torch.distributed's collectives and messages over weft (1000), in several groups and threads:
#                                        bitwise the results of gloo; needs launchers/setup.sh torch and tests/torch/torch_test.sh build
#   tests/soak.sh torch_drops [COUNT [asan]]   trials (1000) of torch.distributed's calls whose works are dropped, waited for too shortly, interrupted and
#                                        garbage-collected at random, in groups that are aborted and destroyed (tests/torch/drops.py): nothing
#                                        is freed under a transfer. asan: under the address sanitizer, which it builds
#   tests/soak.sh torch_restarts [COUNT [BIN]]   jobs of torchrun whose ranks fail one to three times (100), with one agent and with two, in turn
#                                        of the torch backend and of BIN/launch_probe: each recovers with as many restarts
#   tests/soak.sh kills [COUNT [BIN]]    kill -9 of one rank at random moments (200): every survivor names it, within 5 s under
#                                        weft-launch and 0.8 s under mpirun, and nothing stays in /dev/shm
#   tests/soak.sh faults [COUNT [BIN]]   a rank leaves out a gradient, brings one twice, has its parameters in another order or one of
#                                        another shape, dies, is slow, or issues what the others do not (200, kinds in turn): every
#                                        rank names rank and parameter within 2 s, and weft-report flight names the rank
#   tests/soak.sh trainers [COUNT [BIN]] mistakes of trainers (200 of each) that numbers alone would not show: a gradient that is forgotten, a rank that
#                                        leaves, two threads in one reducer, a module wrapped twice: each job ends with its one exit status
#   tests/soak.sh steps [COUNT [BIN]]    steps of training without a fault (100000), inline and with a thread: no error, no report
#   tests/soak.sh drift [STEPS [BIN]]    PowerSGD, steps on 4 ranks whose gradients are biased apart (20000): what is not sent stays
#                                        bounded, 40 times below PyTorch's definition, and none of the gradients is lost
#   tests/soak.sh nan [COUNT [BIN]]      PowerSGD, NaN, infinities and values too large for sums (1000) in gradients and states of
#                                        random trainings: all steps after are bitwise those without
#   tests/soak.sh zero [STEPS [BIN]]     steps (10000) of trainings that overflow and are clipped at random, under stages of ZeRO: scale,
#                                        skipped steps and parameters are bitwise those of plain data parallelism
#   tests/soak.sh stages [STEPS [BIN]]   steps (200) of gpt-ref under every stage, with other buckets, threads, prefetches and PowerSGD:
#                                        the same bits
#   tests/soak.sh pipelines [STEPS [BIN]]    steps (50) of gpt-ref cut into stages, under every schedule, also with data-parallel ranks and
#                                        stages of ZeRO: the same bits, within 1e-6 of the model in one piece
#   tests/soak.sh trainings [STEPS [BIN]]  steps (200) of gpt-tiny with other buckets, threads, numbers of ranks and stages: the same bits
#   tests/soak.sh allocations [STEPS [BIN]]   steps (10000) of trainings of every kind, within a node: none takes anything from the
#                                        heap after its second step
#   tests/soak.sh schedules [COUNT [BIN]]    mutants (100000) of small random pipeline schedules: the verifier rejects each that goes
#                                        wrong in any order in which devices and transfers can move, and none that does not
#   tests/soak.sh synthesis [COUNT [BIN]]    pipelines (10000) drawn at random: the schedule found is valid, its bound holds when checked,
#                                        and no named schedule that fits the same memory is shorter
#   tests/soak.sh alike [COUNT [BIN]]    the same of stages that are alike (3000), in the memory of 1F1B
#   tests/soak.sh plans [COUNT [BIN]]        plans of jobs (10000) drawn at random, for weft-plan scale: a faster link, memory or product never slows a
#                                        step; on links that cost nothing it is what computations take; parts add up
#   tests/soak.sh tuner [CALLS [BIN]]        random calls (10000000 of each interface) of libnccl-tuner-weft.so, as NCCL 2.21 to 2.30 calls it: each answer
#                                        is that of a plain reading of its table, and nothing else is touched
#   tests/soak.sh nccl_lines [COUNT [BIN]]   random and mutated lines (10000000) of NCCL's logs for weft-report nccl: nothing crashes, and findings
#                                        show lines that are there; BIN: build/asan/bin
#   tests/soak.sh inspector [RUNS [BIN]]     random runs (2000) as NCCL's Inspector writes them, of 8 to 128 ranks: weft-report names the straggler of
#                                        each that has one, and no other
#   tests/soak.sh profiler [EVENTS [BIN]]    events (10000000 of each interface) for libnccl-profiler-weft.so, as NCCL 2.23 to 2.31 calls it: how
#                                        many a second, and no operation lost at 8 threads
#   tests/soak.sh exposed [STEPS [BIN]]      steps (40) of gpt-ref on 2 ranks over the fake NCCL, which tells that plug-in of its operations: busy and exposed
#                                        time by the plug-in's trace are within 1 % of weft's own account; MODEL=gpt-tiny: another model
#   tests/soak.sh layouts [COUNT [BIN]]      random layouts (200) of 1 to 4 nodes with 1 to 3 ranks each, in any placement, over UCX, TCP and MPI:
#                                        ddp, every stage of ZeRO, offload, 16-bit gradients and PowerSGD end with one set of bits; and
#                                        weft-bench's collectives, types and operations (162 layouts): no element is wrong
#   tests/soak.sh hosts                      the conformance tests on 1, 2 and 4 simulated hosts, 1 to 8 ranks: under weft-launch over
#                                        UCX and TCP, and under mpirun, where they meet through PMIx and without MPI; needs root
#   tests/soak.sh disagreements [COUNT [BIN]]    jobs (200) in which one rank disagrees with the others (tests/disagreements.py): all are
#                                        refused before their deadline, with both sides named
#   tests/soak.sh attack [RUNS [BIN]]        jobs (50) whose TCP store strangers attack (tests/attack.py): none enters, rank 0 stays
#                                        small, the ranks connect in time
#   tests/soak.sh deaths [COUNT [BIN]]       jobs (400) of which a rank is killed, stopped, made slow or cut off at any moment, and while ranks connect
#                                        (tests/deaths.py): everybody ends in time, the right rank is named, nothing is left;
#                                        KINDS=cut RANKS=4 LAUNCHERS=hosts-tcp,hosts-ucx: two ranks on each of two hosts, whose line is cut
#   tests/soak.sh watches [COUNT [BIN]]      trainings (200) under weft-launch of which a rank is stopped, killed, made slow or cut off, and as many that are well
#                                        (tests/watches.py): weft-report watch names the rank, and no other; MODEL=gpt-ref: another model
#   tests/soak.sh host_losses [COUNT [BIN]]  trainings (20) of three simulated hosts that lose one and get it back (tests/host_losses.py): they go on
#                                        with two, then with three, and end within 1 % of the undisturbed loss; needs root;
#                                        LAUNCHER=mpirun: the ranks are mpirun's
#   tests/soak.sh restarts [COUNT [BIN]]     trainings (100 under weft-launch and under mpirun started by it) of which a rank is killed
#                                        (tests/restarts.py): they start again and end bitwise as the undisturbed one
#   tests/soak.sh notices [COUNT [BIN]]      jobs (20 each) that get a notice (SIGUSR1 to weft-launch), here and on four simulated hosts
#                                        (tests/notices.py): it reaches all ranks within 1 s; BIN has launch_probe, too
#   tests/soak.sh devices [COUNT [BIN]]      device jobs (100) on 4 simulated hosts, over emulated kernels and a fake NCCL, of which a rank
#                                        is killed, stopped, leaves or disagrees (tests/devices.py): all name it, within 5 s, stopped
#                                        within 5 s after the deadline; BIN: build/recorded/bin
#   tests/soak.sh interrupts [COUNT [BIN]]   programs (100) that a signal ends at any moment, or whose disk is full from any byte on
#                                        (tests/interrupts.py): no file is left that is not whole
#   tests/soak.sh checkpoints [COUNT [BIN]]  jobs (300) that are killed at any moment while they save checkpoints, and as many that save them behind
#                                        their training; bits (1000) that are flipped in one, and disks (100 for each kind of save)
#                                        that are full from any byte on: the last one that was saved always loads, a torn one
#                                        never does, and a flipped bit is named
#   tests/soak.sh options [COUNT [BIN]]      combinations of options (200 of each program), drawn at random (tests/options.py): each option has an
#                                        effect that can be seen, or is refused
#   tests/soak.sh spoiled [COUNT [BIN]]      jobs (100) of simulated hosts whose line loses, doubles, overtakes and changes packets (tests/spoiled.py): no
#                                        sum is wrong; where changed bits reach weft, because checksums are made right again, nobody
#                                        waits for ever; needs root
#   tests/soak.sh clocks [COUNT [BIN]]       jobs (100) whose wall clock jumps back and forth by up to 10 years (tests/clocks.py): no deadline fires early
#                                        or never, trainings save and start again, records can be read
#   tests/soak.sh full_disks [COUNT [BIN]]   jobs (100) whose /dev/shm, /tmp, TMPDIR, HOME or output folder is full, read-only or missing
#                                        (tests/full_disks.py): an error names the path and what to do; needs root
#   tests/soak.sh process_ids [COUNT [BIN]]  jobs (100) of which a rank dies and another process gets its number at once (tests/process_ids.py): it is
#                                        still found dead, and no stranger gets a signal; needs root; BIN is not in /tmp
#   tests/soak.sh other_users [COUNT [BIN]]  jobs (100) beside another user, who sends signals and puts files where they look (tests/other_users.py):
#                                        nothing of the job's changes; needs root; BIN is not in /tmp
#   tests/soak.sh valgrind [COUNT [BIN]]     weft-plan and weft-report under valgrind, over their tests and cases (tests/valgrind.py), or COUNT of the cases
#   tests/soak.sh torch_hosts [COUNT]        jobs (100) of torch.distributed over weft on two simulated hosts, with deaths, cuts and slow lines at any
#                                        moment (tests/torch/hosts_trial.py); needs root, launchers/setup.sh torch and
#                                        tests/torch/torch_test.sh build
#   tests/soak.sh arm64                      the conformance tests, cross-compiled for 64-bit ARM, under qemu-user: ranks as threads, and 1, 2 and
#                                        3 as processes; needs launchers/setup.sh arm64, builds build/arm64
#   tests/soak.sh fuzz [SECONDS]             each parser of bytes that come from elsewhere under libFuzzer (600), with the address and
#                                        undefined-behaviour sanitizers, and how many of its lines were reached; as many at a time
#                                        as there are cores; needs clang (launchers/setup.sh fuzz), builds build/fuzz;
#                                        TARGETS="csv flight": these alone
#   tests/soak.sh pods                   the jobs of all manifests of launchers/kubernetes as pods made of namespaces (tests/launch/manifests), with
#                                        names that are late or missing, and two preemptions; needs root and python3-yaml
#   tests/soak.sh container              the steps of launchers/kubernetes/Containerfile on a bare Debian 12 (tests/container.sh), and what the image is
#                                        to run; BARE names a program that runs a command in such a tree, in a clone of HEAD
#                                        (../shared/bare-debian.sh); without it the trial is skipped, with 77
#   tests/soak.sh mutations              bugs put in on purpose (tests/mutations.tsv), one at a time: the tests notice each; builds a copy of the
#                                        tree in build/mutations
# BIN: where the programs are (build/dev/bin). SEED=N begins elsewhere.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. launchers/openblas.sh
trial=${1:-}
bin=${3:-build/dev/bin}
seed=${SEED:-1}

hosts() {
  local failed=0 jobs=0 ranks backend number transport
  export WEFT_LAUNCH=$bin/weft-launch WEFT_FLIGHT_DIR=off WEFT_TIMEOUT=60
  work=$(mktemp -d)
  trap 'launchers/cluster.sh down; rm -rf "$work"' EXIT
  for number in 4 2 1; do
    launchers/cluster.sh up $number 1gbit > /dev/null || exit 70
    for transport in ucx tcp pmix; do
      local launch=(env "WEFT_TRANSPORT=$transport" launchers/cluster.sh run --launcher weft)
      [ $transport = pmix ] && launch=(env WEFT_TRANSPORT=ucx WEFT_RENDEZVOUS=pmix "UCX_TLS=tcp,self" UCX_NET_DEVICES=eth0 launchers/cluster.sh run)
      for ranks in 1 2 3 4 5 6 7 8; do
        backend="host ("
        [ $ranks = 1 ] && backend=self
        jobs=$((jobs + 1))
        timeout 120 "${launch[@]}" -np $ranks "$bin/conformance_processes" "$backend" > "$work/out" 2>&1 && continue
        failed=$((failed + 1))
        echo "FAILED: $ranks ranks on $number hosts over $transport"
        sed 's/^/    | /' "$work/out" | tail -20
      done
    done
    launchers/cluster.sh down
  done
  echo "$jobs jobs, $failed failed"
  [ $failed -eq 0 ]
}

checkpoints() {
  local count=${1:-300}
  "$bin/soak_checkpoint" "$count" "$seed" || return 1
  WEFT_SEED=$seed WEFT_FLIPS=$((count * 10 / 3)) WEFT_FULL_DISKS=$(((count + 2) / 3)) "$bin/checkpoint_threads_test" --gtest_filter='Damage.*' --gtest_brief=1
}

mixes() {
  WEFT_MIXES=${1:-1000} WEFT_SEED=$seed exec "$bin/conformance_mixes"
}

torch_mixes() {
  SEED=$seed exec bash tests/torch/torch_test.sh mixes.py "${1:-1000}"
}

torch_hosts() {
  SEED=$seed exec bash tests/torch/torch_test.sh hosts_trial.py "${1:-100}"
}

torch_drops() {
  [ -z "${2:-}" ] || bash tests/torch/torch_test.sh "$2" build || exit
  SEED=$seed exec bash tests/torch/torch_test.sh ${2:+"$2"} drops.py "${1:-1000}"
}

trainers() {
  local count=${1:-200} failed=0 program mode status ranks launcher good i
  local launchers=("$bin/weft-launch")
  export WEFT_FLIGHT_DIR=off OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  if command -v mpirun >/dev/null; then launchers+=("mpirun --oversubscribe"); fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  while read -r program mode status ranks; do
    [ -x "$bin/$program" ] || { echo "$mode: not run: there is no $bin/$program"; continue; }
    for launcher in "${launchers[@]}"; do
      good=0
      for ((i = 0; i < count; ++i)); do
        # shellcheck disable=SC2086
        timeout 60 $launcher -n "$ranks" "$bin/$program" "$mode" > "$work/out" 2>&1 </dev/null
        local ended=$?
        if [ $ended -eq "$status" ]; then good=$((good + 1)); continue; fi
        echo "FAILED: $mode, ${launcher##*/}: status $ended, not $status"
        sed 's/^/    | /' "$work/out"
      done
      echo "$mode, ${launcher##*/}: status $status in $good of $count"
      [ $good -eq "$count" ] || failed=1
    done
  done <<'MISTAKES'
trainers_probe forget 42 2
trainers_probe forget_slow 42 3
trainers_probe exits_0 75 2
trainers_probe leaves 75 2
trainers_probe two_threads 42 2
torch_trainers wrapped_twice 42 2
torch_trainers zero_clip 42 2
MISTAKES
  return $failed
}

torch_restarts() {
  local count=${1:-100} failed=0 agents
  for agents in 1 2; do
    SEED=$((seed + agents)) bash tests/torch/torch_test.sh restarts.py --agents $agents $(((count + 3) / 4)) || failed=1
    SEED=$((seed + agents)) bash tests/torch/torch_test.sh restarts.py --agents $agents --program "$bin/launch_probe" $(((count + 3) / 4)) || failed=1
  done
  return $failed
}

kills() {
  local count=${1:-200} failed=0
  export WEFT_FLIGHT_DIR=off OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local launchers=(launch)
  command -v mpirun >/dev/null && launchers+=(mpirun)
  ls /dev/shm > "$work/before"
  for launcher in "${launchers[@]}"; do
    local limit=5
    [ "$launcher" = mpirun ] && limit=0.8
    : > "$work/times"
    for ((i = 0; i < count; ++i)); do
      local ranks=$((2 + (seed + i) % 3)) victim
      victim=$(((seed + i) / 3 % ranks))
      rm -f "$work/killed"
      if [ "$launcher" = mpirun ]; then
        timeout 60 mpirun --bind-to none --oversubscribe -n $ranks "$bin/soak_victim" $victim $((seed + i)) "$work/killed" > "$work/out" 2>&1
      else
        timeout 60 "$bin/weft-launch" -n $ranks "$bin/soak_victim" $victim $((seed + i)) "$work/killed" > "$work/out" 2>&1
      fi
      if [ "$(grep -c ' named ' "$work/out")" -ne $((ranks - 1)) ]; then
        echo "FAILED: $launcher, seed $((seed + i)), rank $victim of $ranks killed: not every survivor named it"
        sed 's/^/    | /' "$work/out"
        failed=$((failed + 1))
      fi
      grep -o 'survivor [0-9]* named [0-9.-]*' "$work/out" | awk '{print $4}' >> "$work/times"
    done
    sort -g "$work/times" | awk -v limit=$limit -v name="$launcher" '
      {time[NR] = $1} $1 > limit {late++}
      END {printf "%s: %d survivors named the dead rank; seconds: median %.3f, longest %.3f, %d above %s\n",
           name, NR, time[int((NR + 1) / 2)], time[NR], late, limit; exit late > 0}' || failed=$((failed + 1))
  done
  ls /dev/shm > "$work/after"
  if ! diff "$work/before" "$work/after"; then
    echo "FAILED: something stayed in /dev/shm"
    failed=$((failed + 1))
  fi
  echo "$failed failed"
  [ $failed -eq 0 ]
}

# The first finding of the flight records is of the rank that did it.
report_names() {
  local causes=$1 culprit=$2
  "$bin/weft-report" flight "$work/flight" --json "$work/report.json" > "$work/report" 2>&1
  grep -qE "^\{\"findings\":\[\{\"cause\":\"($causes)\"" "$work/report.json" &&
    grep -qE "rank $culprit\b" "$work/report"
}

faults() {
  local count=${1:-200} failed=0 trials=0
  local kinds=(missing extra reordered reshaped dead slow diverged)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 WEFT_PROGRESS
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  export WEFT_FLIGHT_DIR=$work/flight
  : > "$work/times"
  for ((i = 0; i < count; ++i)); do
    local kind=${kinds[i % 7]} turn=$((i / 7)) heard expected causes
    local ranks=$((2 + (seed + turn) % 3)) run=("$bin/weft-launch")
    WEFT_PROGRESS=$([ $((turn % 2)) = 0 ] && echo inline || echo thread)
    # Every second time between nodes; there mpirun itself names a rank that died, and ends the others.
    if [ $((turn % 2)) = 1 ] && [ "$kind" != dead ] && command -v mpirun >/dev/null; then
      run=(env RANKS_PER_NODE=$((1 + turn / 2 % 2)) mpirun --bind-to none --oversubscribe)
    fi
    rm -rf "$work"/flight "$work"/trial
    mkdir "$work/trial"
    local program=("$bin/soak_fault" $((seed + i)) "$work/trial" "$kind")
    [ "${run[0]}" = env ] && program=(tests/conformance/on_many_nodes.sh "${program[@]}")
    timeout 60 "${run[@]}" -n $ranks "${program[@]}" > "$work/out" 2>&1
    trials=$((trials + 1))
    heard=$(grep -cE '^(\[[^]]*\] *)?rank [0-9]+ right ' "$work/out")
    expected=$([ "$kind" = dead ] && echo $((ranks - 1)) || echo $ranks)
    case $kind in
      missing|extra|reshaped) causes="rank-raised-first" ;;
      diverged) causes="rank-diverged" ;;
      dead) causes="rank-left-no-record" ;;
      *) causes='' ;;
    esac
    local culprit
    culprit=$(grep -oE ' (right|WRONG) [a-z]+ rank [0-9]+' "$work/out" | head -n 1 | awk '{print $4}')
    if [ "$heard" -ne "$expected" ] || { [ -n "$causes" ] && ! report_names "$causes" "$culprit"; }; then
      echo "FAILED: ${run[*]} -n $ranks, seed $((seed + i)), $kind: $heard of $expected ranks heard right"
      sed 's/^/    | /' "$work/out"
      if [ -n "$causes" ]; then sed 's/^/    report | /' "$work/report"; fi
      failed=$((failed + 1))
    fi
    [ "$kind" = slow ] || grep -oE ' after [0-9.]+' "$work/out" | awk -v kind="$kind" '{print kind, $2}' >> "$work/times"
  done
  sort -g -k 2 "$work/times" | awk '{time[NR] = $2} $2 > 2 {late++}
    END {printf "%d ranks heard; seconds: median %.3f, longest %.3f, %d above 2\n", NR, time[int((NR + 1) / 2)], time[NR], late
         exit late > 0}' || failed=$((failed + 1))
  echo "$trials trials, $failed failed"
  [ $failed -eq 0 ]
}

steps() {
  local count=${1:-100000} failed=0
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for progress in inline thread; do
    WEFT_PROGRESS=$progress WEFT_FLIGHT_DIR=$work/flight "$bin/weft-launch" -n 2 "$bin/soak_fault" "$seed" "$work" none "$count" \
      > "$work/out" 2>&1 || failed=$((failed + 1))
    if [ "$(grep -c ' right none ' "$work/out")" -ne 2 ] || [ -e "$work/flight" ]; then
      failed=$((failed + 1))
      sed 's/^/    | /' "$work/out"
    fi
    echo "$progress: $count steps, $([ -e "$work/flight" ] && echo a || echo no) flight record"
  done
  [ $failed -eq 0 ]
}

drift() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_drift" "$seed" "${1:-20000}"
}

nan() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_nan" "$seed" "${1:-1000}"
}

zero() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_zero" "$seed" "${1:-10000}"
}

stages() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_stages" "${1:-200}"
}

pipelines() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_pipelines" "${1:-50}"
}

trainings() {
  WEFT_FLIGHT_DIR=off WEFT_LONG_TRAINING=${1:-200} exec "$bin/equivalence_test" --gtest_filter='*LongTraining*:ReadyOrder.*'
}

allocations() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_allocations" "${1:-10000}"
}

schedules() {
  exec "$bin/soak_schedules" "$seed" "${1:-100000}"
}

synthesis() {
  exec "$bin/soak_synthesis" "$seed" "${1:-10000}"
}

plans() {
  exec "$bin/soak_plans" "$seed" "${1:-10000}"
}

inspector() {
  exec "$bin/soak_inspector" "$seed" "${1:-2000}"
}

profiler() {
  exec "$bin/soak_profiler" "$seed" "${1:-10000000}"
}

exposed() {
  WEFT_FLIGHT_DIR=off exec "$bin/soak_exposed" "$seed" "${MODEL:-gpt-ref}" "${1:-40}" 2 1
}

tuner() {
  exec "$bin/soak_tuner" "$seed" "${1:-10000000}"
}

nccl_lines() {
  exec "$bin/soak_nccl_lines" "$seed" "${1:-10000000}"
}

alike() {
  exec "$bin/soak_synthesis" "$seed" "${1:-3000}" alike
}

# What each target of tests/fuzz is about.
parser_of() {
  case $1 in
    algorithm_table) echo src/collectives/network/plan/algorithm_table.cpp ;;
    claims) echo src/collectives/bootstrap/launch_claims.cpp src/collectives/bootstrap/launch_address.hpp ;;
    rendezvous) echo src/collectives/bootstrap/gathering.cpp ;;
    schedule_text) echo src/pipeline/formats/schedule_text.cpp src/pipeline/formats/action_text.cpp ;;
    csv) echo src/pipeline/formats/csv_read.cpp ;;
    rank_figures) echo tools/weft-report/watch/ranks.cpp ;;
    ras_answer) echo tools/weft-report/ras/*.cpp ;;
    inspector) echo tools/weft-report/inspector/records.cpp tools/weft-report/inspector/prometheus.cpp ;;
    bandwidth) echo tools/weft-report/bandwidth/table_reader.cpp tools/weft-report/bandwidth/columns.cpp ;;
    flight) echo tools/weft-report/flight/file.cpp ;;
    topology) echo tools/weft-report/topology/*.cpp ;;
    nccl_log) echo tools/weft-report/nccl/gather.cpp tools/weft-report/nccl/statements.cpp tools/weft-report/nccl/log_line.cpp ;;
    manifest) echo tools/weft-launch/manifest/*.cpp tools/weft-launch/manifest/rules/*.cpp ;;
    torch_record) echo tools/weft-report/torch_records/pickle.cpp tools/weft-report/torch_records/literals.cpp tools/weft-report/torch_records/dump.cpp ;;
    earlier_run) echo tools/weft-scaling/pages/earlier_run.cpp ;;
    bucket_profile) echo tools/weft-plan/bucket_profile.cpp ;;
    profile) echo tools/weft-plan/pipeline_profile.cpp ;;
    deepspeed) echo src/deepspeed/*.cpp ;;
  esac
}

# fuzz_one TARGET CLANG SECONDS: a line with how many runs and lines of its parser.
fuzz_one() {
  local target=$1 name=${1##*/fuzz_} clang=$2 seconds=$3 status=0
  mkdir -p "build/fuzz/corpus/$name" "build/fuzz/found"
  LLVM_PROFILE_FILE=build/fuzz/$name.profraw "$target" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
    -artifact_prefix="build/fuzz/found/$name-" "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" > "build/fuzz/$name.log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then { echo "FAILED: $name"; tail -n 30 "build/fuzz/$name.log" | sed 's/^/    | /'; } fi
  "llvm-profdata-$clang" merge -o "build/fuzz/$name.profdata" "build/fuzz/$name.profraw" 2> /dev/null
  # shellcheck disable=SC2046
  "llvm-cov-$clang" export --summary-only --instr-profile "build/fuzz/$name.profdata" "$target" $(parser_of "$name") 2> /dev/null |
    python3 -c 'import json, sys
lines = json.load(sys.stdin)["data"][0]["totals"]["lines"]
print("%s: %s, %d of %d lines reached (%.0f %%)" % (sys.argv[1], sys.argv[2], lines["covered"], lines["count"], lines["percent"]))' \
      "$name" "$(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "build/fuzz/$name.log" | tail -n 1 || true)"
  return $status
}

fuzz() {
  local seconds=${1:-600} failed=0 target
  local clang=${LLVM_VERSION:-14}
  command -v "clang++-$clang" > /dev/null || { echo "soak.sh: clang++-$clang is missing; launchers/setup.sh fuzz installs it" >&2; exit 42; }
  mkdir -p build
  cmake --preset fuzz -DCMAKE_CXX_COMPILER="clang++-$clang" > build/fuzz.log 2>&1 &&
    cmake --build --preset fuzz -j "$(nproc)" >> build/fuzz.log 2>&1 || { tail -n 20 build/fuzz.log; exit 1; }
  local chosen=(build/fuzz/bin/fuzz_*)
  if [ -n "${TARGETS:-}" ]; then read -ra chosen <<< "$TARGETS"; chosen=("${chosen[@]/#/build/fuzz/bin/fuzz_}"); fi
  for target in "${chosen[@]}"; do
    [ -x "$target" ] || { echo "soak.sh: ${target##*/fuzz_} is no target of tests/fuzz" >&2; exit 42; }
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do sleep 1; done
    fuzz_one "$target" "$clang" "$seconds" &
  done
  for target in $(jobs -p); do wait "$target" || failed=$((failed + 1)); done
  echo "$failed failed"
  [ $failed -eq 0 ]
}

# A job without a launcher that runs here: each rank is told its number, and they meet through a file.
arm64_job() {
  local ranks=$1 backend=$2 rank failed=0
  local bin=build/arm64/bin
  for ((rank = 0; rank < ranks; ++rank)); do
    WEFT_RANK=$rank WEFT_SIZE=$ranks WEFT_RENDEZVOUS=file://$work/meet-$ranks qemu-aarch64 -L /usr/aarch64-linux-gnu \
      $bin/conformance_processes "$backend" > "$work/rank-$rank" 2>&1 &
  done
  for rank in $(jobs -p); do wait "$rank" || failed=1; done
  if [ $failed -gt 0 ]; then tail -n 20 "$work"/rank-* | sed 's/^/    | /'; fi
  echo "$ranks ranks as processes: $([ $failed -eq 0 ] && echo passed || echo FAILED)"
  return $failed
}

arm64() {
  local failed=0 ranks
  command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null ||
    { echo "soak.sh: aarch64-linux-gnu-g++ or qemu-aarch64 is missing; launchers/setup.sh arm64 installs both" >&2; exit 42; }
  . launchers/toolchain.sh
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  export WEFT_FLIGHT_DIR=off WEFT_TIMEOUT=300
  mkdir -p build
  cmake --preset arm64 > build/arm64.log 2>&1 && cmake --build --preset arm64 -j "$jobs" >> build/arm64.log 2>&1 ||
    { tail -n 20 build/arm64.log; exit 1; }
  ctest --preset arm64 -j "$jobs" > "$work/out" 2>&1 || failed=1
  grep -E '^[0-9]+% tests passed|\*\*\*|^ +[0-9]+ - ' "$work/out"
  for ranks in 1 2 3; do
    arm64_job $ranks "$([ $ranks = 1 ] && echo self || echo 'host (shared memory)')" || failed=$((failed + 1))
  done
  echo "$failed failed"
  [ $failed -eq 0 ]
}

case $trial in
  pods) exec /usr/bin/python3 tests/launch/manifests/pods_test.py . "$bin" ;;
  container)
    bare=${BARE:-../shared/bare-debian.sh}
    [ -x "$bare" ] || { echo "skipped: there is no $bare; BARE names a program that runs a command in a bare Debian 12"; exit 77; }
    [ "$(id -u)" -eq 0 ] || { echo "skipped: a bare tree needs root"; exit 77; }
    exec "$bare" 'YES=1 tests/container.sh' ;;
  mutations) shift; exec tests/mutations.py "$@" ;;
  devices) exec tests/devices.py "${2:-}" "${3:-build/recorded/bin}" ;;
  layouts|disagreements|attack|deaths|watches|host_losses|restarts|notices|interrupts|options|spoiled|clocks|full_disks|process_ids|other_users|valgrind) exec "tests/$trial.py" "${2:-}" "$bin" ;;
  torch_drops) torch_drops "${2:-}" "${3:-}" ;;
  checkpoints|mixes|torch_mixes|torch_hosts|torch_restarts|kills|faults|trainers|steps|drift|nan|zero|stages|pipelines|trainings|allocations|schedules|synthesis|alike|plans|tuner|nccl_lines|inspector|profiler|exposed|hosts|arm64|fuzz) $trial "${2:-}" ;;
  *) echo "soak.sh: '$trial' is none of checkpoints, mixes, torch_mixes, torch_hosts, torch_drops, torch_restarts, kills, faults, trainers, steps, drift, nan, zero, stages, pipelines, trainings, allocations, schedules, synthesis, alike, plans, tuner, nccl_lines, inspector, profiler, exposed, layouts, hosts, disagreements, attack, deaths, watches, host_losses, restarts, notices, interrupts, options, devices, spoiled, clocks, full_disks, process_ids, other_users, valgrind, arm64, fuzz, mutations" >&2; exit 42 ;;
esac
