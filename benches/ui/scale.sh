#!/usr/bin/env bash
# scale.sh GDRTUNE: the terminal UI with 1,000 nodes and 100,000 trials
#
# First the times of the code itself, at 200x60 and optimised: `cargo test --release` of tui/src/ui/tests/scale.rs prints the
# time of a frame of each view and of a record, and fails above 5 ms and 50 us. Then the program: a replay of a store of
# NODES (1000) nodes and TRIALS (100000) trials at the highest speed in a terminal of 200x60 (tmux), with jumps and all views visited at
# the end; the store is a simulated run (thousand-nodes), whose trials are repeated and to which nodes are added. Prints the most memory
# that was resident and the CPU time, and ends with 1 above 250 MB.
#
# Needs cargo, tmux and python3.
set -euo pipefail
[ $# -eq 1 ] || { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
gdrtune=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
NODES=${NODES:-1000} TRIALS=${TRIALS:-100000}
command -v tmux >/dev/null || { echo "scale.sh: no tmux" >&2; exit 2; }
work=$(mktemp -d)
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

(cd "$here/../.." && cargo test --release --locked -q -p gdrtune --bin gdrtune ui::tests::scale -- --nocapture)

export HOME=$work GDRTUNE_STATE_DIR=$work/state LANG=C.UTF-8
"$gdrtune" tune --engine sim --cluster thousand-nodes --trials 3000 --out "$work/out" --quiet || true
python3 - "$work" "$NODES" "$TRIALS" <<'PYTHON'
import json, pathlib, sys
work, nodes, trials = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
records = [json.loads(line) for line in next((work / "state/runs").glob("*.jsonl")).open()]
end = next(n for n, record in enumerate(records) if record["event"] == {"type": "phase", "phase": "verify"})
head, rest = records[:1], records[end:]
body = [record["event"] for record in records[1:end] if record["event"]["type"] in ("trial", "best", "dropped", "phase", "space", "environment_started")]
events, n = [head[0]["event"]], 0
events[0]["nodes"] = nodes
for index in range(nodes):
    events.append({"type": "node", "index": index, "host": f"node{index:04}", "state": "ready", "detail": "8 GPUs, 8 HCAs of 400 Gb/s"})
while n < trials:
    for event in body:
        if event["type"] == "trial":
            event = dict(event, trial=n)
            n += 1
        events.append(event)
        if n == trials:
            break
events += [record["event"] for record in rest]
with (work / "big.jsonl").open("w") as out:
    for seq, event in enumerate(events):
        out.write(json.dumps({"seq": seq, "t_ms": seq, "event": event}, separators=(",", ":")) + "\n")
PYTHON
tmux -S "$socket" -f /dev/null new-session -d -x 200 -y 60 "exec $gdrtune replay $work/big.jsonl --speed max"
screen() { tmux -S "$socket" capture-pane -p; }
pid=$(tmux -S "$socket" display-message -p '#{pane_pid}')
for ((i = 0; i < 1200; i++)); do
  screen | sed -n 2p | grep -q '^over ' && break
  sleep 0.1
done
# Back and forth: what is kept for jumps counts too.
for key in b b b 0 f f '$' 2 3 4 5 s G 6 7 1; do
  tmux -S "$socket" send-keys "$key"
  sleep 0.3
done
screen | sed -n 2p | grep -q "^over .* $TRIALS\|^over " || { screen >&2; echo "scale.sh: the replay did not come to its end" >&2; exit 1; }
kilobytes=$(awk '$1 == "VmHWM:" { print $2 }' "/proc/$pid/status")
seconds=$(awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$pid/stat")
tmux -S "$socket" send-keys q
printf 'replay of %s nodes, %s trials (%s MB): %s MB resident at most, %s s of CPU\n' \
  "$NODES" "$TRIALS" $(($(stat -c %s "$work/big.jsonl") / 1000000)) $((kilobytes / 1000)) "$seconds"
[ "$kilobytes" -le 250000 ] || { echo "scale.sh: more than 250 MB" >&2; exit 1; }
