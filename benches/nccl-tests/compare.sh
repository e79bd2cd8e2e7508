#!/bin/bash
# compare.sh GDRTUNE ALL_REDUCE_PERF [CSV]: the time of an all-reduce by `gdrtune bench` against NVIDIA's nccl-tests
#
# For a machine with one NVIDIA GPU, which the ranks share as emulated nodes (an NCCL_HOSTID each) under an MPS daemon of
# the script's own. ALL_REDUCE_PERF is nccl-tests' all_reduce_perf, built with MPI=1; one MPI process is one rank. Both
# use the same NCCL: GDRTUNE_NCCL_LIB, or else the one that ALL_REDUCE_PERF finds. Both time float32 out of place, and
# the time is the mean over iterations of the batch's wall time, averaged over ranks (nccl-tests' -a 1).
# PAIRS (15) interleaved pairs of fresh process sets for each of RANKS ("2 4"); the order alternates within the pairs.
# The raw times go to CSV (nccl-tests.csv), ratio.py's table to standard output. Exit 1 where a size is DIFFERENT or a
# run fails.
#
# MIN, MAX (1024, 67108864; in bytes), REPEATS of gdrtune (3), MPIRUN (mpirun), MPI_FLAGS, SEED (0).
# Iterations of nccl-tests: gdrtune's batches last about 30 ms, from 2 iterations, up to 2000; all_reduce_perf takes one
# number for all its sizes, so that the sizes up to SPLIT (262144) run with SMALL_ITERATIONS (200), and the rest with
# LARGE_ITERATIONS (8), in two process sets; WARMUPS (3) warm-ups. Needs bash 5.1 and python3.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
GDRTUNE=$(readlink -f "$1") PERF=$(readlink -f "$2") CSV=${3:-nccl-tests.csv}
PAIRS=${PAIRS:-15} MIN=${MIN:-1024} MAX=${MAX:-67108864} REPEATS=${REPEATS:-3} SEED=${SEED:-0}
SPLIT=${SPLIT:-262144} SMALL_ITERATIONS=${SMALL_ITERATIONS:-200} LARGE_ITERATIONS=${LARGE_ITERATIONS:-8}
WARMUPS=${WARMUPS:-3} MPIRUN=${MPIRUN:-mpirun}
read -ra RANKS <<< "${RANKS:-2 4}"
read -ra MPI_FLAGS <<< "${MPI_FLAGS:---oversubscribe --bind-to none}"
[ "$(id -u)" != 0 ] || MPI_FLAGS+=(--allow-run-as-root)
die() { echo "compare.sh: $*" >&2; exit "${rc:-1}"; }
for tool in "$MPIRUN" python3; do command -v "$tool" >/dev/null || rc=2 die "no $tool"; done
for file in "$GDRTUNE" "$PERF"; do [ -x "$file" ] || rc=2 die "$file is no program"; done
[[ $MIN$MAX$SPLIT =~ ^[0-9]+$ ]] || rc=2 die "MIN, MAX and SPLIT are numbers of bytes"
# shellcheck source-path=SCRIPTDIR source=../gpu/mps.sh
. "$here/../gpu/mps.sh"

lab_open compare.sh
export GDRTUNE_STATE_DIR=$work/state NCCL_TESTS_DEVICE=0
mkdir "$work/state" "$work/lib"
# Rules or a tuner plugin of the caller's would reach both arms; this is a comparison of the default's times.
unset NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE GDRTUNE_RULES GDRTUNE_TUNER_PLUGIN NCCL_HOSTID

# One NCCL for both: nothing else that lies beside it gets onto the path.
perf_nccl() { ldd "$PERF" | awk '$1 ~ /^libnccl\.so/ && $3 ~ /^\// { print $3 }'; }
NCCL=${GDRTUNE_NCCL_LIB:-$(perf_nccl)}
[ -f "$NCCL" ] || rc=2 die "no NCCL: ${NCCL:-$PERF does not find its own}; GDRTUNE_NCCL_LIB names libnccl.so.2"
NCCL=$(readlink -f "$NCCL")
ln -s "$NCCL" "$work/lib/libnccl.so.2"
export GDRTUNE_NCCL_LIB=$NCCL LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ "$(readlink -f "$(perf_nccl)")" = "$NCCL" ] || rc=2 die "$PERF takes another NCCL than $NCCL: $(perf_nccl)"

