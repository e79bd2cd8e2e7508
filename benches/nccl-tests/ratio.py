#!/usr/bin/env python3
"""ratio.py CSV: two arms compared from the times of interleaved process pairs

CSV has the columns kind, ranks, pair, bytes and a time in microseconds (time_us, or what --column names), one line for
each process and size. For each (ranks, bytes): the median of each arm, the ratio FIRST / SECOND of the medians, its 90 %
interval by a seeded bootstrap over the pairs (a pair's two processes are drawn together, since they shared the machine's
mood), and each arm's spread: the width of the middle 80 % of its processes over its median.

--mode same (gdrtune against nccl-tests): the verdict is "same" where the interval overlaps the band (0.95 to 1.05 from
1 MiB, 0.75 to 1.25 below; --bands LARGE SMALL sets both distances from 1), "DIFFERENT" where it does not, and "undecidable" where it overlaps but is more than twice as
wide as the band, since such an interval would overlap whatever the truth is; also with fewer than 5 pairs. Exit 1 where
any is DIFFERENT.

--mode speedup (default against tuned): the ratio is a speed-up; "faster" where the whole interval lies above 1, "slower"
where it lies below, "undecidable" with fewer than 5 pairs, else "-". Always exit 0.

Exit 2 where the file cannot be used. Tests: ratio_test.py beside this file.
"""

import argparse
import csv
import math
import random
import statistics
import sys
from collections import defaultdict

# How far from 1 a ratio counts as equal: from 1 MiB, and below.
BANDS = (0.05, 0.25)
# An interval of this many widths of the band says nothing.
UNDECIDABLE_WIDTHS = 2.0
CONFIDENCE = 0.90
RESAMPLES = 4000
# A bootstrap over fewer pairs knows too few values to have tails.
FEWEST_PAIRS = 5


class Unusable(Exception):
    """The file says nothing that can be compared; the text says why and where."""


def band(size, bands=BANDS):
    """The ratios that count as equal at a size in bytes.

    >>> band(1 << 20), band((1 << 20) - 1), band(8, (0.02, 0.5))
    ((0.95, 1.05), (0.75, 1.25), (0.5, 1.5))
    """
    distance = bands[0] if size >= 1 << 20 else bands[1]
    return 1 - distance, 1 + distance


def quantile(values, share):
    """Linear between the two nearest of the sorted values.

    >>> quantile([4, 1, 2, 3], 0.5), quantile([5], 0.9), quantile([0, 10], 0.9)
    (2.5, 5.0, 9.0)
    """
    values = sorted(values)
    place = share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return float(values[below] + (values[above] - values[below]) * (place - below))


def spread(values):
    """The width of the middle 80 % over the median.

    >>> spread([10, 10, 10]), spread([0, 5, 10])
    (0.0, 1.6)
    """
    return (quantile(values, 0.9) - quantile(values, 0.1)) / statistics.median(values)


def ratio_of_medians(pairs):
    """Of (first, second) times.

    >>> ratio_of_medians([(2, 1), (4, 2), (60, 3)])
    2.0
    """
    return statistics.median(first for first, _ in pairs) / statistics.median(second for _, second in pairs)


