#!/bin/bash
# torchrun starts the ranks: they find each other through its agent's store, also after it has started them again, and where there are two agents.
# Exit status 77: no torchrun in the place where launchers/setup.sh torch installs torch (WEFT_TORCH_VENV names another).
# usage: torchrun_test.sh BIN
set -u
bin=$(realpath "$1")
. "$(dirname "$0")/../support/checks.sh"
torchrun=${WEFT_TORCH_VENV:-$HOME/.cache/weft-torch}/bin/torchrun
[ -x "$torchrun" ] || { echo "skipped: there is no $torchrun (launchers/setup.sh torch)"; exit 77; }
"$bin/weft-launch" --version | grep -q TCP || { echo "skipped: this build has no TCP"; exit 77; }
export OMP_NUM_THREADS=1
free_port() { python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])'; }

port=$(free_port)
run=("$torchrun" --master-addr 127.0.0.1 --master-port "$port" --no-python)
check "ranks by torchrun" 0 "^believed: torchrun, rank 1 of 2$" "${run[@]}" --nproc-per-node 2 "$bin/weft-launch" env
lines "they meet through the agent" 2 "torchrun://127.0.0.1:$port"
check "three ranks" 0 "rank 2 of 3 by torchrun, group 1 of 2" "${run[@]}" --nproc-per-node 3 "$bin/launch_probe"
lines "three ranks" 3 "^rank [0-2] of 3 by torchrun"
check "the job's token" 0 "rank 1 of 2 by torchrun" env WEFT_TOKEN=0123456789abcdef0123456789abcdef "${run[@]}" --nproc-per-node 2 "$bin/launch_probe"
check "they start again" 0 "rank 1 of 2 by torchrun" "${run[@]}" --nproc-per-node 2 --max-restarts 1 \
  bash -c 'if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then "$0" exit 1 3; exit 3; fi; exec "$0"' "$bin/launch_probe"
lines "they start again" 2 "^rank [01] of 2 by torchrun"
"$(dirname "$torchrun")/python" "$(dirname "$0")/../torch/restarts.py" --program "$bin/launch_probe" table > "$work/out" 2> "$work/err" \
  || fail "ranks fail three times in a row, with one agent and with two"

# Two agents, as on two hosts.
port=$(free_port)
agent=("$torchrun" --nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port "$port" --no-python --node-rank)
timeout 100 "${agent[@]}" 1 "$bin/launch_probe" > "$work/second" 2>&1 &
check "two agents" 0 "rank [0-3] of 4 by torchrun" "${agent[@]}" 0 "$bin/launch_probe"
wait
cat "$work/second" >> "$work/out"
lines "two agents" 4 "^rank [0-3] of 4 by torchrun"
finish
