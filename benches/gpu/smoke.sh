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
# shellcheck source-path=SCRIPTDIR source=mps.sh
. "$(dirname "$(readlink -f "$0")")/mps.sh"

lab_open smoke.sh
export GDRTUNE_STATE_DIR=$work/state GDRTUNE_EMULATE_NODES=1
mkdir "$work/state"
failed=0
bench() {
  echo "== bench $*"
  lab_run 300 "$BINARY" bench --engine nccl --ranks-per-node "$RANKS" --sizes "$MIN-$MAX" --factor 4 --repeats 3 "$@" ||
    { echo "smoke.sh: failed ($?): bench $*" >&2; failed=1; }
}

bench --collectives allreduce,allgather,reducescatter,broadcast,reduce,alltoall,sendrecv
if [ -n "$PLUGIN" ]; then
  export GDRTUNE_TUNER_PLUGIN=$PLUGIN
  for choice in "${CHOICES[@]}"; do bench --collectives allreduce --choice "$choice"; done
fi
exit "$failed"
