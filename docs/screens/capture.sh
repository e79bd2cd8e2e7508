#!/usr/bin/env bash
# capture.sh GDRTUNE [FOLDER]: takes the screens of docs/terminal-ui.md, so that they stay true
#
# Four virtual hosts (testenv/vhosts.sh) with a fast and a slow rail, real ssh, the native engine, and a terminal in tmux: all views are
# visited, the search is paused, a knob pinned, a measurement skipped, rows filtered and exported, budget added, the profile so far
# written, and the search stopped, verified and written. Each screen becomes FOLDER/NAME.txt (this folder), and those of this folder
# go into docs/terminal-ui.md and README.md (insert.py). Whatever is not on the screen as it should be ends it with 1. Needs root, tmux, python3
# and what testenv needs; takes about two minutes.
set -euo pipefail
[ $# -ge 1 ] || { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }
self=$(readlink -f "$0") here=$(dirname "$(readlink -f "$0")")
root=$here/../..
if [ "${GDRTUNE_CAPTURE-}" != inside ]; then
  folder=$(mkdir -p "${2:-$here}" && readlink -f "${2:-$here}")
  GDRTUNE_CAPTURE=inside exec "$root/testenv/sandbox.sh" "$self" "$(readlink -f "$1")" "$folder"
fi
gdrtune=$1 folder=$2
command -v tmux >/dev/null || { echo "capture.sh: no tmux" >&2; exit 2; }
vhosts=$root/testenv/vhosts.sh
work=$(mktemp -d)
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
"$vhosts" up 4 >"$work/vhosts.log"
cp "$("$vhosts" ssh-config)" "$work/ssh_config"
export HOME=$work GDRTUNE_STATE_DIR=$work/state LANG=C.UTF-8

screen() { tmux -S "$socket" capture-pane -t run -p; }
keys() { tmux -S "$socket" send-keys -t run "$@"; }
typed() { tmux -S "$socket" send-keys -t run -l "$1"; }
size() { tmux -S "$socket" resize-window -t run -x "$1" -y "$2"; sleep 0.6; }
until_shown() { # TEXT SECONDS: until a row has the extended regular expression
  local i
  for ((i = 0; i < $2 * 5; i++)); do
    if screen | grep -qE -- "$1"; then return; fi
    sleep 0.2
  done
  screen >&2
  echo "capture.sh: not on the screen within $2 s: $1" >&2
  exit 1
}
save() { # NAME: trailing spaces are nothing to see
  screen | sed 's/ *$//' >"$folder/$1.txt"
}

cd "$work"
tmux -S "$socket" -f /dev/null new-session -d -s run -x 120 -y 40 \
  "cd $work && exec $gdrtune tune -w 'vh[1-4]' --ssh-config ssh_config --engine native --collectives allreduce,allgather --sizes 4K-4M --budget 100s --seed 7 --out out"
until_shown '^search .* trials' 60
until_shown 'environment 2' 60
save overview
for view in 2:sizes 3:search 4:cluster 5:trials 6:profile 7:log; do
  keys "${view%%:*}"
  until_shown " ${view%%:*} [A-Z]" 5
  sleep 0.5
  [ "$view" != 4:cluster ] || { keys Right Down Right && sleep 0.5; }
  save "${view##*:}"
done

keys 5
keys j j Enter
until_shown '^ Trial [0-9]+ ' 5
save trial
keys Escape
keys /
typed ring
keys Enter
until_shown 'filter ring' 5
keys s
until_shown 'by gain' 5
save trials-by-gain
keys e
until_shown 'wrote gdrtune-.*-trials.csv' 5

keys 1 Space
until_shown ' PAUSED ' 5
save paused
keys Space x
until_shown 'giving up the measurement' 5
keys P
typed 'proto=lll'
until_shown 'did you mean .ll.' 5
save pin
keys BSpace Enter
until_shown ' PINNED proto=ll' 30
keys P
typed proto
keys Enter
sleep 1
keys B
typed 10s
keys Enter
until_shown ' of 1:50' 30
keys w
until_shown 'NOT VERIFIED|unverified' 30
keys '?'
until_shown 'This view' 5
save help
keys Escape
size 80 24
save overview-80x24
keys F
until_shown 'Finish the search now' 5
save finish
keys y
until_shown '^verify ' 60
save verify-80x24
until_shown '^over ' 120
keys 1
sleep 0.5
save finished-80x24
size 120 40
keys 6
sleep 0.5
save profile-final
keys q
for ((i = 0; i < 50; i++)); do
  tmux -S "$socket" has-session -t run 2>/dev/null || break
  sleep 0.2
done
[ "$folder" != "$here" ] || python3 "$here/insert.py"
[ -s out/profile.toml ] || { echo "capture.sh: no profile was written" >&2; exit 1; }
ls out "$work"/gdrtune-*.csv >&2
