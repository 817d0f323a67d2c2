#!/usr/bin/env bash
# Includes point down: core < collectives < gradient, checkpoint < compression, zero, pipeline (neighbours) < everything else. Vendor
# headers are included only by include/weft/interop/ in public (torch's by include/weft/torch/), and the library never includes programs or examples.
# usage: includes.sh [FOLDER OF THE PROJECT]; prints each arrow that points up and exits 1
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

floor() {  # sets `floor`
  case $1 in
    core) floor=1 ;;
    collectives) floor=2 ;;
    gradient | checkpoint) floor=3 ;;
    compression | zero | pipeline) floor=4 ;;
    *) floor=5 ;;
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
  from=${file#include/weft/}
  from=${from#src/}
  case $from in
    interop/cuda.hpp) from=core ;;
    interop/*) from=collectives ;;
    *) from=${from%%/*} ;;
  esac
  [[ $line =~ [\"\<]([^\"\>]+)[\"\>] ]] || continue
  target=${BASH_REMATCH[1]}
  seen=$((seen + 1))
  case $target in
    weft/interop/cuda.hpp) to=core ;;
    weft/interop/*) to=collectives ;;
    weft/checkpoint/piece.hpp) to=core ;;  # plain values, by which any floor names its state
    weft/*/*) to=${target#weft/} to=${to%%/*} ;;
    core/* | collectives/* | gradient/* | checkpoint/* | compression/* | zero/* | pipeline/* | report/*) to=${target%%/*} ;;
    weft/weft.hpp) to=everything ;;
    common/* | weft-*/* | gpt/* | examples/*) complain "$file includes $target: the library includes no program"; continue ;;
    mpi.h | cuda*.h | nccl.h | torch/* | boost/* | ucp/*)
      case $file in
        include/weft/interop/* | src/*) ;;
        include/weft/torch/*) [[ $target == torch/* ]] || complain "$file includes $target: of vendors' headers, those of torch belong there" ;;
        *) complain "$file includes $target: vendor headers belong to include/weft/interop/ and src/" ;;
      esac
      continue ;;
    *) continue ;;
  esac
  # The umbrella header is the top of the library.
  if [ "$file" = include/weft/weft.hpp ] || [ "$from" = "$to" ]; then continue; fi
  floor "$from"
  own=$floor
  floor "$to"
  if [ "$floor" -ge "$own" ]; then complain "$file ($from) includes $target ($to): not below it"; fi
done < <(grep -rHE '^ *# *include' include src --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.h')
if [ "$seen" -eq 0 ]; then complain "no include was found at all"; fi
if [ "$bad" -gt 0 ]; then exit 1; fi
echo "$seen includes, all of them point down"
