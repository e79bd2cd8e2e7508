"""Tests of table.py, of the rivals' helpers and of the examples in them: python3 benches/search/table_test.py"""

import doctest
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grid  # noqa: E402
import product  # noqa: E402
import table  # noqa: E402


def load_tests(_loader, tests, _pattern):
    tests.addTests(doctest.DocTestSuite(table))
    return tests


def rows(name, variants, budget=1500):
    keys = "contestant", "variant", "budget", "seed", "regret"
    for variant, values in variants.items():
        for seed, regret in enumerate(values):
            yield dict(zip(keys, (name, variant, str(budget), str(seed), str(regret))))


class Regret(unittest.TestCase):
    def chosen(self):
        regret = [*rows("ours", {"product": [0.03, 0.05]}), *rows("rival", {"a": [0.02, 0.04], "b": [0.06, 0.08]})]
        regret += rows("oracle: close", {"": [0.01, 0.01]})
        return table.choose(table.group(regret), table.group(rows("rival", {"a": [0.5], "b": [0.1]})))

    def test_settings_are_chosen_by_the_tuning_seeds(self):
        self.assertEqual(self.chosen()["rival", 1500], ("b", [0.06, 0.08]))
        itself = table.group(rows("rival", {"a": [0.02], "b": [0.06]}))
        self.assertEqual(table.choose(itself, {})["rival", 1500][0], "a")

    def test_the_lead_is_over_the_best_rival_and_never_over_a_floor(self):
        ((budget, rival, lead, error),) = table.ahead(self.chosen())
        self.assertEqual((budget, rival), (1500, "rival"))
        self.assertAlmostEqual(lead, 0.03)
        self.assertAlmostEqual(error, (0.01**2 + 0.01**2) ** 0.5)
        (line,) = table.verdicts(self.chosen(), table.GOALS)
        self.assertIn("first, 3.00 ± 1.41 points ahead of rival; goal 4.50 %: met with 4.00 %", line)
        self.assertNotIn("NOT", line)

    def test_the_first_is_bold_and_floors_come_last(self):
        lines, best = table.regret_table(self.chosen())
        self.assertEqual(best, {1500: "ours"})
        self.assertEqual([line.split("|")[1].strip() for line in lines[2:]], ["ours", "rival", "oracle: close"])
        self.assertIn("**4.00 ± 1.00**", lines[2])

    def test_being_behind_or_hardly_ahead_is_said(self):
        for theirs, want in (([0.05, 0.05], "NOT first"), ([0.05, 0.12], "first by less than the standard error")):
            regret = [*rows("ours", {"": [0.08, 0.08]}), *rows("rival", {"": theirs})]
            (line,) = table.verdicts(table.choose(table.group(regret), {}), table.GOALS)
            self.assertIn(f": {want}, ", line)
            self.assertIn("missed", line)


class Environments(unittest.TestCase):
    def test_never_found_counts_as_later_than_all(self):
        keys = "contestant", "budget", "seed", "found_after", "environments", "starts", "gap", "environment_gap"
        runs = [("auto", "2000", "0", "4", "9", "12", "0.01", "0.01"), ("auto", "2000", "1", "", "9", "14", "0.05", "0.0")]
        runs.append(("auto", "2000", "2", "8", "9", "10", "0.03", "0.02"))
        (line,) = table.environment_table([dict(zip(keys, run)) for run in runs])[2:]
        self.assertTrue(line.startswith("| 2,000 | auto | 2 of 3 | 8 | 1 of 3 | 9.0 | 12.0 | 3.00 ± "), line)
        self.assertIn(" | 1.00 ± ", line)


class Helpers(unittest.TestCase):
    def test_a_grid_is_read_without_its_default_rows(self):
        text = "repeat,collective,bytes,algorithm,protocol,channels,mean_us\n"
        text += "0,allreduce,8,ring,ll,1,5.5\n1,allreduce,8,ring,ll,1,6.5\n0,allreduce,8,default,default,0,1\n"
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            cells = grid.load(file.name)[()]["allreduce", 8]
        self.assertEqual(cells, {("ring", "ll", 1): [5.5, 6.5]})
        self.assertEqual(grid.axes(cells), [["ring"], ["ll"], [1]])
        drawn = {grid.draw(random.Random(seed), cells, ("ring", "ll", 1)) for seed in range(20)}
        self.assertEqual(drawn, {5.5, 6.5})
        self.assertIsNone(grid.draw(random.Random(0), cells, ("tree", "ll", 1)))

    def test_choices_become_rows(self):
        text = """[{"collective": "allreduce", "bytes": 8, "median_us": 5.0, "samples": 2,
            "choice": {"algorithm": "tree", "protocol": "ll", "channels": 2}},
            {"collective": "alltoall", "bytes": 8, "choice": null, "median_us": 5.0, "samples": 2}]"""
        want = [("ours", "product", 750, 3, "allreduce", 8, "tree", "ll", 2)]
        self.assertEqual(list(product.rows(text, 750, 3)), want)


if __name__ == "__main__":
    unittest.main()
