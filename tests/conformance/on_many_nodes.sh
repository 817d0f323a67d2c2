#!/bin/sh
# Runs a program as a rank (of mpirun, or as WEFT_RANK says) that believes to be on a node with at most one other rank; with RANKS_PER_NODE set, on a
# node with so many that follow each other; with LAYOUT set to their numbers by node ("3 1 2"), on a node as that says; with NODES set to each
# rank's node ("0 1 0 2"), on that.
rank=${OMPI_COMM_WORLD_RANK:-$WEFT_RANK}
size=${OMPI_COMM_WORLD_SIZE:-$WEFT_SIZE}
if [ -n "$NODES" ]; then
  node=$(echo "$NODES" | cut -d ' ' -f $((rank + 1)))
elif [ -n "$LAYOUT" ]; then
  node=0
  for ranks in $LAYOUT; do
    [ "$rank" -lt "$ranks" ] && break
    rank=$((rank - ranks))
    node=$((node + 1))
  done
elif [ -n "$RANKS_PER_NODE" ]; then
  node=$((rank / RANKS_PER_NODE))
else
  node=$((rank % ((size + 2) / 2)))
fi
export WEFT_HOST_ID="node-$node"
exec "$@"
