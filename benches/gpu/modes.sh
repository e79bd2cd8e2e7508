#!/bin/bash
# modes.sh BINARY: plain calls, CUDA graphs and registered buffers with the NCCL engine, on a machine with one NVIDIA GPU
#
# BINARY is gdrtune's own (target/release/gdrtune). RANKS (2) ranks share the GPU as emulated nodes under an MPS daemon of
# the script's own, whose folders are temporary; no setting of the GPU is touched. All-reduce, all-gather and send-recv run
# four times over the same sizes: plain, --graph, --register-buffers, and both; every result is checked in its own mode.
# Then 64M and 2G where MPS gives each rank 3 GiB: 64M must run, and 2G be refused in words, with exit code 100.
# Fails where any of it does not come out as said.
#
# What to expect. Between emulated nodes NCCL moves data by sockets through the host (80 us and more a call), so a graph
# saves little: times of all four within the spread of repeats, more than that only at 1 KiB. The CPU time of a call is about
# its time plus that of NCCL's own threads in both, as the worker waits by asking. NCCL_DEBUG=INFO
# NCCL_DEBUG_SUBSYS=REG,ALLOC shows what became of a registration; over sockets NCCL has no use for one. On NVLink or
# InfiniBand both are to be seen in the times. The line of 2G ends like "out of memory: two buffers of 2G bytes have no room
# on NVIDIA H200 of rank 0 (CUDA_ERROR_OUT_OF_MEMORY, ... MiB free of ... MiB)"; whether what is free is counted against the
# limit of MPS or the whole GPU is the driver's matter.
#
# MIN, MAX (1K, 4M), RANKS (2), REPEATS (3); GDRTUNE_NCCL_LIB is the path of NCCL, which is searched for without it.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,18s/^# \{0,1\}//p' "$0" >&2; exit 2; }
BINARY=$(readlink -f "$1")
MIN=${MIN:-1K} MAX=${MAX:-4M} RANKS=${RANKS:-2} REPEATS=${REPEATS:-3}
# shellcheck source-path=SCRIPTDIR source=mps.sh
. "$(dirname "$(readlink -f "$0")")/mps.sh"

lab_open modes.sh
export GDRTUNE_STATE_DIR=$work/state
mkdir "$work/state"
failed=0
bench() {
  lab_run 300 "$BINARY" bench --engine nccl --emulate-nodes --ranks-per-node "$RANKS" --factor 8 --repeats "$REPEATS" "$@"
}
complain() {
  echo "modes.sh: failed: $*" >&2
  failed=1
}

for mode in "" "--graph" "--register-buffers" "--graph --register-buffers"; do
  echo "== bench $mode"
  # shellcheck disable=SC2086 # several options, or none
  bench --collectives allreduce,allgather,sendrecv --sizes "$MIN-$MAX" $mode || complain "bench $mode"
done

# CPU time of a call, plain and in graphs, from the JSON.
for mode in "" "--graph"; do
  # shellcheck disable=SC2086
  bench --collectives allreduce --sizes "$MIN" --json $mode > "$work/json" || complain "bench --json $mode"
  echo "== cpu_us ${mode:-plain}: $(sed -n 's/.*"cpu_us": \([0-9.]*\).*/\1/p' "$work/json")"
done

echo "== out of memory"
rc=0
CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3G bench --collectives allreduce --sizes 64M,2G > "$work/table" || rc=$?
cat "$work/table"
[ "$rc" = 100 ] || complain "2G under a limit of 3G ended with $rc"
grep -q '^ *2147483648 .*failed: out of memory: two buffers of 2G bytes have no room on ' "$work/table" ||
  complain "no words about 2G"
grep '^ *67108864 ' "$work/table" | grep -qv failed || complain "64M did not run beside 2G"
exit "$failed"
