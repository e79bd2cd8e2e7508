#!/usr/bin/env python3
"""tpe.py points GRID.csv [SEEDS] | tpe.py environments GRID.csv [SEEDS]: Optuna's TPE as a rival, picks as CSV

Optuna's TPESampler as it comes (multivariate=False, 10 random trials first); a trial is one draw of each point that it covers.

points: one study per point, algorithm, protocol and channels categorical, each point with the same share of the draws. The
sampler does not know its horizon, so a smaller budget is the beginning of a larger one. Picks are made three ways: Optuna's best
trial, and the lowest median and lowest mean of all draws of a choice.

environments: one study over everything, the environment's settings and every point's choice; each trial draws every point once.
What is held is the best trial so far; here too smaller budgets are beginnings. `environments` counts distinct ones, `starts` every change, a process start each.

Output is for `search_rivals score` and `score-environments`. SEEDS (20); JOBS (all cores) processes. Needs optuna 4 or later.
"""

import os
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor

import optuna

import grid

BUDGETS = (750, 1500, 2250, 3000, 3750, 5250, 6750)
ENVIRONMENT_BUDGETS = (1000, 2000, 4000)
AXES = ("algorithm", "protocol", "channels")


def sampler(seed):
    return optuna.samplers.TPESampler(seed=seed)


def best_by(draws, measure):
    """The choice whose draws have the lowest measure."""
    times = {}
    for choice, time in draws:
        times.setdefault(choice, []).append(time)
    return min(times, key=lambda choice: (measure(times[choice]), choice))


RULES = {
    "best trial": min,
    "by median": statistics.median,
    "by mean": statistics.fmean,
}


def study_point(cells, trials, seed, chance):
    """The (choice, time) of each trial, in order."""
    values = grid.axes(cells)
    draws = []

    def objective(trial):
        choice = tuple(trial.suggest_categorical(name, axis) for name, axis in zip(AXES, values))
        time = grid.draw(chance, cells, choice)
        if time is None:
            raise optuna.TrialPruned
        draws.append((choice, time))
        return time

    optuna.create_study(sampler=sampler(seed)).optimize(objective, n_trials=trials)
    return draws


def play_points(job):
    path, seed = job
    points = next(iter(grid.load(path).values()))
    chance = random.Random(seed)
    rows = []
    for place, (point, cells) in enumerate(sorted(points.items())):
        shares = {budget: share(budget, len(points), place) for budget in BUDGETS}
        draws = study_point(cells, max(shares.values()), seed * 1000 + place, chance)
        for budget, trials in shares.items():
            for rule, measure in RULES.items():
                choice = best_by(draws[:trials], measure)
                rows.append(("TPE (Optuna)", rule, budget, seed, *point, *choice))
    return rows


def share(budget, points, place):
    """The draws of one of the points, whose shares add up to the budget."""
    return budget * (place + 1) // points - budget * place // points


def play_environments(job):
    path, seed = job
    recorded = grid.load(path)
    settings = [sorted({environment[axis] for environment in recorded}, key=int) for axis in range(len(grid.ENVIRONMENT))]
    points = sorted({point for cells in recorded.values() for point in cells})
    chance = random.Random(seed)
    # The environment of each trial, and the trials that were a new best.
    seen, held = [], []

    def objective(trial):
        environment = tuple(trial.suggest_categorical(*pair) for pair in zip(grid.ENVIRONMENT, settings))
        seen.append(environment)
        choices, times = {}, []
        for point in points:
            cells = recorded[environment][point]
            names = [f"{axis} {point[0]} {point[1]}" for axis in AXES]
            choices[point] = tuple(trial.suggest_categorical(*pair) for pair in zip(names, grid.axes(cells)))
            times.append(grid.draw(chance, cells, choices[point]))
        if None in times:
            raise optuna.TrialPruned
        score = statistics.geometric_mean(times)
        if not held or score < held[-1][0]:
            held.append((score, len(seen), environment, choices))
        return score

    trials = {budget: budget // len(points) for budget in ENVIRONMENT_BUDGETS}
    optuna.create_study(sampler=sampler(seed)).optimize(objective, n_trials=max(trials.values()))
    return [row for budget, most in trials.items() for row in held_rows(seen[:most], held, budget, seed)]


def held_rows(seen, held, budget, seed):
    """What was held after each new best within the trials seen, and once more at the end, with what was spent by then."""
    within = [entry for entry in held if entry[1] <= len(seen)]
    for step, (_, trial, environment, choices) in enumerate(within + within[-1:]):
        spent = seen[:trial] if step < len(within) else seen
        starts = 1 + sum(before != after for before, after in zip(spent, spent[1:]))
        for point, choice in choices.items():
            yield ("TPE (Optuna)", budget, seed, step, len(set(spent)), starts, *environment, *point, *choice)


def main(arguments):
    if len(arguments) not in (2, 3) or arguments[0] not in ("points", "environments"):
        sys.exit(__doc__)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    mode, path = arguments[:2]
    seeds = range(int(arguments[2]) if len(arguments) == 3 else 20)
    if mode == "points":
        header = "contestant,variant,budget,seed,collective,bytes,algorithm,protocol,channels"
        play = play_points
    else:
        header = "contestant,budget,seed,step,environments,starts," + ",".join(grid.ENVIRONMENT)
        header += ",collective,bytes,algorithm,protocol,channels"
        play = play_environments
    print(header)
    with ProcessPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for rows in pool.map(play, [(path, seed) for seed in seeds]):
            for row in rows:
                print(*row, sep=",")


if __name__ == "__main__":
    main(sys.argv[1:])
