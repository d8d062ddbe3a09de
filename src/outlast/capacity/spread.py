"""How values spread, told from a stream of them in a memory that does not grow.

Pure. Values are counted in bins whose width is a thousandth of the value, and taken to lie evenly
in each, so that a quantile is right to within that; the mean, the least and the greatest are exact.
"""

import math
from collections.abc import Iterable

import numpy as np

from outlast.capacity.interruptions import Floats

_BINS_PER_UNIT = 1000
_LEAST = 1e-6
_BINS = _BINS_PER_UNIT * 50


class Spread:
    """Values from zero up, seen one array at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.least = math.inf
        self.greatest = 0.0
        self._total = 0.0
        self._squares = 0.0
        self._bins = np.zeros(_BINS, np.int64)

    def add(self, values: Floats) -> None:
        if not values.size:
            return
        self.count += values.size
        self.least = min(self.least, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))
        self._total += float(values.sum())
        self._squares += float(values @ values)
        places = np.log(np.maximum(values, _LEAST) / _LEAST) * _BINS_PER_UNIT
        self._bins += np.bincount(np.minimum(places.astype(np.int64), _BINS - 1), minlength=_BINS)

    @property
    def mean(self) -> float:
        if self.least == self.greatest:
            # Adding up equal values would round them.
            return self.least
        return self._total / self.count

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(0.0, self._squares / self.count - (self._total / self.count) ** 2))

    def quantile(self, share: float) -> float:
        """The value that so many of all do not exceed."""
        seen = np.cumsum(self._bins)
        place = int(np.searchsorted(seen, share * self.count, side="left"))
        above = share * self.count - int(seen[place]) + int(self._bins[place])
        part = above / max(1, int(self._bins[place]))
        low = max(_LEAST * math.exp(place / _BINS_PER_UNIT), self.least)
        high = min(_LEAST * math.exp((place + 1) / _BINS_PER_UNIT), self.greatest)
        return min(max(low + part * (high - low), self.least), self.greatest)

    def histogram(self, edges: Iterable[float]) -> list[int]:
        """How many values lie between each two of these edges, to within the width of a bin."""
        bounds = np.log(np.maximum(np.fromiter(edges, float), _LEAST) / _LEAST) * _BINS_PER_UNIT
        seen = np.concatenate([[0], np.cumsum(self._bins)])
        places = np.clip(np.rint(bounds).astype(np.int64), 0, _BINS)
        return [int(count) for count in np.diff(seen[places])]
