#!/bin/bash
# What programs with weft::torch do that others wrote: a mistake is an error in the words of weft::torch, with status 42; what is no mistake works.
#   usage: trainers_test.sh FOLDER_OF_PROGRAMS [MPIRUN]
set -u
. "$(dirname "$0")/../../support/checks.sh"
launch=$1/weft-launch
probe=$1/torch_trainers
mpirun=${2:-}
export OMP_NUM_THREADS=1
everywhere() {  # NAME STATUS PATTERN MODE
  check "$1, weft-launch" "$2" "$3" "$launch" -n 2 "$probe" "$4"
  if [ -n "$mpirun" ]; then check "$1, mpirun" "$2" "$3" "$mpirun" --oversubscribe -n 2 "$probe" "$4"; fi
}
everywhere "a module is wrapped twice" 42 "rank [01]: DataParallel: parameter weight belongs to another DataParallel of this process" wrapped_twice
everywhere "clip_grad_norm_ under ZeroOptimizer" 42 "rank [01]: ZeroOptimizer: .*gradient of weight.*ZeroOptions::clip_norm" zero_clip
everywhere "two networks that connect one after the other" 0 "ended well" networks
everywhere "a wrapped module is loaded into, and runs forward twice" 0 "ended well" load
everywhere "a rank has fewer batches" 75 "rank 0: .*set DataParallelOptions::uneven and call DataParallel::join\(\)" uneven
finish
