#!/usr/bin/env python3
"""floors.py GRID.csv [SEEDS]: what there is to reach on a grid with environments, by draws

Every cell is drawn equally often and the lowest median taken at each point: over all environments, and in the best one alone, which only who
knows the answer could do. For each number of draws: mean gap to the best environment and choices, and how many of SEEDS (100) are within 3 %.
"""

import random
import statistics
import sys

import grid

REPEATS = (1, 3, 5, 9, 15, 25, 45)
FOUND = 0.03


def best_of(cells, times):
    """The choice of a point with the least time, and that."""
    return min((times(recorded), choice) for choice, recorded in cells.items())


def level(environment, times):
    """Picks of an environment, and the geometric mean of what they seem to take."""
    best = {point: best_of(cells, times) for point, cells in environment.items()}
    return statistics.geometric_mean(time for time, _ in best.values()), {p: choice for p, (_, choice) in best.items()}


def gap(environments, names, repeats, chance, best):
    """What one equal-repeats search among the named environments is off."""

    def drawn(recorded):
        return statistics.median(chance.choices(recorded, k=repeats))

    _, picks, name = min((level(environments[name], drawn) + (name,) for name in names), key=lambda found: found[0])
    true = (statistics.median(environments[name][point][choice]) for point, choice in picks.items())
    return statistics.geometric_mean(true) / best - 1


def main(arguments):
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    environments = grid.load(arguments[0])
    seeds = int(arguments[1]) if len(arguments) == 2 else 100
    truth = {name: level(cells, statistics.median)[0] for name, cells in environments.items()}
    best = min(truth, key=truth.get)
    print("| drawn | repeats | draws | gap, % | within 3 % |\n|---|---|---|---|---|")
    for title, names in (("all environments", sorted(environments)), ("the best environment", [best])):
        cells = sum(len(cells) for name in names for cells in environments[name].values())
        for repeats in REPEATS:
            gaps = [gap(environments, names, repeats, random.Random(seed), truth[best]) for seed in range(seeds)]
            within = sum(gap <= FOUND for gap in gaps)
            print(f"| {title} | {repeats} | {cells * repeats:,} | {100 * statistics.fmean(gaps):.2f} | {within} of {seeds} |")


if __name__ == "__main__":
    main(sys.argv[1:])
