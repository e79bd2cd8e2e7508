#!/bin/bash
# compare.sh ENV_FILE [CSV]: an unmodified torch.distributed all-reduce loop, without and with a tuned environment
#
# ENV_FILE has lines NAME=VALUE as `gdrtune install` writes them: the profile's variables and, where it has rules,
# NCCL_TUNER_PLUGIN and GDRTUNE_RULES with absolute paths. It is read, never run. allreduce.py gets these variables and
# nothing else in the tuned arm, and none of them in the default arm.
# For a machine with one NVIDIA GPU, which RANKS (4) ranks share as emulated nodes (an NCCL_HOSTID each, in both arms)
# under an MPS daemon of the script's own. PAIRS (10) interleaved pairs of jobs in fresh processes; the order alternates.
# Before that, one tuned job with NCCL's log proves that every rank loaded the plugin and read the rules.
# The raw times go to CSV (torch.csv); standard output gets two tables of ratio.py: the wall time per call, and the time
# between CUDA events. A speed-up above 1 means that the tuned arm is faster. Exit 1 where a job fails.
#
# SIZES in bytes ("1024 4096 16384 ... 67108864"), DTYPE (float32), PYTHON (python3), SEED (0). Needs bash 5.1.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
ENV_FILE=$1 CSV=${2:-torch.csv}
PAIRS=${PAIRS:-10} RANKS=${RANKS:-4} DTYPE=${DTYPE:-float32} PYTHON=${PYTHON:-python3} SEED=${SEED:-0}
read -ra SIZES <<< "${SIZES:-1024 4096 16384 65536 262144 1048576 4194304 16777216 67108864}"
sizes=$(IFS=,; echo "${SIZES[*]}")
die() { echo "compare.sh: $*" >&2; exit "${rc:-1}"; }
[ -r "$ENV_FILE" ] || rc=2 die "cannot read $ENV_FILE"
command -v "$PYTHON" >/dev/null || rc=2 die "no $PYTHON"
# shellcheck source-path=SCRIPTDIR source=../gpu/mps.sh
. "$here/../gpu/mps.sh"

# A name, "=", and the value up to the line's end as it stands: no quotes, no expansion.
tuned=() default=(-u NCCL_TUNER_PLUGIN -u NCCL_TUNER_CONFIG_FILE -u GDRTUNE_RULES) rules='' number=0
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  case $line in '' | '#'*) continue ;; esac
  name=${line%%=*} value=${line#*=}
  [[ $line = *=* && $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || rc=2 die "$ENV_FILE:$number: no NAME=VALUE: $line"
  case $name in
    NCCL_HOSTID) rc=2 die "$ENV_FILE:$number: NCCL_HOSTID is the lab's own" ;;
    NCCL_TUNER_PLUGIN | GDRTUNE_RULES | NCCL_TUNER_CONFIG_FILE)
      [[ $value = /* && -r $value ]] || rc=2 die "$ENV_FILE:$number: $name: no file at $value (an absolute path)" ;;&
    GDRTUNE_RULES | NCCL_TUNER_CONFIG_FILE) rules=$value ;;
  esac
  tuned+=("$line")
done <"$ENV_FILE"
[ ${#tuned[@]} -gt 0 ] || rc=2 die "$ENV_FILE sets nothing"

lab_open compare.sh

free_port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

job() { # ARM, then arguments of allreduce.py; its JSON lands in $work/out
  local arm=$1 rank port variables
  shift
  port=$(free_port)
  for ((rank = 0; rank < RANKS; rank++)); do
    # What the default arm lacks, the tuned arm gets from the file alone.
    variables=("${default[@]}" "RANK=$rank" "WORLD_SIZE=$RANKS" MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port"
      "NCCL_HOSTID=gdrtune-node-$rank")
    [ "$arm" = default ] || variables+=("${tuned[@]}")
    lab_start 180 env "${variables[@]}" "${logging[@]}" "$PYTHON" "$here/allreduce.py" "$@" >"$work/out.$rank" 2>"$work/err.$rank"
  done
  lab_wait || { echo "compare.sh: $arm: a rank failed ($?)" >&2; tail -n 15 "$work"/err.* >&2; exit 1; }
}

read_job='
import json, sys
arm, pair = sys.argv[1], sys.argv[2]
document = json.loads([line for line in sys.stdin if line.startswith("{")][-1])
if pair == "1":
    print("%s: torch %s, NCCL %s" % (arm, document["torch"], document["nccl"]), file=sys.stderr)
for row in document["results"]:
    print(arm, document["ranks"], pair, row["bytes"], row["wall_us"], row["event_us"], sep=",")
'

prove_plugin() { # by NCCL's log of a short job: one file for each rank
  local proofs
  logging=(NCCL_DEBUG=INFO "NCCL_DEBUG_SUBSYS=INIT,TUNING" "NCCL_DEBUG_FILE=$work/nccl.%p")
  job tuned --sizes 1024 --batches 1 --batch-ms 1
  logging=()
  proofs=$({ grep -ls 'TUNER/gdrtune: read [0-9]* rules' "$work"/nccl.* || true; } | wc -l)
  [ "$proofs" = "$RANKS" ] || { grep -hs TUNER "$work"/nccl.* >&2 || true; die "only $proofs of $RANKS ranks read $rules"; }
  grep -ho 'TUNER/gdrtune: read .*' "$work"/nccl.* | sort | uniq -c >&2
}

logging=()
[ -z "$rules" ] || prove_plugin
echo "kind,ranks,pair,bytes,wall_us,event_us" >"$CSV"
for ((pair = 1; pair <= PAIRS; pair++)); do
  order=(default tuned)
  [ $((pair % 2)) = 1 ] || order=(tuned default)
  for arm in "${order[@]}"; do
    job "$arm" --sizes "$sizes" --dtype "$DTYPE"
    "$PYTHON" -c "$read_job" "$arm" "$pair" <"$work/out.0" >>"$CSV" || die "$arm gave no times"
  done
  echo "pair $pair of $PAIRS: ${SECONDS} s" >&2
done
for column in wall_us event_us; do
  echo "all-reduce $DTYPE, torch.distributed, $RANKS ranks on one GPU, EMULATED nodes, $column"
  "$PYTHON" "$here/../nccl-tests/ratio.py" "$CSV" --mode speedup --arms default tuned --column "$column" --seed "$SEED"
done
