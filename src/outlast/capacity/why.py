"""Where the time and the money of a run went, and the one change worth most.

Pure: plain numbers in, figures and sentences out. The parts add up to the whole time; what the
journal does not explain is shown as such, not spread over the rest.
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
"""What a start takes at best: the machine is there, the image is cached, loading is quick."""

WAIT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """The seconds of a run from its first start to its last event, by what they went into.

    `save_seconds` is what one save takes from the loop, `losses` how many interruptions cost work,
    `missed_seconds` the work lost although there had been a notice.
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
        """With a machine, and so paid for."""
        return max(0.0, self.total_seconds - self.waiting_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of the time. `amount` is what it cost; None without a price."""

    name: str
    seconds: float
    share: float
    amount: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Something to change, and about how much time it would have spared."""

    text: str
    seconds: float


def parts_of(spent: Spent, *, price: Decimal | None = None, nodes: int = 1) -> list[Part]:
    """The whole time, part by part. `price` is per hour and node; waiting is not paid for."""
    total = spent.total_seconds
    named = (
        ("work", spent.work_seconds),
        ("work done again", spent.redone_seconds),
        ("saves", spent.saving_seconds),
        ("starting", spent.starting_seconds),
        ("leaving", spent.leaving_seconds),
        ("unexplained", spent.unexplained_seconds),
        ("waiting", spent.waiting_seconds),
    )
    return [
        Part(
            name=name,
            seconds=seconds,
            share=seconds / total if total > 0 else 0.0,
            amount=_amount(0.0 if name == "waiting" else seconds, price, nodes),
        )
        for name, seconds in named
    ]


def best_change(spent: Spent) -> Change | None:
    """The change that would have spared most time; None if nothing is worth a change."""
    worth = [change for change in _changes(spent) if change.seconds > 0.01 * spent.total_seconds]
    return max(worth, key=lambda change: change.seconds, default=None)


def _changes(spent: Spent) -> Iterator[Change]:
    yield from _about_interval(spent)
    if spent.missed_seconds > 0:
        yield Change(
            text="Make the final save fit into the grace period: a longer shutdown window, a "
            "smaller checkpoint or faster storage. Notices came, but the work was lost.",
            seconds=spent.missed_seconds,
        )
    starts = spent.interruptions + 1
    yield Change(
        text="Start faster: a smaller or cached image, and quicker loading of data and "
        f"checkpoints. A start takes {format_duration(spent.starting_seconds / starts)}.",
        seconds=spent.starting_seconds - starts * START_SECONDS,
    )
    if spent.interruptions:
        mean = spent.waiting_seconds / spent.interruptions
        yield Change(
            text="Wait less for machines: `tier: hybrid` falls back when there is no Spot, and "
            "a Job's growing back-off adds up to 10 min after each eviction. A wait takes "
            f"{format_duration(mean)}.",
            seconds=spent.waiting_seconds - spent.interruptions * WAIT_SECONDS,
        )


def _about_interval(spent: Spent) -> Iterator[Change]:
    if not spent.saves or spent.save_seconds <= 0 or spent.work_seconds <= 0:
        return
    if spent.losses:
        mean = spent.running_seconds / spent.losses
        lost = f"work was lost every {format_duration(mean)}"
    else:
        # That none was lost so far does not mean that none ever will be.
        observed = Observed(running_seconds=spent.running_seconds)
        mean = mean_between_losses(IntervalPolicy(), observed)
        lost = f"no work was lost in {format_duration(spent.running_seconds)}"
    best = best_interval(spent.save_seconds, mean)
    share = useful_share(best, save_seconds=spent.save_seconds, mean_seconds=mean)
    least = spent.work_seconds * (1 / share - 1) if share > 0 else math.inf
    done = spent.work_seconds + spent.redone_seconds
    word = "more" if best < done / spent.saves else "less"
    yield Change(
        text=f"Save {word} often: after every {format_duration(best)} of work. A save costs "
        f"{format_duration(spent.save_seconds)}, and {lost}.",
        seconds=spent.saving_seconds + spent.redone_seconds - least,
    )


def _amount(seconds: float, price: Decimal | None, nodes: int) -> Decimal | None:
    if price is None:
        return None
    amount = Decimal(repr(seconds)) / 3600 * price * nodes
    return amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)


def total_amount(parts: Sequence[Part]) -> Decimal | None:
    """What all parts cost together."""
    amounts = [part.amount for part in parts]
    if any(amount is None for amount in amounts):
        return None
    return sum((amount for amount in amounts if amount is not None), Decimal(0))
