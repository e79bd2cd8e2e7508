#!/bin/bash
# gdr-log.sh BINARY OUT_DIR: a real log of NCCL, explained by `gdrtune gdr --log`, on a machine with one NVIDIA GPU
#
# BINARY is gdrtune's own (target/release/gdrtune). RANKS (2) ranks share the GPU as emulated nodes under an MPS daemon of
# the script's own, whose folders are temporary; no setting of the GPU is touched. An all-reduce runs with NCCL_DEBUG=INFO,
# each rank's log a file in OUT_DIR; `gdr --log` explains all of them, then all in one file with labels as mpirun puts them;
# then the verdict is asked for. Fails where a rank, a connection's reason or its line is missing, or where the verdict
# claims anything: over sockets, which is what emulated nodes without an HCA have, GPU Direct RDMA does not apply (exit 3).
# With an HCA that NCCL uses, the verdict's own exit code (0, 6, 102) is as good.
#
# OUT_DIR keeps nccl.*, gdr.txt, gdr.json, one-file.txt, verdict.txt. RANKS (2), SIZE (1M); GDRTUNE_NCCL_LIB is the path of
# NCCL, which is searched for without it.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$2"
BINARY=$(readlink -f "$1") OUT=$(readlink -f "$2") RANKS=${RANKS:-2} SIZE=${SIZE:-1M}
# shellcheck source-path=SCRIPTDIR source=mps.sh
. "$(dirname "$(readlink -f "$0")")/mps.sh"

lab_open gdr-log.sh
export GDRTUNE_STATE_DIR=$work/state
mkdir "$work/state"
rm -f "$OUT"/nccl.*
lab_run 300 env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV,TUNING NCCL_DEBUG_FILE="$OUT/nccl.%h.%p" \
  "$BINARY" bench --engine nccl --emulate-nodes --ranks-per-node "$RANKS" --sizes "$SIZE" --repeats 3
logs=("$OUT"/nccl.*)
[ ${#logs[@]} -eq "$RANKS" ] || { echo "gdr-log.sh: ${#logs[@]} logs for $RANKS ranks" >&2; exit 1; }

# explain NAME ARG...: what is said goes to OUT_DIR/NAME; 0 and 6 are answers.
explain() {
  local name=$1 rc=0
  shift
  "$BINARY" gdr --log "$@" >"$OUT/$name" || rc=$?
  [ "$rc" = 0 ] || [ "$rc" = 6 ] || { echo "gdr-log.sh: gdr --log ended with $rc" >&2; exit 1; }
}
explain gdr.txt "${logs[@]}"
explain gdr.json "${logs[@]}" --json
number=0
for log in "${logs[@]}"; do
  sed "s/^/[1,$number]<stdout>:/" "$log"
  number=$((number + 1))
done >"$OUT/one-file.log"
explain one-file.txt "$OUT/one-file.log"
cat "$OUT/gdr.txt"

python3 - "$OUT/gdr.json" "$RANKS" <<'PY'
import json, sys
report, ranks = json.load(open(sys.argv[1])), int(sys.argv[2])
largest = max(report["communicators"], key=lambda one: len(one["ranks"]))
numbers = sorted(rank["rank"] for rank in largest["ranks"])
assert numbers == list(range(ranks)), f"ranks {numbers}"
assert report["nccl"] and report["connections"] > 0, "no version, or no connection"
for rank in largest["ranks"]:
    for use in rank["uses"]:
        if use["end"] != "local" and not use["gdr"]:
            assert use["reasons"], f"rank {rank['rank']}: no reason for {use['path']}"
for reason in report["reasons"]:
    assert reason["evidence"] or "NCCL_DEBUG_SUBSYS" in reason["fix"], f"no line for {reason['what']}"
print(f"gdr-log.sh: {report['lines']} lines of NCCL {report['nccl'][0]}, {report['damaged']} damaged:",
      f"{report['gdr_connections']} of {report['connections']} connections by GDR")
PY
# Processes, and so files' order, aside, one file with labels says the same.
if ! diff <(sed 's/^ *[^ ]*nccl\.[^:]*:[0-9]*: //' "$OUT/gdr.txt") <(sed 's/^ *[^ ]*one-file\.log:[0-9]*: //' "$OUT/one-file.txt"); then
  echo "gdr-log.sh: one file with labels is explained otherwise" >&2
  exit 1
fi

rc=0
lab_run 300 "$BINARY" gdr --emulate-nodes --ranks-per-node "$RANKS" --pairs 2 --bandwidth-sizes "$SIZE" \
  --latency-sizes 1K >"$OUT/verdict.txt" 2>&1 || rc=$?
tail -n 5 "$OUT/verdict.txt"
case $rc in
  0 | 3 | 6 | 102) echo "gdr-log.sh: the verdict ended with $rc" ;;
  *) echo "gdr-log.sh: the verdict ended with $rc" >&2; exit 1 ;;
esac
