"""Tests of ratio.py and of the examples in it: python3 benches/nccl-tests/ratio_test.py"""

import contextlib
import doctest
import io
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ratio  # noqa: E402


def load_tests(_loader, tests, _pattern):
    tests.addTests(doctest.DocTestSuite(ratio))
    return tests


def times(factor, noise, count=15, seed=1):
    """Pairs whose first is `factor` times as slow, each with its own noise and a mood that both share."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        mood = draw.lognormvariate(0, 0.3)
        pairs.append(tuple(100 * f * mood * draw.lognormvariate(0, noise) for f in (factor, 1)))
    return pairs


def table(points, kinds=("gdrtune", "nccl-tests")):
    lines = ["kind,ranks,pair,bytes,time_us"]
    for (ranks, size), pairs in points.items():
        for number, pair in enumerate(pairs):
            lines += [f"{kind},{ranks},{number},{size},{us}" for kind, us in zip(kinds, pair)]
    return lines


def run(lines, *options):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            rc = ratio.main([file.name, *options])
    return rc, out.getvalue(), err.getvalue()


class Interval(unittest.TestCase):
    def test_is_reproducible_and_holds_the_ratio(self):
        pairs = times(1.2, 0.05)
        low, high = ratio.interval(pairs, "7")
        self.assertEqual((low, high), ratio.interval(pairs, "7"))
        self.assertLess(low, high)
        self.assertLessEqual(low, ratio.ratio_of_medians(pairs))
        self.assertGreaterEqual(high, ratio.ratio_of_medians(pairs))

    def test_pairs_are_drawn_together(self):
        # Both of a pair share a factor of 1 to 15: apart they would give any ratio, together always 2.
        pairs = [(2.0 * mood, 1.0 * mood) for mood in range(1, 16)]
        self.assertEqual(ratio.interval(pairs, "0"), (2.0, 2.0))

    def test_covers_the_truth_about_as_often_as_it_says(self):
        hits = 0
        for seed in range(60):
            low, high = ratio.interval([(100 + random.Random(seed * 99 + i).gauss(0, 5), 100) for i in range(15)], seed)
            hits += low <= 1 <= high
        self.assertGreaterEqual(hits, 48, "80 % of 60, for a 90 % interval")
        self.assertLess(hits, 60, "an interval that always holds it is too wide")


class Verdicts(unittest.TestCase):
    def test_equal_is_same_and_slower_is_different(self):
        points = {(2, 1024): times(1.1, 0.02), (4, 1 << 20): times(1.1, 0.005)}
        rc, out, _ = run(table(points))
        self.assertEqual(rc, 1)
        self.assertEqual([line.split()[-1] for line in out.splitlines()[1:]], ["same", "DIFFERENT"])
        rc, _, _ = run(table({(2, 1024): times(1.1, 0.02)}))
        self.assertEqual(rc, 0)

    def test_the_bands_can_be_narrower(self):
        points = {(2, 1024): times(1.1, 0.001), (2, 1 << 20): times(1.03, 0.001)}
        verdicts = lambda out: [line.split()[-1] for line in out.splitlines()[1:]]  # noqa: E731
        self.assertEqual(verdicts(run(table(points))[1]), ["same", "same"])
        for bands, expected in [(("0.02", "0.2"), ["same", "DIFFERENT"]), (("0.2", "0.05"), ["DIFFERENT", "same"])]:
            rc, out, _ = run(table(points), "--bands", *bands)
            self.assertEqual((rc, verdicts(out)), (1, expected))

    def test_noise_is_undecidable_and_no_failure(self):
        draw = random.Random(3)
        noise = [(100 * draw.lognormvariate(0, 1), 100 * draw.lognormvariate(0, 1)) for _ in range(15)]
        rc, out, _ = run(table({(4, 4 << 20): noise}))
        self.assertEqual(rc, 0)
        self.assertTrue(out.rstrip().endswith("undecidable"), out)

    def test_few_pairs_decide_nothing(self):
        for count, verdict in [(4, "undecidable"), (5, "DIFFERENT")]:
            _, out, _ = run(table({(2, 1024): times(2, 0.01, count=count)}))
            self.assertTrue(out.rstrip().endswith(verdict), out)

    def test_a_speed_up_is_no_failure(self):
        points = {(4, 65536): times(1.9, 0.05), (4, 1 << 20): times(0.7, 0.01), (4, 2 << 20): times(1.0, 0.3)}
        rc, out, _ = run(table(points, ("default", "tuned")), "--mode", "speedup", "--arms", "default", "tuned")
        self.assertEqual(rc, 0)
        self.assertEqual([line.split()[-1] for line in out.splitlines()[1:]], ["faster", "slower", "-"])


class Files(unittest.TestCase):
    def test_what_cannot_be_used_says_why_and_where(self):
        good = table({(2, 1024): times(1.0, 0.1, count=6)})
        for lines, reason in [
            (["kind,ranks,pair,bytes"], "line 1: no column time_us"),
            ([good[0]], "no times"),
            (good[:2], "2 ranks, 1024 bytes: no pair"),
            ([*good, "other,2,1,1024,5"], "line 14: kind 'other'"),
            ([*good, "gdrtune,2,1,1024,5"], "line 14: gdrtune has another time for pair 1"),
            ([*good, "gdrtune,2,x,1024,5"], "line 14: invalid literal"),
            ([*good, "gdrtune,2,9,1024,nan"], "line 14: time_us is nan"),
            ([*good, "gdrtune,2,9,1024"], "line 14: "),
        ]:
            rc, out, err = run(lines)
            self.assertEqual((rc, out), (2, ""), lines)
            self.assertIn(reason, err)

    def test_a_pair_without_its_second_is_left_out(self):
        good = table({(2, 1024): times(1.0, 0.1, count=6)})
        rc, out, _ = run([*good, "gdrtune,2,9,1024,5"])
        self.assertEqual(rc, 0)
        self.assertEqual(out.splitlines()[1].split()[:3], ["2", "1024", "6"])


if __name__ == "__main__":
    unittest.main()
