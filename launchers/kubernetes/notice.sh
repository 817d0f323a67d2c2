#!/bin/sh
# preStop of a pod: tells the ranks in it that they are to go, and waits for their end. They get SIGUSR1, on which a trainer saves and ends with 75
# (weft::Requests); SIGTERM, which Kubernetes sends when this has ended, goes to process 1 alone and would come too late.
#   notice.sh         ranks are found by their environment: those of weft-launch, and of mpirun under sshd
# Ends when no rank is left. Kubernetes ends both after terminationGracePeriodSeconds.
ranks() {
  for process in /proc/[0-9]*; do
    [ "${process#/proc/}" = $$ ] && continue
    grep -qszE '^(WEFT_RANK|OMPI_COMM_WORLD_RANK)=' "$process/environ" || continue
    grep -qs '^State:.*zombie' "$process/status" || echo "${process#/proc/}"
  done
}
all=$(ranks)
for rank in $all; do kill -USR1 "$rank" 2>/dev/null; done
while [ -n "$all" ]; do
  sleep 1
  all=$(ranks)
done
