"""Where the time and money of a run went, and the change that would save the most.

Pure: plain numbers in, a breakdown and sentences out. The parts add up to the total time; what the
journal does not explain is shown separately.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from outlast._base.durations import format_duration
from outlast._base.interval import (
    IntervalPolicy,
    Observed,
    best_interval,
    mean_between_losses,
    useful_share,
)

START_SECONDS = 60.0
"""The time for a start at best: with a machine, a cached image and fast loading."""

WAIT_SECONDS = 60.0
SAVE_SECONDS_MIN = 1e-6
"""A shorter save was not really measured, so no interval follows from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeBreakdown:
    """How the seconds of a run were spent, from its first start to its last event.

    `save_seconds` is how long one save blocks the loop, `losses` the number of interruptions that
    lost work, `missed_seconds` the work lost despite a notice.
    """

    total_seconds: float
    work_seconds: float
    redone_seconds: float
    saving_seconds: float
    starting_seconds: float
    waiting_seconds: float
    leaving_seconds: float
    interruptions: int
    losses: int
    saves: int
    save_seconds: float
    missed_seconds: float = 0.0

    @property
    def unexplained_seconds(self) -> float:
        known = (
            self.work_seconds
            + self.redone_seconds
            + self.saving_seconds
            + self.starting_seconds
            + self.waiting_seconds
            + self.leaving_seconds
        )
        return max(0.0, self.total_seconds - known)

    @property
    def running_seconds(self) -> float:
        """Time with a machine, which is paid for."""
        return max(0.0, self.total_seconds - self.waiting_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeAndCost:
    """A part of the time and its cost, `amount`, which is None without a price."""

    name: str
    seconds: float
    share: float
    amount: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestedChange:
    """A suggested change, and about how much time it would have saved."""

    text: str
    seconds: float


def cost_breakdown(
    spent: TimeBreakdown, *, price: Decimal | None = None, nodes: int = 1
) -> list[TimeAndCost]:
    """The total time, part by part. `price` is per hour and node; waiting costs nothing."""
    total = spent.total_seconds
    named = (
        ("work", spent.work_seconds),
        ("redone work", spent.redone_seconds),
        ("saving", spent.saving_seconds),
        ("starting", spent.starting_seconds),
        ("shutting down", spent.leaving_seconds),
        ("unexplained", spent.unexplained_seconds),
        ("waiting", spent.waiting_seconds),
    )
    return [
        TimeAndCost(
            name=name,
            seconds=seconds,
            share=seconds / total if total > 0 else 0.0,
            amount=_amount(0.0 if name == "waiting" else seconds, price, nodes),
        )
        for name, seconds in named
    ]


def best_change(spent: TimeBreakdown) -> SuggestedChange | None:
    """The change that would have saved the most time; None if none is worthwhile."""
    worth = [change for change in _changes(spent) if change.seconds > 0.01 * spent.total_seconds]
    return max(worth, key=lambda change: change.seconds, default=None)


def _changes(spent: TimeBreakdown) -> Iterator[SuggestedChange]:
    yield from _about_interval(spent)
    if spent.missed_seconds > 0:
        yield SuggestedChange(
            text="Make the final save fit into the grace period, with a longer shutdown window, a "
            "smaller checkpoint or faster storage. Work was lost despite a notice.",
            seconds=spent.missed_seconds,
        )
    starts = spent.interruptions + 1
    yield SuggestedChange(
        text="Start faster, with a smaller or cached image and faster loading of data and "
        f"checkpoints. A start takes {format_duration(spent.starting_seconds / starts)}.",
        seconds=spent.starting_seconds - starts * START_SECONDS,
    )
    if spent.interruptions:
        mean = spent.waiting_seconds / spent.interruptions
        yield SuggestedChange(
            text="Wait less for machines. `tier: hybrid` uses other capacity when Spot is "
            "unavailable; the growing backoff of a Job adds up to 10 min after each eviction. A "
            f"wait takes {format_duration(mean)}.",
            seconds=spent.waiting_seconds - spent.interruptions * WAIT_SECONDS,
        )


def _about_interval(spent: TimeBreakdown) -> Iterator[SuggestedChange]:
    if not spent.saves or spent.save_seconds < SAVE_SECONDS_MIN or spent.work_seconds <= 0:
        return
    if spent.losses:
        mean = spent.running_seconds / spent.losses
        lost = f"work was lost every {format_duration(mean)}"
    else:
        # No losses so far does not mean that there will never be one.
        observed = Observed(running_seconds=spent.running_seconds)
        mean = mean_between_losses(IntervalPolicy(), observed)
        lost = f"no work was lost in {format_duration(spent.running_seconds)}"
    best = best_interval(spent.save_seconds, mean)
    share = useful_share(best, save_seconds=spent.save_seconds, mean_seconds=mean)
    least = spent.work_seconds * (1 / share - 1) if share > 0 else math.inf
    done = spent.work_seconds + spent.redone_seconds
    word = "more" if best < done / spent.saves else "less"
    yield SuggestedChange(
        text=f"Save {word} often: after every {format_duration(best)} of work. A save takes "
        f"{format_duration(spent.save_seconds)}, and {lost}.",
        seconds=spent.saving_seconds + spent.redone_seconds - least,
    )


def _amount(seconds: float, price: Decimal | None, nodes: int) -> Decimal | None:
    if price is None:
        return None
    amount = Decimal(repr(seconds)) / 3600 * price * nodes
    return amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)


def total_amount(parts: Sequence[TimeAndCost]) -> Decimal | None:
    """The cost of all parts together."""
    amounts = [part.amount for part in parts]
    if any(amount is None for amount in amounts):
        return None
    return sum((amount for amount in amounts if amount is not None), Decimal(0))
