#!/usr/bin/env bash
# A folder of src has at most 12 modules (a source with its header) and a README of at most 25 lines, which names its folders; sources have 350 lines at most, and
# half of them 120 to 180; at most 20 internal headers serve a single other file.
#   usage: tests/rooms.sh [FOLDER OF THE PROJECT]; prints what is not so, and exits 1
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

bad=0
complain() { echo "$1"; bad=1; }
while read -r folder; do
  modules=$(find "$folder" -maxdepth 1 \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) ! -name '*-inl.hpp' |
            sed -E 's/\.[a-z]+$//' | sort -u | wc -l)
  if [ "$modules" -gt 12 ]; then complain "$folder has $modules modules, more than 12"; fi
  if [ "$modules" -gt 0 ]; then
    if [ ! -e "$folder/README.md" ]; then complain "$folder has no README.md"
    elif [ "$(wc -l <"$folder/README.md")" -gt 25 ]; then complain "$folder/README.md has more than 25 lines"; fi
  fi
  if [ -e "$folder/README.md" ]; then
    while read -r room; do
      grep -qE "\b$room\b" "$folder/README.md" || complain "$folder/README.md does not name $room/"
    done < <(find "$folder" -mindepth 1 -maxdepth 1 -type d -printf '%f\n')
  fi
done < <(find src -type d)

lengths=$(find src \( -name '*.cpp' -o -name '*.cu' \) -exec wc -l {} + | awk '$2 != "total" {print $1, $2}' | sort -n)
while read -r length file; do complain "$file has $length lines, more than 350"; done < <(awk '$1 > 350' <<<"$lengths")
median=$(awk '{n[NR] = $1} END {print n[int((NR + 1) / 2)]}' <<<"$lengths")
if [ "$median" -lt 120 ] || [ "$median" -gt 180 ]; then complain "half of the sources are below $median lines; 120 to 180 are meant"; fi

# An internal header serves a file that includes it, other than its own source.
includes=$(grep -rhoE --include='*.cpp' --include='*.hpp' --include='*.cu' --include='*.cuh' '^ *# *include "[^"]+"' --with-filename \
           src include tests tools bench examples | sed -E 's/^([^:]+):.*"([^"]+)"/\1 \2/' | sort -u)
single=$(while read -r header; do
  own=${header%.hpp}
  users=$(awk -v name="${header#src/}" -v own="$own" '$2 == name && $1 !~ ("^" own "\\.(cpp|cu)$")' <<<"$includes" | wc -l)
  if [ "$users" -le 1 ]; then echo "$header"; fi
done < <(find src -name '*.hpp' ! -name '*-inl.hpp' | sort))
count=$(grep -c . <<<"$single" || true)
if [ "$count" -gt 20 ]; then complain "$count internal headers serve one file, more than 20:"; echo "$single" | sed 's/^/  /'; fi
if [ $bad -gt 0 ]; then exit 1; fi
echo "$(find src -type d | wc -l) folders; half of the sources below $median lines; $count internal headers serve one file"