def interval(pairs, seed):
    """The 90 % interval of the ratio of medians: the same for the same pairs and seed."""
    draw = random.Random(seed)
    ratios = [ratio_of_medians(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
    tail = (1 - CONFIDENCE) / 2
    return quantile(ratios, tail), quantile(ratios, 1 - tail)


def same_verdict(size, low, high, bands=BANDS):
    """Whether the interval of a ratio allows that both are equal.

    >>> [same_verdict(1 << 20, *i) for i in [(1.04, 1.10), (1.06, 1.10), (0.5, 0.94), (0.9, 1.2)]]
    ['same', 'DIFFERENT', 'DIFFERENT', 'undecidable']
    >>> [same_verdict(1024, *i) for i in [(1.04, 1.10), (1.26, 1.30), (0.7, 1.8), (1.3, 9.9)]]
    ['same', 'DIFFERENT', 'undecidable', 'DIFFERENT']
    """
    from_, to = band(size, bands)
    if high < from_ or low > to:
        return "DIFFERENT"
    return "undecidable" if high - low > UNDECIDABLE_WIDTHS * (to - from_) else "same"


def speedup_verdict(low, high):
    """Whether a speed-up is one.

    >>> speedup_verdict(1.01, 2), speedup_verdict(0.9, 1.1), speedup_verdict(0.5, 0.99)
    ('faster', '-', 'slower')
    """
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "-"


def read(lines, column, arms):
    """{(ranks, bytes): [(first, second), ...]} of the pairs that are complete, in the order of ranks and bytes."""
    table = csv.DictReader(lines)
    wanted = ["kind", "ranks", "pair", "bytes", column]
    missing = [name for name in wanted if name not in (table.fieldnames or [])]
    if missing:
        raise Unusable(f"line 1: no column {', '.join(missing)}")
    times = defaultdict(dict)
    for row in table:
        place = f"line {table.line_num}"
        kind = row["kind"]
        if kind not in arms:
            raise Unusable(f"{place}: kind {kind!r} is neither {arms[0]} nor {arms[1]}")
        try:
            point, pair, time_us = (int(row["ranks"]), int(row["bytes"])), int(row["pair"]), float(row[column])
        except (TypeError, ValueError) as error:
            raise Unusable(f"{place}: {error}") from error
        if not (math.isfinite(time_us) and time_us > 0):
            raise Unusable(f"{place}: {column} is {row[column]}, and must be a number above 0")
        if (pair, kind) in times[point]:
            raise Unusable(f"{place}: {kind} has another time for pair {pair}, {point[0]} ranks, {point[1]} bytes")
        times[point][pair, kind] = time_us
    points = {}
    for point in sorted(times):
        found = times[point]
        numbers = sorted({pair for pair, _ in found})
        complete = [pair for pair in numbers if all((pair, arm) in found for arm in arms)]
        if not complete:
            raise Unusable(f"{point[0]} ranks, {point[1]} bytes: no pair has times of both {arms[0]} and {arms[1]}")
        points[point] = [(found[pair, arms[0]], found[pair, arms[1]]) for pair in complete]
    if not points:
        raise Unusable("no times in it")
    return points


def compare(points, mode, seed, bands=BANDS):
    """One dictionary of figures for each point."""
    rows = []
    for (ranks, size), pairs in points.items():
        # The seed of a point does not depend on which other points there are.
        low, high = interval(pairs, f"{seed} {ranks} {size}")
        if len(pairs) < FEWEST_PAIRS:
            verdict = "undecidable"
        else:
            verdict = same_verdict(size, low, high, bands) if mode == "same" else speedup_verdict(low, high)
        first, second = zip(*pairs)
        rows.append({
            "ranks": ranks, "bytes": size, "pairs": len(pairs),
            "first": statistics.median(first), "second": statistics.median(second),
            "ratio": ratio_of_medians(pairs), "low": low, "high": high,
            "first_spread": spread(first), "second_spread": spread(second), "verdict": verdict,
        })
    return rows


def show(rows, mode, arms):
    """The table as text."""
    what = "ratio" if mode == "same" else "speed-up"
    lines = [
        f"{'ranks':>5} {'bytes':>10} {'pairs':>5} {arms[0] + ' us':>13} {arms[1] + ' us':>13} {what:>8} "
        f"{'90 % interval':>16} {'spread':>7} {'spread':>7}  verdict"
    ]
    for row in rows:
        between = f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(
            f"{row['ranks']:>5} {row['bytes']:>10} {row['pairs']:>5} {row['first']:>13.1f} {row['second']:>13.1f} "
            f"{row['ratio']:>8.3f} {between:>16} {row['first_spread']:>7.0%} {row['second_spread']:>7.0%}  {row['verdict']}"
        )
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", help="file of times, or - for standard input")
    parser.add_argument("--mode", choices=["same", "speedup"], default="same")
    parser.add_argument("--arms", nargs=2, default=["gdrtune", "nccl-tests"], metavar=("FIRST", "SECOND"))
    parser.add_argument("--column", default="time_us", help="column of the times (time_us)")
    parser.add_argument("--bands", nargs=2, type=float, default=BANDS, metavar=("LARGE", "SMALL"),
                        help="with --mode same: how far from 1 is equal, from 1 MiB and below (0.05 0.25)")
    parser.add_argument("--seed", default="0")
    options = parser.parse_args(arguments)
    try:
        if options.csv == "-":
            points = read(sys.stdin, options.column, options.arms)
        else:
            with open(options.csv, encoding="utf-8", newline="") as lines:
                points = read(lines, options.column, options.arms)
    except (Unusable, OSError, UnicodeDecodeError) as error:
        print(f"ratio.py: {options.csv}: {error}", file=sys.stderr)
        return 2
    rows = compare(points, options.mode, options.seed, options.bands)
    print(show(rows, options.mode, options.arms))
    return int(any(row["verdict"] == "DIFFERENT" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
