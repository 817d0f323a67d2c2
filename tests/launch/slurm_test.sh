#!/bin/bash
# launchers/slurm.sbatch under a Slurm of one host that this test starts: ranks by variables and by PMIx, a job that is told to end and goes on, and
# one that is used wrongly. Exit status 77: no Slurm here (launchers/setup.sh test installs it), or not root.
# usage: slurm_test.sh BIN
set -u
bin=$(realpath "$1")
. "$(dirname "$0")/../support/checks.sh"
tree=$(realpath "$(dirname "$0")/../..")
for tool in slurmctld slurmd munged sbatch; do
  command -v $tool > /dev/null || { echo "skipped: there is no $tool (launchers/setup.sh test)"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: Slurm's daemons need root"; exit 77; }

place=$work/slurm
mkdir -p "$place/state" "$place/spool"
free_ports() { python3 -c 'import socket
held = [socket.socket() for _ in range(2)]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))'; }
read -r controller daemon <<< "$(free_ports)"
head -c 1024 /dev/urandom > "$place/key" && chmod 400 "$place/key"
cat > "$place/slurm.conf" <<CONF
ClusterName=weft
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldPort=$controller
SlurmdPort=$daemon
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MinJobAge=300
SlurmdParameters=config_overrides
NodeName=localhost NodeHostname=$(hostname) NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
CONF
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' > "$place/cgroup.conf"
export SLURM_CONF=$place/slurm.conf OMP_NUM_THREADS=1
# All that was started with this Slurm's settings, jobs too: daemons that are asked to end may wait for those.
end() {
  local process
  for process in /proc/[0-9]*; do
    if grep -qsz "^SLURM_CONF=$SLURM_CONF$" "$process/environ"; then kill -KILL "${process#/proc/}" 2> /dev/null; fi
  done
  wait 2> /dev/null
  rm -rf "$work"
}
trap end EXIT
munged --foreground --force --key-file="$place/key" --socket="$place/munge.socket" --pid-file="$place/munged.pid" --log-file="$place/munged.log" \
  --seed-file="$place/seed" > "$place/munged.out" 2>&1 & disown
until_true 10 [ -S "$place/munge.socket" ] || { cat "$place"/munged.*; exit 1; }
slurmctld -D > "$place/slurmctld.out" 2>&1 & disown
listens() { scontrol ping 2> /dev/null | grep -q UP; }
until_true 30 listens  # a slurmd that finds none tries again much later
slurmd -D > "$place/slurmd.out" 2>&1 & disown
idle() { sinfo -h 2> /dev/null | grep -q idle; }
until_true 30 idle || { echo "FAILED: Slurm does not start"; tail -n 20 "$place"/*.out; exit 1; }

# batch NAME STATUS PATTERN SBATCH-OPTIONS... -- PROGRAM...: submits, waits, and looks at status and output
over() { scontrol show job "$1" | grep -Eq 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT)'; }
batch() {
  local name=$1 expected=$2 pattern=$3 options=() submitted status
  shift 3
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  : > "$work/err"
  submitted=$(sbatch --parsable --output="$work/out" --ntasks=2 "${options[@]}" "$tree/launchers/slurm.sbatch" "$@" 2> "$work/err")
  until_true 100 over "$submitted" || fail "$name: it does not end: $(scontrol show job "$submitted")"
  status=$(scontrol show job "$submitted" | sed -nE 's/.* ExitCode=([0-9]+):.*/\1/p')
  if [ "$status" -ne "$expected" ]; then
    fail "$name: status $status, not $expected"
  elif ! grep -Eq -- "$pattern" "$work/out"; then
    fail "$name: no line matches $pattern"
  else
    echo "ok: $name"
  fi
}
scaling=("$bin/weft-scaling" --model gpt-tiny --strategies "nocomm,ddp" --steps 10)
batch "ranks by variables" 0 "^believed: Slurm, rank 1 of 2$" -- "$bin/weft-launch" env
batch "they train" 0 "^ddp  +2 " -- "${scaling[@]}"
WATCH=$bin/weft-report WATCH_OPTIONS="--every 1" batch "a watch beside them" 0 "waits for a job: localhost:28028" -- "${scaling[@]}"
if srun --mpi=list 2>&1 | grep -q pmix && "$bin/weft-scaling" --version | grep -q "with MPI"; then
  batch "ranks by PMIx" 0 "^ddp  +2 " --export=ALL,SRUN_MPI=pmix -- "${scaling[@]}"
fi
if srun --mpi=list 2>&1 | grep -q pmix && "$bin/weft-scaling" --version | grep -q PMIx; then
  batch "ranks by PMIx, without MPI" 0 "^ddp  +2 " --export=ALL,SRUN_MPI=pmix,WEFT_RENDEZVOUS=pmix -- "${scaling[@]}"
fi
batch "a wrong option is the job's status" 42 "weft-scaling: .*--no-such" -- "$bin/weft-scaling" --no-such
batch "a rank that is killed" 137 "slurm.sbatch: started again 0 times; it is not tried again" --export=ALL,MAX_RESTARTS=0,WEFT_CONNECT_TIMEOUT=1 -- \
  bash -c "[ \$SLURM_PROCID = 0 ] || kill -9 \$\$; exec '$bin/weft-scaling' --model gpt-tiny --strategies ddp --steps 10"

# The notice: what runs saves and ends, the job is queued again, and goes on.
job=$(sbatch --parsable --output="$work/out" --ntasks=2 "$tree/launchers/slurm.sbatch" "$bin/gpt" --model gpt-tiny --steps 30000 --checkpoint "$work/run" \
  --checkpoint-every 200)
saved() { [ -e "$work/run/step-00000200" ]; }
until_true 60 saved || fail "the job does not save"
scancel --signal=USR1 "$job"
queued_again() { grep -q "goes back into the queue" "$work/out"; }
until_true 30 queued_again && grep -q "told to end: saved after step" "$work/out" && echo "ok: told to end, it saves" || fail "the notice"
restarted() { scontrol show job "$job" | grep -q 'Restarts=1 '; }
until_true 30 restarted && echo "ok: it is queued again" || fail "no restart: $(scontrol show job "$job")"
goes_on() { grep -Eq "^goes on after step [0-9]+ of 30000$" "$work/out"; }
until_true 90 goes_on && echo "ok: and goes on" || fail "it does not go on: $(scontrol show job "$job")"
scancel "$job"
check "without a program" 42 "no program is named" env SLURM_JOB_ID=1 "$tree/launchers/slurm.sbatch"
check "without Slurm" 42 "this is no job of Slurm" "$tree/launchers/slurm.sbatch" true
finish
