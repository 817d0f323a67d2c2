#!/usr/bin/env bash
# usage: on_ranks.sh RANKS PROGRAM [ARGUMENT...]: runs it as so many processes, which meet through a file; fails where one does
set -euo pipefail
ranks=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1
started=()
for ((rank = 0; rank < ranks; ++rank)); do
  WEFT_RANK=$rank WEFT_SIZE=$ranks WEFT_RENDEZVOUS=file://$folder/meeting "$@" >"$folder/out.$rank" &
  started+=($!)
done
status=0
for one in "${started[@]}"; do wait "$one" || status=1; done
for ((rank = 0; rank < ranks; ++rank)); do sed "s/^/$rank: /" "$folder/out.$rank"; done
exit $status
