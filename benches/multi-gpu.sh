#!/bin/bash
# multi-gpu.sh GDRTUNE NCCL_TESTS_DIR OUT_DIR [STEP...]: NCCL between 2, 4 or 8 NVIDIA GPUs of one host
#
# GDRTUNE is the program, NCCL_TESTS_DIR the folder with nccl-tests' *_perf programs, built with MPI=1 ("-" where no step
# needs it). One rank per GPU, nothing emulated. Without STEP all steps run, in this order; one that has ended well leaves
# OUT_DIR/STEP/done and is not run again (remove it for that), and `bench` and `graphs` go on after the last whole pair. Files are
# under OUT_DIR/STEP. A step that fails or overruns its limit (STEP_LIMIT seconds, in brackets) does not keep the
# others from running. Exit 1 where one failed or found a difference, 2 for wrong use.
#
#   topology  [60]   what nvidia-smi, the driver and NCCL say (topo.txt), and what gdrtune says of it in a short run
#   tune      [400]  `gdrtune tune` with each of SEEDS (1 2), TUNE_BUDGET (90s), TUNE_COLLECTIVES (allreduce,allgather),
#                    TUNE_SIZES (1K-64M): the verdicts side by side, GPU memory before and after, processes left, trial rate,
#                    cost of a communicator's start
#   grid      [240]  every choice of COLLECTIVES (allreduce,allgather,reducescatter,broadcast,reduce) that NCCL allows, with 1 to
#                    32 channels, at GRID_SIZES (1K-256M), GRID_REPEATS (3) samples each, checked: grid.csv in the columns of
#                    benches/search/data; default.csv has NCCL's own choice in processes with nothing set
#   bench     [480]  `gdrtune bench` against nccl-tests, COLLECTIVES, MIN to MAX (8, 4G) by 4, in PAIRS (5) pairs of fresh process
#                    sets per collective, one right after the other, whose order alternates: raw times as CSV, ratio.py's
#                    table for each collective; DIFFERENT is more than 2 % off from 1 MiB and 10 % below (BANDS, "0.02 0.10");
#                    of all-gather and reduce-scatter sizes from 16 bytes a rank on, which is the least that nccl-tests takes
#   graphs    [180]  the same of sizes below 1 MiB, with the calls captured into CUDA graphs. Called one by one, such calls wait
#                    for the CPU, which needs 7 to 12 us for each where a VM's CPUs are shared; in a graph they do not, so
#                    that two programs can be told apart by less than that. Between two H200 (NCCL 2.28.9) gdrtune took
#                    0.96 to 1.01 of nccl-tests' time, mostly 0.1 to 0.2 us less, and 0.90 for 256 bytes of broadcast and reduce:
#                    nccl-tests' reduce takes 4.55 us there, but 4.25 in place, and 4.27 and 4.18 for 128 and 512 bytes
#
# NVLink multicast stays off: NCCL_NVLS_ENABLE=0, TORCH_SYMM_MEM_DISABLE_MULTICAST=1 and NVSHMEM_DISABLE_NVLS=1 are set for
# all that is started; another value in the caller's environment is refused.
#
# RANKS (all GPUs); REPEATS of gdrtune in `bench` and `graphs` (3); iterations of nccl-tests below 256 MiB and from there:
# SMALL_ITERATIONS (1000), LARGE_ITERATIONS (20; few iterations have the batch's start and end in their time), WARMUPS (5), in
# `graphs` GRAPH_CALLS a graph (250) and GRAPH_LAUNCHES (8); CPUS_PER_RANK that both are bound to there (4; 0: not bound);
# MPIRUN (mpirun), MPI_FLAGS; GDRTUNE_NCCL_LIB names NCCL for both, which else is the one that nccl-tests finds. Needs
# bash 5.1 and python3.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,34s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
die() { echo "multi-gpu.sh: $*" >&2; exit "${rc:-1}"; }
GDRTUNE=$(readlink -f "$1") TESTS=$2 OUT=$3
shift 3
ALL_STEPS=(topology tune grid bench graphs) STEPS=("$@")
[ ${#STEPS[@]} -gt 0 ] || STEPS=("${ALL_STEPS[@]}")
for step in "${STEPS[@]}"; do
  [[ " ${ALL_STEPS[*]} " = *" $step "* ]] || rc=2 die "no step $step: use ${ALL_STEPS[*]}"
done
[ -x "$GDRTUNE" ] || rc=2 die "$GDRTUNE is no program"
for tool in nvidia-smi python3 numfmt; do command -v "$tool" >/dev/null || rc=2 die "no $tool"; done
mkdir -p "$OUT"
OUT=$(readlink -f "$OUT")

for pair in NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1; do
  name=${pair%%=*} value=${pair#*=}
  [ "${!name-$value}" = "$value" ] ||
    rc=2 die "$name is ${!name}: NVLink multicast must stay off here, so that it must be $value or not set"
  export "$name=$value"
done
# Rules or a tuner plugin of the caller's would reach both arms, and emulated nodes are no GPUs of one host.
unset NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE NCCL_HOSTID GDRTUNE_RULES GDRTUNE_EMULATE_NODES

bytes() { numfmt --from=iec -- "$1" || rc=2 die "$1 is no size"; }
RANKS=${RANKS:-$(nvidia-smi -L | grep -c '^GPU ' || true)}
[[ $RANKS =~ ^[0-9]+$ && $RANKS -ge 2 ]] || rc=2 die "needs two GPUs or more, found $RANKS"
COLLECTIVES=${COLLECTIVES:-allreduce,allgather,reducescatter,broadcast,reduce}
MIN=$(bytes "${MIN:-8}") MAX=$(bytes "${MAX:-4G}") PAIRS=${PAIRS:-5} REPEATS=${REPEATS:-3}
# Every rank's part is an element at least.
[ "$MIN" -ge $((4 * RANKS)) ] || MIN=$((4 * RANKS))
SMALL_ITERATIONS=${SMALL_ITERATIONS:-1000} LARGE_ITERATIONS=${LARGE_ITERATIONS:-20} WARMUPS=${WARMUPS:-5}
GRAPH_CALLS=${GRAPH_CALLS:-250} GRAPH_LAUNCHES=${GRAPH_LAUNCHES:-8}
CPUS_PER_RANK=${CPUS_PER_RANK:-4}
MPIRUN=${MPIRUN:-mpirun}
read -ra SEEDS <<< "${SEEDS:-1 2}"
read -ra BANDS <<< "${BANDS:-0.02 0.10}"
read -ra MPI_FLAGS <<< "${MPI_FLAGS:---oversubscribe --bind-to none}"
[ "$(id -u)" != 0 ] || MPI_FLAGS+=(--allow-run-as-root)
declare -A PERF=([allreduce]=all_reduce_perf [allgather]=all_gather_perf [reducescatter]=reduce_scatter_perf
  [broadcast]=broadcast_perf [reduce]=reduce_perf)
IFS=, read -ra collectives <<< "$COLLECTIVES"
for collective in "${collectives[@]}"; do
  [ -n "${PERF[$collective]-}" ] || rc=2 die "no collective $collective here: use ${!PERF[*]}"
done

# shellcheck source-path=SCRIPTDIR source=gpu/mps.sh
. "$here/gpu/mps.sh"
trap lab_end_children EXIT
trap 'exit 143' TERM INT HUP

# One NCCL for all: of nccl-tests and gdrtune alike.
perf_nccl() { ldd "$TESTS/all_reduce_perf" | awk '$1 ~ /^libnccl\.so/ && $3 ~ /^\// { print $3 }'; }
if [ "$TESTS" != - ]; then
  TESTS=$(readlink -f "$TESTS")
  for collective in "${collectives[@]}"; do
    [ -x "$TESTS/${PERF[$collective]}" ] || rc=2 die "no ${PERF[$collective]} in $TESTS"
  done
  [ -n "${GDRTUNE_NCCL_LIB-}" ] || GDRTUNE_NCCL_LIB=$(perf_nccl)
fi
if [ -n "${GDRTUNE_NCCL_LIB-}" ]; then
  GDRTUNE_NCCL_LIB=$(readlink -f "$GDRTUNE_NCCL_LIB")
  export GDRTUNE_NCCL_LIB
  # nccl-tests must take the same one: a folder with nothing else in it comes first on the loader's path.
  mkdir -p "$OUT/lib"
  ln -sfn "$GDRTUNE_NCCL_LIB" "$OUT/lib/libnccl.so.2"
  export LD_LIBRARY_PATH=$OUT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  unset GDRTUNE_NCCL_LIB
fi

complain() { echo "multi-gpu.sh: $*" >&2; }
# Runs a command for as long as the step may still take.
limited() {
  local seconds=$((deadline - SECONDS))
  [ "$seconds" -gt 0 ] || { complain "$step: over its limit"; return 124; }
  lab_run "$seconds" "$@"
}
gdrtune() { # SUB-COMMAND ARGUMENTS...
  local sub=$1
  shift
  GDRTUNE_STATE_DIR=$dir/state limited "$GDRTUNE" "$sub" --engine nccl --ranks-per-node "$RANKS" "$@"
}
gpu_memory() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | paste -sd' '; }
processes() { pgrep -xc gdrtune || true; }

topology() {
  rm -rf "$dir/state"
  {
    date -u +%FT%TZ
    nvidia-smi -L
    nvidia-smi --query-gpu=driver_version,name,memory.total --format=csv,noheader
    nvidia-smi topo -m
    echo "NCCL: ${GDRTUNE_NCCL_LIB:-not named}"
    echo "NCCL_NVLS_ENABLE=$NCCL_NVLS_ENABLE"
  } >"$dir/topo.txt" || return
  gdrtune bench --sizes 8,1M --repeats 1 --collectives "$COLLECTIVES" >"$dir/bench.txt" || return
  # The engine's facts are in the run store of a search, before its first trial; one that may make no other ends at once,
  # and says that it has found nothing.
  gdrtune tune --sizes 1M --trials 1 --budget 10s --headless --force --out "$dir/out" >"$dir/tune.log" 2>&1 || true
  python3 -c "$engine_facts" "$dir"/state/runs/*.jsonl >"$dir/engine.txt" || { tail -n 5 "$dir/tune.log" >&2; return 1; }
  cat "$dir/topo.txt" "$dir/bench.txt" "$dir/engine.txt"
}
# shellcheck disable=SC2016 # no shell text
engine_facts='
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    event = json.loads(line)["event"]
    if event["type"] == "workers_started":
        print("gdrtune:", json.dumps({"setup_ms": round(event["setup_ms"]), **(event["engine"] or {})}))
        sys.exit()
sys.exit("no workers were started")
'

tune() {
  local seed before after turn ok=0
  for seed in "${SEEDS[@]}"; do
    [ ! -e "$dir/seed-$seed.jsonl" ] || continue
    before="$(gpu_memory) MiB, $(processes) processes"
    rm -rf "$dir/state"
    gdrtune tune --collectives "${TUNE_COLLECTIVES:-allreduce,allgather}" --sizes "${TUNE_SIZES:-1K-64M}" --seed "$seed" \
      --budget "${TUNE_BUDGET:-90s}" --headless --force --out "$dir/out-$seed" >"$dir/seed-$seed.log" 2>&1 ||
      { complain "tune with seed $seed ended with $?"; tail -n 5 "$dir/seed-$seed.log" >&2; return 1; }
    # The driver takes a moment to give memory back.
    for ((turn = 0; turn < 20; turn++)); do
      after="$(gpu_memory) MiB, $(processes) processes"
      [ "$after" != "$before" ] || break
      sleep 0.5
    done
    printf 'seed %s before: %s\nseed %s after:  %s\n' "$seed" "$before" "$seed" "$after" >>"$dir/memory.txt"
    [ "$after" = "$before" ] || { complain "seed $seed: GPU memory or processes are not as before: $before; $after"; ok=1; }
    mv "$dir"/state/runs/*.jsonl "$dir/seed-$seed.jsonl" || return
  done
  {
    cat "$dir/memory.txt"
    for seed in "${SEEDS[@]}"; do
      echo "seed $seed:"
      python3 "$here/gpu/rate.py" "$dir/seed-$seed.jsonl" || true
    done
    # One run has nothing to differ from.
    [ ${#SEEDS[@]} = 1 ] || python3 "$here/gpu/verdicts.py" "${SEEDS[@]/#/$dir/seed-}" || ok=1
  } >"$dir/report.txt" 2>&1
  cat "$dir/report.txt"
  return "$ok"
}

grid() {
  # Of a step that was ended before.
  rm -f "$dir/default.csv" "$dir/grid.csv"
  gdrtune bench --collectives "$COLLECTIVES" --sizes "${GRID_SIZES:-1K-256M}" --repeats "${GRID_REPEATS:-3}" \
    --csv "$dir/default.csv" >"$dir/default.txt" || return
  local rc=0
  gdrtune bench --collectives "$COLLECTIVES" --sizes "${GRID_SIZES:-1K-256M}" --repeats "${GRID_REPEATS:-3}" \
    --choices all --csv "$dir/grid.csv" >"$dir/grid.txt" 2>"$dir/left-out.txt" || rc=$?
  cat "$dir/grid.txt"
  echo "$(wc -l <"$dir/grid.csv") lines in grid.csv, $(grep -c 'left out' "$dir/left-out.txt" || true) cells left out (left-out.txt)"
  [ "$rc" = 0 ] || grep -v 'left out' "$dir/left-out.txt" >&2 || true
  return "$rc"
}

# A time per collective and size of gdrtune's JSON, or why there is none.
read_bench='
import json, sys
for row in json.load(sys.stdin)["results"]:
    if "error" in row:
        sys.exit("gdrtune, %s %s bytes: %s" % (row["collective"], row["bytes"], row["error"]))
    print(row["collective"], "gdrtune", sys.argv[1], sys.argv[2], row["bytes"], row["time_us"], sep=",")
'
ours() { # COLLECTIVE PAIR
  local flags=()
  [ "$step" != graphs ] || flags=(--graph)
  gdrtune bench --collectives "$1" --sizes "$(IFS=,; echo "${sizes[*]}")" --repeats "$REPEATS" --json "${flags[@]}" \
    --worker-cmd "$here/gpu/bind.sh {local_rank} $CPUS_PER_RANK {worker}" >"$dir/out" 2>"$dir/err" || return
  python3 -c "$read_bench" "$RANKS" "$2" <"$dir/out" >>"$dir/pair.csv" 2>>"$dir/err"
}
perf() { # COLLECTIVE PAIR MIN MAX FACTOR ITERATIONS FLAGS...
  limited "$MPIRUN" "${MPI_FLAGS[@]}" -np "$RANKS" "$here/gpu/bind.sh" - "$CPUS_PER_RANK" \
    "$TESTS/${PERF[$1]}" -g 1 -b "$3" -e "$4" -f "$5" -d float -a 1 \
    -n "$6" -w "$WARMUPS" "${@:7}" >"$dir/out" 2>"$dir/err" || return
  # size count type redop root, then time algbw busbw #wrong, out of place and in place
  awk -v name="$1" -v ranks="$RANKS" -v pair="$2" -v wanted=" ${sizes[*]} " '
    $1 ~ /^[0-9]+$/ && NF >= 13 {
      if ($9 + $13 != 0) { print name ", " $1 " bytes: wrong results of nccl-tests" > "/dev/stderr"; failed = 1; exit }
      if (index(wanted, " " $1 " ")) { printf "%s,nccl-tests,%d,%d,%.0f,%s\n", name, ranks, pair, $1, $6; lines++ }
    }
    END { exit failed || !lines }' "$dir/out" >>"$dir/pair.csv" 2>>"$dir/err"
}
theirs() { # COLLECTIVE PAIR
  local small=() large=() size
  for size in "${sizes[@]}"; do
    if [ "$size" -lt 268435456 ]; then small+=("$size"); else large+=("$size"); fi
  done
  # By 2, so that the smallest is on the way too.
  if [ "$step" = graphs ]; then
    perf "$1" "$2" "${small[0]}" "${small[-1]}" 2 "$GRAPH_CALLS" -G "$GRAPH_LAUNCHES" || return
  elif [ ${#small[@]} != 0 ]; then
    perf "$1" "$2" "${small[0]}" "${small[-1]}" 2 "$SMALL_ITERATIONS" || return
  fi
  [ ${#large[@]} = 0 ] || perf "$1" "$2" "${large[0]}" "${large[-1]}" 4 "$LARGE_ITERATIONS"
}
# nccl-tests gives a rank's part of these a multiple of 16 bytes, and measures smaller sizes as none.
smallest() { case $1 in allgather | reducescatter) echo $((16 * RANKS)) ;; *) echo "$MIN" ;; esac; }
run_arm() { case $arm in ours) ours "$collective" "$pair" ;; theirs) theirs "$collective" "$pair" ;; esac; }

bench() { compare "$MIN" "$MAX"; }
graphs() {
  local limit=$((MAX < 1048576 ? MAX : 524288))
  [ "$MIN" -le "$limit" ] || { complain "graphs: no size from MIN below 1 MiB"; return 2; }
  # The sizes of `bench`, which count down from MAX.
  local size
  for ((size = MAX; size > limit; size /= 4)); do :; done
  compare "$MIN" "$((size > MIN ? size : MIN))"
}

compare() { # MIN MAX
  [ "$TESTS" != - ] || { complain "$step needs NCCL_TESTS_DIR"; return 2; }
  command -v "$MPIRUN" >/dev/null || { complain "no $MPIRUN"; return 2; }
  [ -z "${GDRTUNE_NCCL_LIB-}" ] || [ "$(readlink -f "$(perf_nccl)")" = "$GDRTUNE_NCCL_LIB" ] ||
    { complain "nccl-tests takes another NCCL than $GDRTUNE_NCCL_LIB: $(perf_nccl)"; return 2; }
  # From MAX down by 4, and MIN.
  local sizes=() size pair arm order collective ok=0 interrupted=0
  for ((size = $2; size > $1; size /= 4)); do sizes=("$size" "${sizes[@]}"); done
  sizes=("$1" "${sizes[@]}")
  for collective in "${collectives[@]}"; do
    [ -e "$dir/$collective.csv" ] || echo "kind,ranks,pair,bytes,time_us" >"$dir/$collective.csv"
  done
  for ((pair = $(cat "$dir/pairs" 2>/dev/null || echo 0) + 1; pair <= PAIRS; pair++)); do
    : >"$dir/pair.csv"
    order=(ours theirs)
    [ $((pair % 2)) = 1 ] || order=(theirs ours)
    # The arms of one collective follow each other at once: a machine's mood changes within seconds.
    for collective in "${collectives[@]}"; do
      for arm in "${order[@]}"; do
        run_arm || {
          complain "$step, pair $pair, $collective, $arm: failed ($?)"
          tail -n 15 "$dir/out" "$dir/err" >&2
          interrupted=1
          break 3
        }
      done
    done
    for collective in "${collectives[@]}"; do
      awk -F, -v name="$collective" -v least="$(smallest "$collective")" \
        '$1 == name && least <= $5 { sub(/^[^,]*,/, ""); print }' "$dir/pair.csv" >>"$dir/$collective.csv"
    done
    echo "$pair" >"$dir/pairs"
    echo "pair $pair of $PAIRS: ${SECONDS} s" >&2
  done
  if [ -e "$dir/pairs" ]; then
    for collective in "${collectives[@]}"; do
      echo "== $step: $collective, float32, out of place, $RANKS GPUs"
      python3 "$here/nccl-tests/ratio.py" "$dir/$collective.csv" --bands "${BANDS[@]}" || ok=1
    done | tee "$dir/ratios.txt"
    ! grep -q DIFFERENT "$dir/ratios.txt" || ok=1
  fi
  [ "$interrupted" = 0 ] || return 1
  # Measured to the end, whatever it says: running it again would not help.
  touch "$dir/done"
  return "$ok"
}

run_step() {
  case $step in
    topology) topology ;;
    tune) tune ;;
    grid) grid ;;
    bench) bench ;;
    graphs) graphs ;;
  esac
}
declare -A LIMIT=([topology]=${TOPOLOGY_LIMIT:-60} [tune]=${TUNE_LIMIT:-400} [grid]=${GRID_LIMIT:-240} [bench]=${BENCH_LIMIT:-480}
  [graphs]=${GRAPHS_LIMIT:-180})
failed=0
for step in "${STEPS[@]}"; do
  dir=$OUT/$step
  if [ -e "$dir/done" ]; then complain "$step: done before"; continue; fi
  mkdir -p "$dir"
  echo "== $step"
  begun=$SECONDS deadline=$((SECONDS + LIMIT[$step]))
  if run_step; then touch "$dir/done"; else failed=1; complain "$step: failed, see $dir"; fi
  echo "== $step: $((SECONDS - begun)) s" | tee -a "$OUT/seconds.txt"
done
exit "$failed"
