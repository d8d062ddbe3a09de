"""The runtime's interval for many runs at once: the arithmetic of `_base.interval` on arrays.

Pure. The replay of a trace asks for the interval of a thousand runs together, and one call for each
would take minutes. The bounds are asked of the runtime's own function, so that this one cannot
differ from it; a test holds the two against each other, number for number.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.capacity.interruptions import Floats

# As in `_base.interval`: below and above these, the closed forms are exact.
_RATIO_TINY = 1e-8
_RATIO_HUGE = 30.0
# Below this, Daly's value is so near that half of the rounds suffice.
_RATIO_SMALL = 0.2
_NEWTON_ROUNDS = 6


class IntervalRule:
    """The automatic interval of a policy, for saves of one cost."""

    def __init__(self, policy: IntervalPolicy, cost: SaveCost) -> None:
        if not policy.is_automatic:
            raise ValueError("A policy with a fixed interval has nothing to work out.")
        self.policy = policy
        self._cost_seconds = cost.loop_seconds
        self._least = _chosen(policy, cost, Observed(running_seconds=0.0, unannounced=10**15))
        self._most = _chosen(policy, cost, Observed(running_seconds=1e18))

    def after(self, *, running_seconds: ArrayLike, losses: ArrayLike) -> Floats:
        """The interval once `losses` interruptions have cost work, in so much running."""
        policy = self.policy
        count = policy.prior_weight * policy.prior_unannounced_share + np.asarray(losses, float)
        seconds = policy.prior_weight * policy.prior_mean_seconds + np.asarray(running_seconds)
        mean = np.divide(seconds, count, out=np.full(count.shape, math.inf), where=count > 0)
        return np.clip(best_intervals(self._cost_seconds, mean), self._least, self._most)


def best_intervals(save_seconds: ArrayLike, mean_seconds: ArrayLike) -> Floats:
    """The interval that keeps most work under random interruptions, for each mean time."""
    save, mean = np.broadcast_arrays(
        np.asarray(save_seconds, float), np.asarray(mean_seconds, float)
    )
    ratio = save / mean
    if _RATIO_TINY < ratio.min(initial=1.0) and ratio.max(initial=0.0) < _RATIO_SMALL:
        small = _newton(_daly(ratio), ratio, rounds=_NEWTON_ROUNDS // 2)
        return np.asarray(small * mean, float)
    known = np.clip(ratio, _RATIO_TINY, _RATIO_HUGE)
    x = np.where(known < 2, _daly(known), 1 - np.exp(-1 - known))
    x = _newton(x, known, rounds=_NEWTON_ROUNDS)
    with np.errstate(invalid="ignore"):
        found = np.where(ratio < _RATIO_TINY, _daly(ratio) * mean, x * mean)
    found = np.where(ratio > _RATIO_HUGE, mean, found)
    return np.where(np.isinf(mean), np.where(save > 0, math.inf, 0.0), found)


def _newton(x: Floats, ratio: Floats, *, rounds: int) -> Floats:
    """Newton's method on log(1 - x) + x + ratio = 0, where x is the interval over the mean time."""
    for _ in range(rounds):
        x = x + (1 - x) / x * (np.log1p(-x) + x + ratio)
    return x


def _daly(ratio: Floats) -> Floats:
    """Daly's interval over the mean time, for a save's cost over the mean time below 2."""
    half = ratio / 2
    return np.sqrt(2 * ratio) * (1 + np.sqrt(half) / 3 + half / 9) - ratio


def _chosen(policy: IntervalPolicy, cost: SaveCost, observed: Observed) -> float:
    seconds = choose_interval(policy, cost=cost, observed=observed).seconds
    assert seconds is not None
    return seconds
