#!/usr/bin/env bash
# Includes point down: core < collectives < gradient, checkpoint < compression, embedding, local, zero, pipeline (neighbours) < everything else. Vendor
# headers are included only by include/weft/interop/ in public (torch's by include/weft/torch/), and the library never includes programs or examples.
# Between two folders (rooms) of src and of tools, arrows point one way; a folder within a room belongs to it. A class has its name alone.
# usage: includes.sh [FOLDER OF THE PROJECT]; prints each arrow that points up or both ways and exits 1
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

floor() {  # sets `floor`
  case $1 in
    core) floor=1 ;;
    collectives) floor=2 ;;
    gradient | checkpoint) floor=3 ;;
    compression | embedding | local | zero | pipeline) floor=4 ;;
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
    core/* | collectives/* | gradient/* | checkpoint/* | compression/* | embedding/* | local/* | zero/* | pipeline/*) to=${target%%/*} ;;
    weft/weft.hpp) to=everything ;;
    common/* | weft-*/* | examples/*) complain "$file includes $target: the library includes no program"; continue ;;
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

trees=(src)
if [ -d tools ]; then trees+=(tools); fi
# FROM TO FILE: one line for each include of one room by another
arrows() {
  grep -rHoE '^ *# *include "[^"]+"' "${trees[@]}" --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.h' |
    awk -F '"' '{
      file = substr($1, 1, index($1, ":") - 1)
      from = file; sub(/^(src|tools)\//, "", from); if (!sub(/\/[^\/]*$/, "", from)) next
      to = $2; if (!sub(/\/[^\/]*$/, "", to)) next
      if (from != to && index(from "/", to "/") != 1 && index(to "/", from "/") != 1) print from, to, file " includes " $2
    }' | while read -r from to words; do if [ -d "src/$to" ] || [ -d "tools/$to" ]; then echo "$from $to $words"; fi; done
}
both_ways=$(arrows | sort -k1,2 | awk '
  { pair = $1 < $2 ? $1 " " $2 : $2 " " $1; way[$1 " " $2] = 1; words = $0; sub(/^[^ ]+ [^ ]+ /, "", words); said[pair] = said[pair] "\n  " words; pairs[pair] = 1 }
  END { for (pair in pairs) { split(pair, room, " "); if (way[pair] && way[room[2] " " room[1]]) print "PAIR " pair said[pair] } }')
while read -r pair; do
  if [ -n "$pair" ]; then
    complain "${pair/ / and } include each other:"
    awk -v pair="PAIR $pair" '/^PAIR / { inside = $0 == pair; next } inside' <<<"$both_ways"
  fi
done < <(sed -n 's/^PAIR //p' <<<"$both_ways" | sort)

# Two classes with one name in one namespace are taken for one by the linker: it keeps one destructor for both.
while read -r words; do
  complain "$words"
done < <(find include src -name '*.hpp' -o -name '*.cpp' | sort | xargs awk '
  FNR == 1 { depth = 0 }
  /^namespace .*\{$|^namespace \{$/ { name[++depth] = $2; next }
  /^}  \/\/ namespace/ { --depth; next }
  /^(class|struct) [A-Za-z0-9_]+( final)?( :.*)? \{/ {
    whole = ""
    for (i = 1; i <= depth; ++i) { if (name[i] == "{") next; whole = whole name[i] "::" }
    whole = whole $2
    if (whole in at) print FILENAME " and " at[whole] " both define " whole
    at[whole] = FILENAME
  }')
if [ "$bad" -gt 0 ]; then exit 1; fi
echo "$seen includes, all of them point down; between rooms one way"
