#!/bin/bash
# launchers/mpirun.sh: what it tells mpirun, which stands in for itself here and prints its words; and, with the real one, what ranks get.
set -u
. "$(dirname "$0")/../support/checks.sh"
script=$(realpath "$(dirname "$0")/../../launchers/mpirun.sh")
mkdir "$work/stand-in"
printf '#!/bin/sh\nprintf "%%s\\n" "$*"\n' > "$work/stand-in/mpirun" && chmod +x "$work/stand-in/mpirun"
shown=(env -i PATH="$work/stand-in:$PATH")
refused "no such transport" "mpirun.sh: --over tcp is none of auto, ob1, ucx" "$script" --over tcp -n 2 true
refused "no such interface" "mpirun.sh: --interface no0 is none of this host's: .*lo" "$script" --interface no0 -n 2 true
check "help" 0 "^  launchers/mpirun.sh \[--over" "$script" --help
check "no more than it is told" 0 "^-n 2 true$" "${shown[@]}" "$script" -n 2 true
check "variables are handed on" 0 "^-x NCCL_DEBUG -x OMP_NUM_THREADS -x UCX_TLS -x WEFT_LOG -n 2 true$" "${shown[@]}" NCCL_DEBUG=INFO OMP_NUM_THREADS=1 UCX_TLS=tcp WEFT_LOG=info OTHER=1 OMPI_MCA_x=y "$script" -n 2 true
check "an interface, NUMA nodes" 0 "^--map-by numa --bind-to numa --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -x NCCL_SOCKET_IFNAME -x WEFT_INTERFACE -n 2 true$" \
  "${shown[@]}" "$script" --over ob1 --interface lo --numa -n 2 true
check "a name that is set stays" 0 "^eth7$" "${shown[@]}" bash -c 'printf "#!/bin/sh\necho \$NCCL_SOCKET_IFNAME\n" > "$0/mpirun"; NCCL_SOCKET_IFNAME=eth7 exec "$1" --interface lo -n 2 true' "$work/stand-in" "$script"
finish
