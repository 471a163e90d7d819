"""The little statistics the method needs: a median, and an interval for it that assumes nothing."""

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A median with the order statistics that enclose it; `coverage` is what they really cover."""

    median: float
    low: float
    high: float
    coverage: float
    count: int


def _below(count, rank):
    """Chance that at most `rank` of `count` fair coins fall heads."""
    return sum(math.comb(count, i) for i in range(rank + 1)) / 2**count


def median_interval(values, confidence=0.95):
    """Interval of the median of `values` from order statistics (binomial, exact).

    With fewer than six values no pair of them covers 95 %: the extremes are returned with the
    coverage they have, and the caller decides whether that is enough.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        raise ValueError("no values")
    rank = 0  # the interval is [ordered[rank], ordered[count - 1 - rank]]
    while rank + 1 < (count + 1) // 2 and 1 - 2 * _below(count, rank + 1) >= confidence:
        rank += 1
    return Interval(
        median=statistics.median(ordered),
        low=ordered[rank],
        high=ordered[count - 1 - rank],
        coverage=max(0.0, 1 - 2 * _below(count, rank)),
        count=count,
    )


def paired_ratios(slices, name, base, key):
    """name/base of `key` in every slice that has both; a slice is {name: {key: value}}."""
    return [
        one[name][key] / one[base][key]
        for one in slices
        if name in one and base in one and one[base][key] > 0
    ]
