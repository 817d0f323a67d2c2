#!/usr/bin/env bash
# Includes point down: core < collectives < gradient < compression, zero, pipeline (neighbours) < everything else. Vendor
# headers are included only by include/weft/interop/ in public, and the library never includes programs or examples.
# usage: includes.sh [FOLDER OF THE PROJECT]; prints each arrow that points up and exits 1
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

floor() {
  case $1 in
    core) echo 1 ;;
    collectives) echo 2 ;;
    gradient) echo 3 ;;
    compression | zero | pipeline) echo 4 ;;
    *) echo 5 ;;
  esac
}

bad=0
seen=0
complain() {
  echo "$1"
  bad=$((bad + 1))
}
while IFS=: read -r file line; do
  # interop/ is how a floor meets a vendor's types: core CUDA's, collectives MPI's.
  from=$(echo "$file" | sed -E 's#^(include/weft|src)/##; s#^interop/cuda\.hpp#core#; s#/.*##; s#^interop$#collectives#')
  target=$(echo "$line" | sed -E 's/.*#include *["<]([^">]+)[">].*/\1/')
  seen=$((seen + 1))
  case $target in
    weft/interop/cuda.hpp) to=core ;;
    weft/*/*) to=$(echo "$target" | cut -d/ -f2 | sed 's#^interop$#collectives#') ;;
    core/* | collectives/* | gradient/* | compression/* | zero/* | pipeline/* | report/*) to=${target%%/*} ;;
    weft/weft.hpp) to=everything ;;
    common/* | weft-*/* | trainer.hpp | examples/*) complain "$file includes $target: the library includes no program"; continue ;;
    mpi.h | cuda*.h | nccl.h | torch/* | boost/* | ucp/*)
      case $file in
        include/weft/interop/* | src/*) ;;
        *) complain "$file includes $target: vendor headers belong to include/weft/interop/ and src/" ;;
      esac
      continue ;;
    *) continue ;;
  esac
  # The umbrella header is the top of the library.
  if [ "$file" = include/weft/weft.hpp ]; then continue; fi
  if [ "$from" != "$to" ] && [ "$(floor "$to")" -ge "$(floor "$from")" ]; then
    complain "$file ($from) includes $target ($to): not below it"
  fi
done < <(grep -rHE '^ *# *include' include src --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.h' | sed -E 's/^([^:]+):/\1:/')
if [ "$seen" -eq 0 ]; then complain "no include was found at all"; fi
if [ "$bad" -gt 0 ]; then exit 1; fi
echo "$seen includes, all of them point down"
