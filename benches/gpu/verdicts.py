#!/usr/bin/env python3
"""verdicts.py RUN RUN...: what searches with different seeds found, side by side, from their run stores (RUN or RUN.jsonl)

For each point, every run's speed-up with its interval and the decision. Two verdicts contradict each other where one run
calls the point faster and the interval of another one lies wholly below 1, or where two that call it faster have
intervals that do not overlap by any noise (more than 5 % between them). Exit 1 where any do; 2 where a run has no verdict at all
and no end.
"""
import json
import os
import sys

# Beyond the intervals: runs of different minutes, which share no mood of the machine.
APART = 1.05


def read(path):
    """{(collective, bytes): verdict event}, the last line of the run, and its length in seconds."""
    path = path if path.endswith(".jsonl") else path + ".jsonl"
    verdicts, end, t_ms = {}, None, 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            event, t_ms = record["event"], record["t_ms"]
            if event["type"] == "verdict":
                verdicts[event["point"]["collective"], event["point"]["bytes"]] = event
            elif event["type"] == "finished":
                end = event
    return verdicts, end, t_ms / 1e3


def contradict(one, other):
    """Whether two verdicts on a point cannot both be right.

    >>> def verdict(low, high, decision): return {"speedup": {"low": low, "high": high}, "decision": decision}
    >>> faster, slower, unsure = verdict(1.2, 1.3, "ship"), verdict(0.8, 0.9, "regression"), verdict(0.9, 1.25, "too_noisy")
    >>> contradict(faster, slower), contradict(slower, faster), contradict(faster, unsure), contradict(unsure, slower)
    (True, True, False, False)
    >>> contradict(faster, verdict(1.6, 1.7, "ship")), contradict(faster, verdict(1.32, 1.4, "ship"))
    (True, False)
    """
    for first, second in [(one, other), (other, one)]:
        if first["decision"] != "ship":
            continue
        if second["speedup"]["high"] < 1:
            return True
        if second["decision"] == "ship" and first["speedup"]["high"] * APART < second["speedup"]["low"]:
            return True
    return False


def main(paths):
    if len(paths) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    runs = [read(path) for path in paths]
    for path, (verdicts, end, seconds) in zip(paths, runs):
        name = os.path.basename(path)
        if end is None:
            print(f"verdicts.py: {path}: the run did not end", file=sys.stderr)
            return 2
        print(f"{name}: {end['summary']} ({seconds:.0f} s)")
    points = sorted({point for verdicts, _, _ in runs for point in verdicts})
    contradictions, faster_in_all = 0, 0
    for point in points:
        found = [verdicts.get(point) for verdicts, _, _ in runs]
        cells = []
        for event in found:
            if event is None:
                cells.append(f"{'-':<37}")
                continue
            speedup = event["speedup"]
            between = f"{speedup['median']:.3f} ({speedup['low']:.3f} to {speedup['high']:.3f})"
            cells.append(f"{between:<24} {event['decision']:<12}")
        there = [event for event in found if event]
        wrong = any(contradict(a, b) for i, a in enumerate(there) for b in there[i + 1:])
        contradictions += wrong
        faster_in_all += all(event and event["decision"] == "ship" for event in found)
        print(f"{point[0]:>13} {point[1]:>10}  {'  '.join(cells)}{'  CONTRADICT' if wrong else ''}")
    print(f"{len(points)} points with a verdict, {faster_in_all} faster in all runs, {contradictions} contradictions")
    return int(contradictions > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
