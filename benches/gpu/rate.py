#!/usr/bin/env python3
"""rate.py RUN.jsonl [MAX_BYTES]: what a trial of the search costs against a process start, from a run store.

A trial's cost is the time from the sample before it in the same script to its own, with everything that belongs to it:
result checks, warm-up, the timed calls, and what the controller does in between. A process start is from the start of a
set of workers to its working communicator: what a tool pays per setting that starts processes for each. Only trials of
the search arm up to MAX_BYTES (1 MiB) count. Prints medians, and their ratio.
"""
import json
import statistics
import sys


def read(path):
    """Milliseconds of each trial, and of each process start."""
    trials, starts, before = [], [], None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            event = record["event"]
            if event["type"] == "workers_started":
                starts.append(event["setup_ms"])
                before = None
            elif event["type"] == "trial":
                process = event["process"]
                in_sequence = before is not None and before[0] == process
                if in_sequence and event["arm"] == "search" and event["result"]["outcome"] == "timed":
                    trials.append((event["point"]["bytes"], record["t_ms"] - before[1]))
                before = (process, record["t_ms"])
    return trials, starts


def main():
    """Command line."""
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    limit = int(sys.argv[2]) if len(sys.argv) == 3 else 1 << 20
    trials, starts = read(sys.argv[1])
    costs = [cost for size, cost in trials if size <= limit]
    if not costs or not starts:
        sys.exit("rate.py: no trial of the search, or no process start, in this run")
    mean, start = statistics.fmean(costs), statistics.median(starts)
    print(f"{len(costs)} trials up to {limit} bytes: {1000 / mean:.1f} trials/s (mean {mean:.1f} ms, "
          f"median {statistics.median(costs):.0f} ms)")
    print(f"{len(starts)} process starts: median {start:.0f} ms")
    print(f"a process start per setting would cost {(start + mean) / mean:.0f} times as much")


if __name__ == "__main__":
    main()
