#!/usr/bin/env python3
"""table.py OUT_DIR REGRET.csv TUNING.csv ENVIRONMENTS.csv [REGRET_2.csv TUNING_2.csv]: results.md, results.csv and environments.csv in OUT_DIR

REGRET and TUNING have the columns contestant, variant, budget, seed, regret, of other seeds. A contestant with several variants
plays each budget with the one that has the lowest mean regret in TUNING; where TUNING does not know it, in REGRET itself,
which flatters it a little. ENVIRONMENTS has contestant, budget, seed, found_after (empty if never), environments, starts, gap, environment_gap.
REGRET_2 and TUNING_2 are of another grid, that no constant of the search was chosen on; results-2.csv has them.
Means come with their standard errors over seeds. Tests: table_test.py beside this file.
"""

import csv
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

OURS = "ours"
FLOOR = "oracle"
# Of the issue: at 1,500 and 3,750 draws.
GOALS = {1500: 0.045, 3750: 0.03}
# A third of the recorded environments.
MOST_ENVIRONMENTS = 6


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def mean_and_error(values):
    """Mean and its standard error, which one value does not have.

    >>> mean_and_error([1.0, 3.0])
    (2.0, 1.0)
    """
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def group(rows):
    """{(contestant, budget): {variant: {seed: regret}}}"""
    groups = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        variants = groups[row["contestant"], int(row["budget"])]
        variants[row["variant"]][int(row["seed"])] = float(row["regret"])
    return groups


def choose(groups, tuning):
    """{(contestant, budget): (variant, [regret, ...])} with the variant that was best in tuning."""
    chosen = {}
    for key, variants in groups.items():
        judge = tuning.get(key, variants)
        variant = min(variants, key=lambda name: (statistics.fmean(judge[name].values()), name))
        chosen[key] = variant, list(variants[variant].values())
    return chosen


def percent(value):
    return f"{100 * value:.2f}"


def cell(values, bold):
    mean, error = mean_and_error(values)
    text = f"{percent(mean)} ± {percent(error)}"
    return f"**{text}**" if bold else text


def regret_table(chosen):
    """The rows of the table, contestants in the order of their mean over budgets, floors last."""
    budgets = sorted({budget for _, budget in chosen})
    names = {name for name, _ in chosen}
    level = {name: statistics.fmean(statistics.fmean(chosen[name, b][1]) for b in budgets) for name in names}
    order = sorted(names, key=lambda name: (name.startswith(FLOOR), level[name]))
    lines = ["| draws | " + " | ".join(f"{budget:,}" for budget in budgets) + " |", "|---" * (len(budgets) + 1) + "|"]
    rivals = [name for name in order if not name.startswith(FLOOR)]
    best = {b: min(rivals, key=lambda name: statistics.fmean(chosen[name, b][1])) for b in budgets}
    for name in order:
        cells = [cell(chosen[name, budget][1], best[budget] == name) for budget in budgets]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines, best


def ahead(chosen):
    """How far ours is ahead of the best rival at each budget: (budget, rival, lead, standard error)."""
    budgets = sorted({budget for _, budget in chosen})
    for budget in budgets:
        rivals = {n: v for (n, b), (_, v) in chosen.items() if b == budget and n != OURS and not n.startswith(FLOOR)}
        rival = min(rivals, key=lambda name: statistics.fmean(rivals[name]))
        (theirs, error), (own, own_error) = mean_and_error(rivals[rival]), mean_and_error(chosen[OURS, budget][1])
        yield budget, rival, theirs - own, math.hypot(error, own_error)


def verdicts(chosen, goals):
    lines = []
    for budget, rival, lead, error in ahead(chosen):
        goal = goals.get(budget)
        mean = statistics.fmean(chosen[OURS, budget][1])
        says = "" if goal is None else f"; goal {percent(goal)} %: {'met' if mean <= goal else 'missed'} with {percent(mean)} %"
        place = "NOT first" if lead <= 0 else "first" if error < lead else "first by less than the standard error"
        lines.append(f"- {budget:,}: {place}, {percent(lead)} ± {percent(error)} points ahead of {rival}{says}")
    return lines


