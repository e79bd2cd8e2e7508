#!/usr/bin/env bash
# overhead.sh GDRTUNE: what the terminal UI costs the measuring
#
# PAIRS (5) pairs of runs with the same seed of the native engine on this machine, one under the terminal UI (in tmux, 160x45) and
# one with --headless, in alternating order. Prints, for each size, the median time of the default arm in both ways, their ratio, and the
# noise: half the range of the run medians of one way, over their median, whichever way it is larger. Then the client's CPU time over
# the wall time, which is that of the process that draws, speaks to the agents and searches; its workers are other processes.
# Ends with 1 where the medians differ by more than the noise at any size, or the client takes more than 5 % of a core under the UI.
#
# BUDGET (20s), SIZES (16K,256K,4M), RANKS (2: as many as there are cores to measure on). Needs tmux and python3.
set -euo pipefail
[ $# -eq 1 ] || { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
gdrtune=$(readlink -f "$1")
PAIRS=${PAIRS:-5} BUDGET=${BUDGET:-20s} SIZES=${SIZES:-16K,256K,4M} RANKS=${RANKS:-2}
command -v tmux >/dev/null || { echo "overhead.sh: no tmux" >&2; exit 2; }
work=$(mktemp -d)
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

run() { # NAME ui|headless: a run whose store is under its name, and the CPU and wall time of its client in NAME.time
  local name=$1 way=$2 show=''
  [ "$way" = ui ] || show='"--headless", "--quiet"'
  cat > "$work/$name.sh" <<SCRIPT
export LANG=C.UTF-8 HOME=$work GDRTUNE_STATE_DIR=$work/$name GDRTUNE_LOCK_DIR=$work/lock
exec python3 - <<'PYTHON'
import os, subprocess, time
start = time.monotonic()
client = subprocess.Popen(["$gdrtune", "tune", "--seed", "7", "--sizes", "$SIZES", "--budget", "$BUDGET", "--ranks-per-node", "$RANKS",
                           "--out", "$work/$name.out", $show], stdin=open("/dev/tty") if "$way" == "ui" else None)
# Its own CPU time, without that of agents and workers that it waits for: read while it lives.
ticks, wall = 0, 0.0
while client.poll() is None:
    try:
        fields = open(f"/proc/{client.pid}/stat").read().rsplit(")", 1)[1].split()
        # utime and stime are fields 14 and 15 of the line (proc(5)).
        ticks, wall = int(fields[11]) + int(fields[12]), time.monotonic() - start
    except OSError:
        pass
    ended = os.path.exists("$work/$name.out/profile.toml") or os.path.exists("$work/$name.out/summary.md")
    if ended and "$way" == "ui":
        open("$work/$name.ended", "w").close()
    time.sleep(0.1)
open("$work/$name.time", "w").write(f"{ticks / os.sysconf('SC_CLK_TCK')} {wall}\n")
PYTHON
SCRIPT
  if [ "$way" = ui ]; then
    tmux -S "$socket" -f /dev/null new-session -d -s "$name" -x 160 -y 45 "bash $work/$name.sh"
    until [ -e "$work/$name.ended" ] || ! tmux -S "$socket" has-session -t "$name" 2>/dev/null; do sleep 0.2; done
    until ! tmux -S "$socket" has-session -t "$name" 2>/dev/null; do
      tmux -S "$socket" send-keys -t "$name" q 2>/dev/null || true
      sleep 0.5
    done
  else
    bash "$work/$name.sh" </dev/null >/dev/null 2>&1
  fi
  [ -s "$work/$name.time" ] || { echo "overhead.sh: the run $name left no time" >&2; exit 1; }
}

for ((pair = 1; pair <= PAIRS; pair++)); do
  ways=(ui headless)
  [ $((pair % 2)) = 1 ] || ways=(headless ui)
  for way in "${ways[@]}"; do
    run "$way-$pair" "$way"
  done
  echo "pair $pair of $PAIRS" >&2
done

python3 - "$work" "$PAIRS" <<'PYTHON'
import json, pathlib, statistics, sys
work, pairs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
WAYS = ("ui", "headless")
medians, cpu, trials = {way: {} for way in WAYS}, {way: [] for way in WAYS}, {way: 0 for way in WAYS}
for way in WAYS:
    for pair in range(1, pairs + 1):
        name = f"{way}-{pair}"
        times = {}
        for line in next((work / name / "runs").glob("*.jsonl")).read_text().splitlines():
            event = json.loads(line)["event"]
            if event["type"] != "trial":
                continue
            trials[way] += 1
            if event["arm"] == "default" and event["result"]["outcome"] == "timed":
                times.setdefault(event["point"]["bytes"], []).append(event["result"]["time_us"])
        for size, values in times.items():
            medians[way].setdefault(size, []).append(statistics.median(values))
        seconds, wall = map(float, (work / f"{name}.time").read_text().split())
        cpu[way].append(100 * seconds / wall)
failed = False
print(f"default arm, median of {pairs} runs each (same seed, alternating)")
print(f"{'bytes':>10} {'UI us':>10} {'headless us':>12} {'ratio':>7} {'noise':>7}")
for size in sorted(medians["ui"]):
    both = [medians[way][size] for way in WAYS]
    ui, headless = map(statistics.median, both)
    noise = max((max(values) - min(values)) / 2 / statistics.median(values) for values in both)
    differs = noise < abs(ui / headless - 1)
    failed |= differs
    print(f"{size:>10} {ui:>10.1f} {headless:>12.1f} {ui / headless:>7.3f} {noise:>7.3f}{'  DIFFERENT' if differs else ''}")
for way in WAYS:
    print(f"client CPU, % of a core, {way}: median {statistics.median(cpu[way]):.1f}, most {max(cpu[way]):.1f}; {trials[way]} trials")
if 5 < statistics.median(cpu["ui"]):
    failed = True
    print("the client takes more than 5 % of a core under the UI")
sys.exit(failed)
PYTHON
