#!/bin/sh
# Runs a program as a rank of mpirun that believes to be on a node with at most one other rank.
WEFT_HOST_ID=node-$((OMPI_COMM_WORLD_RANK % ((OMPI_COMM_WORLD_SIZE + 2) / 2)))
export WEFT_HOST_ID
exec "$@"
