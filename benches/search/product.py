#!/usr/bin/env python3
"""product.py GDRTUNE GRID.csv [SEEDS]: the picks of `gdrtune tune --engine replay`, as CSV for `search_rivals score`

Runs the program once for each budget and seed, as a user would, and takes choices.json for its picks. SEEDS (20); JOBS (all
cores) at a time. Exit 1 where a run fails.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BUDGETS = (750, 1500, 2250, 3000, 3750, 5250, 6750)
# Verification found nothing to ship, or a failed trial: the search's picks are there all the same.
FINE = (0, 5, 100)


def rows(text, budget, seed):
    """Rows of a choices.json; points without a choice have none."""
    for pick in json.loads(text):
        choice = pick["choice"]
        if choice is not None:
            point = pick["collective"], pick["bytes"]
            yield ("ours", "product", budget, seed, *point, choice["algorithm"], choice["protocol"], choice["channels"])


def play(job):
    program, path, budget, seed = job
    with tempfile.TemporaryDirectory(prefix="gdrtune-search-") as folder:
        out = Path(folder, "out")
        command = [program, "tune", "--engine", "replay", "--grid", path, "--trials", str(budget), "--seed", str(seed)]
        environment = os.environ | {"GDRTUNE_STATE_DIR": str(Path(folder, "state"))}
        run = subprocess.run([*command, "--headless", "--out", str(out)], env=environment, capture_output=True, text=True)
        if run.returncode not in FINE:
            raise RuntimeError(f"{' '.join(command)} ended {run.returncode}:\n{run.stderr}")
        return list(rows((out / "choices.json").read_text(), budget, seed))


def main(arguments):
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    program, path = arguments[:2]
    seeds = range(int(arguments[2]) if len(arguments) == 3 else 20)
    print("contestant,variant,budget,seed,collective,bytes,algorithm,protocol,channels")
    jobs = [(program, path, budget, seed) for budget in BUDGETS for seed in seeds]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        for picks in pool.map(play, jobs):
            for row in picks:
                print(*row, sep=",")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RuntimeError as error:
        sys.exit(f"product.py: {error}")
