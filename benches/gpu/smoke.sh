#!/bin/bash
# smoke.sh BINARY [PLUGIN]: the NCCL engine on a machine with one NVIDIA GPU
#
# BINARY is gdrtune's own (target/release/gdrtune), PLUGIN the tuner plugin (libnccl-tuner-gdrtune.so). RANKS (4) ranks
# share the GPU as emulated nodes under an MPS daemon of the script's own, whose folders are temporary; no setting of the
# GPU is touched. Every collective runs with NCCL's own choice, checked; with PLUGIN, all-reduce with each of CHOICES too.
# Fails where any of it fails.
#
# MIN, MAX (1K, 64M), CHOICES; GDRTUNE_NCCL_LIB is the path of NCCL, which is searched for without it.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
BINARY=$(readlink -f "$1") PLUGIN=${2:+$(readlink -f "$2")}
MIN=${MIN:-1K} MAX=${MAX:-64M} RANKS=${RANKS:-4}
read -ra CHOICES <<< "${CHOICES:-tree/ll/1 tree/simple/2 ring/ll/2 ring/simple/4}"
command -v nvidia-cuda-mps-control >/dev/null ||
  { echo "smoke.sh: nvidia-cuda-mps-control is missing (it comes with the driver)" >&2; exit 2; }

work=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log GDRTUNE_STATE_DIR=$work/state
mkdir "$work/pipe" "$work/log" "$work/state"
# shellcheck disable=SC2317 # called by the traps
stop() {
  local rc=$?
  trap - EXIT
  echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || true
  [ "$rc" = 0 ] || tail -n 20 "$work"/log/*.log >&2 2>/dev/null || true
  rm -rf "$work"
  exit "$rc"
}
trap stop EXIT
trap 'exit 143' TERM INT HUP
nvidia-cuda-mps-control -d >/dev/null || { echo "smoke.sh: the MPS daemon did not start" >&2; exit 1; }

export GDRTUNE_EMULATE_NODES=1
failed=0
bench() {
  echo "== bench $*"
  timeout 300 "$BINARY" bench --engine nccl --ranks-per-node "$RANKS" --sizes "$MIN-$MAX" --factor 4 --repeats 3 "$@" ||
    { echo "smoke.sh: failed ($?): bench $*" >&2; failed=1; }
}

bench --collectives allreduce,allgather,reducescatter,broadcast,reduce,alltoall,sendrecv
if [ -n "$PLUGIN" ]; then
  export GDRTUNE_TUNER_PLUGIN=$PLUGIN
  for choice in "${CHOICES[@]}"; do bench --collectives allreduce --choice "$choice"; done
fi
exit "$failed"
