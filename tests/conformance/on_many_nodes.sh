#!/bin/sh
# Runs a program as a rank of mpirun that believes to be on a node with at most one other rank; with RANKS_PER_NODE set, on a
# node with so many that follow each other.
if [ -n "$RANKS_PER_NODE" ]; then
  WEFT_HOST_ID=node-$((OMPI_COMM_WORLD_RANK / RANKS_PER_NODE))
else
  WEFT_HOST_ID=node-$((OMPI_COMM_WORLD_RANK % ((OMPI_COMM_WORLD_SIZE + 2) / 2)))
fi
export WEFT_HOST_ID
exec "$@"
