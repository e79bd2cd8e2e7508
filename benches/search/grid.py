"""Recorded grids for rivals in Python: draws of cells with replacement, nothing else.

A rival sees what a bench would tell it: one recorded repeat's mean_us per draw. Truths and regrets are not computed here;
`search_rivals score` does that for everybody.
"""

import csv
from collections import defaultdict

ENVIRONMENT = ("socket_nthreads", "nsocks_perthread", "buffsize")


def load(path):
    """{environment: {(collective, bytes): {(algorithm, protocol, channels): [mean_us, ...]}}}, default rows left out."""
    grid = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["algorithm"] == "default":
                continue
            environment = tuple(row[name] for name in ENVIRONMENT if name in row)
            point = row["collective"], int(row["bytes"])
            choice = row["algorithm"], row["protocol"], int(row["channels"])
            grid[environment][point][choice].append(float(row["mean_us"]))
    return grid


def axes(cells):
    """The values of algorithm, protocol and channels at a point, each sorted."""
    return [sorted({choice[axis] for choice in cells}) for axis in range(3)]


def draw(random, cells, choice):
    """One repeat's time; None where the grid has no such cell."""
    return random.choice(cells[choice]) if choice in cells else None
