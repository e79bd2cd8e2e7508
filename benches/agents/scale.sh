#!/usr/bin/env bash
# scale.sh GDRTUNE [AGENTS]
# AGENTS (256) agents of one run on this machine, idle: how soon they are up and locked, and what memory they and the client
# take. Another run holds the machine meanwhile, so that the one that is looked at waits for it with all its agents (--wait).
# Prints a table; ends with 1 where agents were up after more than 20 s, or an agent has over 15 MB or the client over 150 MB
# resident. Resident memory counts the pages of the executable in each agent, though all share them; `own` leaves them out.
set -euo pipefail
[ $# -ge 1 ] || { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
gdrtune=$(readlink -f "$1") agents=${2:-256}
work=$(mktemp -d)
export HOME=$work GDRTUNE_LOCK_DIR=$work/lock
holder='' client=''
stop() { # PID: ends a run of ours, and waits for it; its agents end with it
  [ -z "$1" ] || { kill -KILL "$1" 2>/dev/null || true; wait "$1" 2>/dev/null || true; }
}
trap 'stop "$client"; stop "$holder"; rm -rf "$work"' EXIT

tune() { # NAME OPTIONS...: a run in the background, whose words and store are under its name
  local name=$1
  shift
  GDRTUNE_STATE_DIR=$work/$name "$gdrtune" tune --engine native --launcher local --ranks-per-node 1 --headless --sizes 4K \
    --out "$work/$name.out" "$@" >"$work/$name.log" 2>&1 &
}
until_said() { # NAME TEXT PID
  local i
  for ((i = 0; i < 600; i++)); do
    grep -q "$2" "$work/$1.log" 2>/dev/null && return
    kill -0 "$3" 2>/dev/null || break
    sleep 0.1
  done
  cat "$work/$1.log" >&2
  echo "scale.sh: the run ($1) did not come to say \"$2\"" >&2
  exit 1
}
kilobytes() { awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"; } # PID FIELD
ms() { sed -nE "s/^.*\"t_ms\":([0-9]+),.*$1.*/\1/p" "$work"/client/runs/*.jsonl | sort -n | tail -1; } # of the last such event

tune holder -w holder,other --budget 300s
holder=$!
until_said holder search: "$holder"
tune client -w "n[1-$agents]" --budget 5s --wait 300s
client=$!
until_said client 'waiting: ' "$client"

up=$(ms '"state":"ready"') asked=$(ms 'waiting: ')
mapfile -t pids < <(pgrep -P "$client")
for pid in "${pids[@]}"; do
  echo "$(kilobytes "$pid" VmRSS) $(kilobytes "$pid" RssAnon) $(kilobytes "$pid" Threads)"
done | sort -n > "$work/memory"
count=$(wc -l < "$work/memory")
read -r most own threads < <(tail -1 "$work/memory")
median=$(awk -v half=$(((count + 1) / 2)) 'NR == half { print $1 }' "$work/memory")
dog=$(pgrep -P "${pids[0]}" | head -1) # before it has workers, an agent's only child is its watchdog
dog_kb=$(kilobytes "$dog" VmRSS) dog_own=$(kilobytes "$dog" RssAnon)
client_kb=$(kilobytes "$client" VmRSS)
[ "$count" = "$agents" ] || { echo "scale.sh: $count agents instead of $agents" >&2; exit 1; }

printf '%-42s %8s %8s\n' "$agents agents on $(nproc) cores" measured limit
row() { printf '%-42s %8s %8s\n' "$@"; }
row 'agents up, ms' "$up" 20000
row 'all locks asked for and answered, ms more' $((asked - up)) -
row 'an agent resident, KB: median' "$median" -
row 'an agent resident, KB: largest' "$most" 15000
row 'an agent own, KB (threads)' "$own ($threads)" -
row 'a watchdog resident, KB (own)' "$dog_kb ($dog_own)" -
row 'client resident, KB' "$client_kb" 150000
((up < 20000 && most < 15000 && client_kb < 150000))
