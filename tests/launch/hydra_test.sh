#!/bin/bash
# MPICH's Hydra starts the ranks: they are numbered by its variables, and meet without MPI where WEFT_RENDEZVOUS says. A program linked with Open MPI
# says what is wrong without that. Exit status 77: no Hydra here (launchers/setup.sh test installs it).
# usage: hydra_test.sh BIN
set -u
bin=$(realpath "$1")
. "$(dirname "$0")/../support/checks.sh"
command -v mpiexec.hydra > /dev/null || { echo "skipped: there is no mpiexec.hydra (launchers/setup.sh test)"; exit 77; }
export OMP_NUM_THREADS=1
hydra=(mpiexec.hydra -launcher fork -n 2)
scaling=("$bin/weft-scaling" --model gpt-tiny --strategies "nocomm,ddp" --steps 10)
check "ranks by Hydra's variables" 0 "^believed: PMI, rank 1 of 2$" "${hydra[@]}" "$bin/weft-launch" env
check "they meet at a file" 0 "^ddp  +2 " "${hydra[@]}" -genv WEFT_RENDEZVOUS "file://$work/ranks" "${scaling[@]}"
port=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
check "they meet over TCP" 0 "^ddp  +2 " "${hydra[@]}" -genv WEFT_RENDEZVOUS "tcp://127.0.0.1:$port" -genv WEFT_TOKEN "$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')" "${scaling[@]}"
if "$bin/weft-scaling" --version | grep -q "with MPI"; then
  check "MPI of another launcher" 42 "says rank 0 of 1, but PMI says rank 1 of 2; start the ranks with this MPI's own mpirun, or set WEFT_RENDEZVOUS" "${hydra[@]}" "${scaling[@]}"
fi
finish
