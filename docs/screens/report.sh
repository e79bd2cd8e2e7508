#!/usr/bin/env bash
# report.sh GDRTUNE OUT_DIR [RUN...]: a run's report as a browser shows it, at two widths, by day and by night, and on paper; and
# proof that the browser asked nobody for anything. Without RUN, a simulated run is made for it.
# Needs Chromium (CHROMIUM names another one) and python3. No part of CI.
set -euo pipefail
gdrtune=$(readlink -f "${1:?usage: report.sh GDRTUNE OUT_DIR [RUN...]}")
out=${2:?usage: report.sh GDRTUNE OUT_DIR [RUN...]}
runs=("${@:3}")
mkdir -p "$out"
out=$(readlink -f "$out")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ ${#runs[@]} = 0 ]; then
  export GDRTUNE_STATE_DIR=$scratch/state
  "$gdrtune" tune --engine sim --cluster rail-optimised --quiet --out "$scratch/tuned" || true
  runs=(last)
fi

browse() { # ARGUMENT...: the browser, which keeps a log of its network
  timeout 120 "${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --disable-default-apps \
    --user-data-dir="$scratch/browser" --log-net-log="$scratch/net.json" "$@" >/dev/null 2>&1
}

asked() { # the addresses that a page asked for, from the log; the browser itself asks for updates and accounts
  python3 - "$scratch/net.json" <<'END'
import json, sys
from urllib.parse import urlsplit
log = json.load(open(sys.argv[1]))
types = {number: name for name, number in log["constants"]["logEventTypes"].items()}
urls = {event["params"]["url"] for event in log["events"]
        if types[event["type"]] == "URL_REQUEST_START_JOB" and "url" in event.get("params", {})}
own = ("update.googleapis.com", "clients2.google.com", "accounts.google.com")
print("\n".join(sorted(url for url in urls if not url.startswith(("file:", "data:", "chrome:")) and urlsplit(url).hostname not in own)))
END
}

# Nothing in a log proves something only where a request would be in it.
echo '<img src="http://127.0.0.1:9/seen">' >"$scratch/asks.html"
browse --screenshot="$scratch/asks.png" "file://$scratch/asks.html"
[ "$(asked)" = http://127.0.0.1:9/seen ] || { echo "report.sh: the browser's log does not tell what pages ask for" >&2; exit 1; }

for run in "${runs[@]}"; do
  name=$(basename "${run%.jsonl}")
  page=$out/$name.html
  "$gdrtune" report "$run" --html "$page" --svg "$out/$name-svg"
  # The second number is the height of the picture: long enough for most of a page.
  for size in 1400,6000 400,9000; do
    for scheme in 1-light 0-dark; do
      browse --blink-settings="preferredColorScheme=${scheme%-*}" --window-size="$size" \
        --screenshot="$out/$name-${size%,*}-${scheme#*-}.png" "file://$page"
      requests=$(asked)
      if [ -n "$requests" ]; then
        printf 'report.sh: %s asked for:\n%s\n' "$page" "$requests" >&2
        exit 1
      fi
    done
  done
  browse --print-to-pdf="$out/$name.pdf" --no-pdf-header-footer "file://$page"
done
echo "report.sh: nothing was asked for; the screens are in $out"
