"""Checks stats.py against values worked out by hand and the published table of ranks."""

import random
import unittest

from stats import median_interval, paired_ratios


class MedianInterval(unittest.TestCase):
    def test_ranks_are_those_of_the_published_table(self):
        # Ranks of the 95 % interval of a median (any text on order statistics): n -> lower, upper.
        for count, low, high in ((6, 1, 6), (10, 2, 9), (20, 6, 15), (30, 10, 21), (40, 14, 27)):
            got = median_interval(list(range(1, count + 1)))
            self.assertEqual((got.low, got.high), (low, high), count)
            self.assertGreaterEqual(got.coverage, 0.95)

    def test_few_values_say_how_little_they_cover(self):
        got = median_interval([3, 1, 2])
        self.assertEqual((got.low, got.median, got.high), (1, 2, 3))
        self.assertAlmostEqual(got.coverage, 0.75)
        self.assertEqual(median_interval([7]).coverage, 0.0)

    def test_no_values_is_an_error(self):
        with self.assertRaises(ValueError):
            median_interval([])

    def test_covers_the_true_median_as_often_as_it_says(self):
        chance = random.Random(1)
        hits = 0
        for _ in range(2000):
            got = median_interval([chance.gauss(1.0, 0.1) for _ in range(30)])
            hits += got.low <= 1.0 <= got.high
        self.assertGreater(hits / 2000, 0.94)
        self.assertLess(hits / 2000, 0.98)


class PairedRatios(unittest.TestCase):
    def test_slices_that_miss_one_side_are_left_out(self):
        slices = [
            {"a": {"cpu": 3.0}, "b": {"cpu": 2.0}},
            {"a": {"cpu": 3.0}},
            {"b": {"cpu": 2.0}},
            {"a": {"cpu": 1.0}, "b": {"cpu": 4.0}},
        ]
        self.assertEqual(paired_ratios(slices, "a", "b", "cpu"), [1.5, 0.25])


if __name__ == "__main__":
    unittest.main(argv=["stats_test"])