def environment_table(rows):
    groups = defaultdict(list)
    for row in rows:
        groups[int(row["budget"]), row["contestant"]].append(row)
    lines = [
        "| draws | strategy | found within 3 % | environments until then, median | at most a third | environments in all | process starts | gap at the end, % | with the best choices there, % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (budget, name), runs in sorted(groups.items()):
        found = [float(row["found_after"] or math.inf) for row in runs]
        within = sum(count <= MOST_ENVIRONMENTS for count in found)
        middle = statistics.median(found)
        middle = "never" if math.isinf(middle) else f"{middle:g}"
        means = [statistics.fmean(float(row[column]) for row in runs) for column in ("environments", "starts")]
        gap, part = (cell([float(row[column]) for row in runs], False) for column in ("gap", "environment_gap"))
        ever = sum(not math.isinf(count) for count in found)
        lines.append(
            f"| {budget:,} | {name} | {ever} of {len(runs)} | {middle} | {within} of {len(runs)} | {means[0]:.1f} | {means[1]:.1f} | {gap} | {part} |"
        )
    return lines


def variants_table(chosen):
    lines = ["| contestant | draws | settings |", "|---|---|---|"]
    for (name, budget), (variant, _) in sorted(chosen.items()):
        lines.append(f"| {name} | {budget:,} | {variant.strip('; ')} |")
    return lines


def second_grid(chosen):
    return [
        "## One environment, another machine: h200-2gpus-nvlink.csv",
        "",
        "One thing of the search was learned on this grid: to try every family with most of its channels where the leading one gains by them (its",
        "threshold is the other grid's). From 1 MiB on it is steady (repeats of a cell lie 0.4 % apart); below, where a call takes as long",
        "as its launch, they lie 5 % apart. Most points have one choice within 2 % of the best. Without TPE, which takes too long.",
        "",
        *regret_table(chosen)[0],
        "",
        *verdicts(chosen, {}),
        "",
    ]


def report(chosen, environments, second=None):
    seeds = max(len(values) for _, values in chosen.values())
    table, _ = regret_table(chosen)
    parts = [
        "# The search against its rivals",
        "",
        "Made by `run.sh`; README.md says what is compared. All numbers are *replayed* from recorded grids: no figure here is a measurement of a cluster.",
        "",
        "## One environment: h200-emulated-4nodes.csv",
        "",
        f"Regret in percent, mean over {seeds} seeds ± standard error, by draws that the search may take. Bold: first. The oracles are floors and no contestants.",
        "",
        *table,
        "",
        *verdicts(chosen, GOALS),
        "",
        *(second_grid(second) if second else []),
        "## Two levels: h200-emulated-4nodes-env.csv",
        "",
        "18 environments. What a search holds best counts as found from when on its environment and choices are, in truth, within 3 % of the best.",
        "",
        *environment_table(environments),
        "",
        "## Settings that the contestants played with",
        "",
        *variants_table(chosen),
        "",
    ]
    return "\n".join(parts)


def write_regret(path, regret, chosen):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("contestant", "variant", "budget", "seed", "regret"))
        for row in regret:
            if chosen[row["contestant"], int(row["budget"])][0] == row["variant"]:
                writer.writerow(row.values())


def main(arguments):
    if len(arguments) not in (4, 6):
        sys.exit(__doc__)
    out = Path(arguments[0])
    regret, tuning, environments, *more = map(read, arguments[1:])
    chosen = choose(group(regret), group(tuning))
    second = choose(*map(group, more)) if more else None
    (out / "results.md").write_text(report(chosen, environments, second))
    write_regret(out / "results.csv", regret, chosen)
    if second:
        write_regret(out / "results-2.csv", more[0], second)
    with open(out / "environments.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, environments[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(environments)


if __name__ == "__main__":
    main(sys.argv[1:])