# A time per size of gdrtune's JSON, or why there is none.
read_bench='
import json, sys
label, pair = sys.argv[1], sys.argv[2]
document = json.load(sys.stdin)
for row in document["results"]:
    if "error" in row:
        sys.exit("gdrtune, %s bytes: %s" % (row["bytes"], row["error"]))
    print("gdrtune", label, pair, row["bytes"], row["time_us"], sep=",")
'

ours() { # RANKS PAIR
  lab_run 120 "$GDRTUNE" bench --engine nccl --emulate-nodes --ranks-per-node "$1" --collectives allreduce \
    --data-type float32 --sizes "$MIN-$MAX" --factor 4 --repeats "$REPEATS" --json >"$work/out" 2>"$work/err" ||
    fail "gdrtune bench ($?)"
  python3 -c "$read_bench" "$1" "$2" <"$work/out" >>"$CSV" || fail "gdrtune bench gave no times"
}

perf() { # RANKS PAIR MIN MAX ITERATIONS
  local rank context=()
  for ((rank = 0; rank < $1; rank++)); do
    [ "$rank" = 0 ] || context+=(:)
    context+=(-np 1 -x "NCCL_HOSTID=gdrtune-node-$rank" -x LD_LIBRARY_PATH -x NCCL_TESTS_DEVICE
      -x CUDA_MPS_PIPE_DIRECTORY -x CUDA_MPS_LOG_DIRECTORY
      "$PERF" -g 1 -b "$3" -e "$4" -f 4 -d float -o sum -a 1 -n "$5" -w "$WARMUPS")
  done
  lab_run 120 "$MPIRUN" "${MPI_FLAGS[@]}" "${context[@]}" >"$work/out" 2>"$work/err" || fail "all_reduce_perf ($?)"
  # size count type redop root, then time algbw busbw #wrong, out of place and in place
  awk -v ranks="$1" -v pair="$2" '
    $1 ~ /^[0-9]+$/ && NF >= 9 {
      if ($9 + $13 != 0) { print "all_reduce_perf, " $1 " bytes: wrong results" > "/dev/stderr"; failed = 1; exit }
      printf "nccl-tests,%d,%d,%.0f,%s\n", ranks, pair, $1, $6; lines++
    }
    END { exit failed || !lines }' "$work/out" >>"$CSV" || fail "all_reduce_perf gave no times"
}

theirs() { # RANKS PAIR
  local size=$MIN large
  while [ "$size" -le "$SPLIT" ] && [ "$size" -le "$MAX" ]; do size=$((size * 4)); done
  large=$size
  [ "$large" = "$MIN" ] || perf "$1" "$2" "$MIN" "$((large / 4))" "$SMALL_ITERATIONS"
  [ "$large" -gt "$MAX" ] || perf "$1" "$2" "$large" "$MAX" "$LARGE_ITERATIONS"
}

fail() {
  tail -n 30 "$work/out" "$work/err" >&2
  die "$*"
}

echo "kind,ranks,pair,bytes,time_us" >"$CSV"
for ((pair = 1; pair <= PAIRS; pair++)); do
  for ranks in "${RANKS[@]}"; do
    order=(ours theirs)
    [ $((pair % 2)) = 1 ] || order=(theirs ours)
    for arm in "${order[@]}"; do "$arm" "$ranks" "$pair"; done
    echo "pair $pair of $PAIRS, $ranks ranks: ${SECONDS} s" >&2
  done
  [ "$pair" != 1 ] || grep -h '^# nccl-tests version' "$work"/out >&2 || true
done
echo "all-reduce float32, out of place, one GPU, EMULATED nodes, $NCCL"
python3 "$here/ratio.py" "$CSV" --seed "$SEED"
