#!/bin/bash
# bind.sh LOCAL_RANK CPUS COMMAND...: runs a rank's command on CPUS CPUs that no other rank is bound to
#
# LOCAL_RANK "-" is Open MPI's word for it. Where the scheduler puts a rank decides whether a small collective between two
# H200 takes 7 or 10 us, in gdrtune as in nccl-tests: two programs can only be compared on the same CPUs. 0 CPUs: not bound.
set -euo pipefail
rank=$1 cpus=$2
shift 2
[ "$rank" != - ] || rank=$OMPI_COMM_WORLD_LOCAL_RANK
[ "$cpus" -gt 0 ] || exec "$@"
exec taskset -c "$((rank * cpus))-$(((rank + 1) * cpus - 1))" "$@"
