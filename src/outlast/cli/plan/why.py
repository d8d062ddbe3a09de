"""`outlast why RUN_URL`: where the time and money of a run went, and what to change first."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter

from outlast._base.durations import format_duration
from outlast.capacity.planning.attempt_price import RunPrice, price_attempts, unpriced_notes
from outlast.capacity.planning.why import (
    SuggestedChange,
    TimeAndCost,
    TimeBreakdown,
    best_change,
    cost_breakdown,
    total_amount,
)
from outlast.capacity.pricing.prices import parse_amount
from outlast.capacity.vocabulary import Tier
from outlast.cli.option_types import WholeNumber
from outlast.cli.plan.journals import open_journal_with_warning
from outlast.cli.plan.prices import warn_if_stale
from outlast.cli.printing import Format, print_table, say, say_json
from outlast.errors import OutlastError
from outlast.journal.attempt import Ending
from outlast.journal.derive import AttemptSummary
from outlast.journal.run_journal import RunJournal
from outlast.measured import attempt_uses, node_count, time_breakdown

if TYPE_CHECKING:
    from outlast.capacity.workload.file import Workload


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WhyFlags:
    """What the run used and cost."""

    workload: Path | None = None
    """Workload file of the run, for its machine price and number of nodes."""
    tier: Tier | None = None
    """Tier the run used, for the price. Default: the tier in --workload, or chosen by the rules."""
    price: str | None = None
    """Price per node and hour, such as 2.12, instead of the price from --workload."""
    currency: str | None = None
    """Currency of --price. Default: USD."""
    nodes: WholeNumber | None = None
    """Number of nodes of the run. Default: as in the workload file, or 1."""
    today: date | None = None
    """Date to use as today, for reproducible output."""
    format: Format = Format.TEXT
    """Output format."""


_DEFAULTS = WhyFlags()


def why(url: str, /, *, flags: WhyFlags = _DEFAULTS) -> None:
    """Show where the time and money of a run went, attempt by attempt.

    Parameters
    ----------
    url: str
        The run: a folder, or a URL such as gs://bucket/run.
    """
    _check(flags)
    described = None if flags.workload is None else _read(flags.workload)
    nodes = node_count(flags.nodes, described)
    journal = open_journal_with_warning(url)
    rate = _rate(flags, described, journal)
    spent = time_breakdown(journal)
    cost = _run_cost(spent, rate, nodes)
    parts = cost_breakdown(spent, price=rate.exact if rate else None, nodes=nodes)
    change = best_change(spent)
    if flags.format is Format.JSON:
        say_json(_as_json(journal, parts, change, cost), indent=2)
        return
    _print_parts(journal, parts, cost)
    _print_attempts(journal)
    _print_change(change)


def _read(file: Path) -> "Workload":
    # Needs packages that the rest of this command does without.
    from outlast.capacity.workload.file import Workload

    return Workload.read(file)


def _check(flags: WhyFlags) -> None:
    if flags.tier is not None and (flags.workload is None or flags.price is not None):
        raise OutlastError("--tier requires --workload, and cannot be combined with --price.")
    if flags.currency is not None and flags.price is None:
        raise OutlastError("--currency requires --price.")


def _amount(price: str) -> Decimal:
    try:
        return parse_amount(price)
    except ValueError as error:
        raise OutlastError(f"--{error}") from None


@dataclass(frozen=True, kw_only=True)
class _RunCost:
    """The cost of a run, between `low` and `high`, and its mean price if that is known."""

    low: Decimal
    high: Decimal | None
    price: Decimal | None
    currency: str

    @property
    def text(self) -> str:
        if self.high == self.low:
            return f"{self.low} {self.currency}"
        if self.high is None:
            return f"at least {self.low} {self.currency}"
        return f"{self.low} to {self.high} {self.currency}"


def _run_cost(spent: TimeBreakdown, rate: RunPrice | None, nodes: int) -> _RunCost | None:
    if rate is None:
        return None
    low = total_amount(cost_breakdown(spent, price=rate.low, nodes=nodes))
    high = total_amount(cost_breakdown(spent, price=rate.high, nodes=nodes))
    assert low is not None
    return _RunCost(low=low, high=high, price=rate.exact, currency=rate.currency)


def _rate(flags: WhyFlags, workload: "Workload | None", journal: RunJournal) -> RunPrice | None:
    """The given price or that of each attempt's machine, with warnings if it is uncertain."""
    if flags.price is not None:
        amount = _amount(flags.price)
        return RunPrice(low=amount, high=amount, currency=flags.currency or "USD")
    if workload is None:
        return None
    uses = attempt_uses(journal)
    found = price_attempts(uses, workload, tier=flags.tier)
    if found is None:
        for note in unpriced_notes(uses, workload, tier=flags.tier):
            _warn(f"{note} Supply a price with --price.")
        return None
    for note in found.notes:
        _warn(note)
    if found.exact is None:
        _warn("Use --tier or --price for an exact cost.")
    warn_if_stale(found.rows, today=flags.today or datetime.now(UTC).date())
    return found


def _warn(sentence: str) -> None:
    say(f"warning: {sentence}", file=sys.stderr)


def _print_parts(journal: RunJournal, parts: Sequence[TimeAndCost], cost: _RunCost | None) -> None:
    total_seconds = journal.summary.total_seconds
    state = "finished" if journal.summary.finished else "not finished"
    say(f"{journal.url}: {state}. Total time: {format_duration(total_seconds)}.", end="")
    if cost is not None:
        price = "" if cost.price is None else f" ({_per_hour(cost.price)} per node-hour)"
        say(f" Cost: {cost.text}{price}.", end="")
    if uncertain := journal.summary.uncertain_seconds:
        say(
            f" Uncertain by up to {format_duration(uncertain)}: a killed attempt does not record "
            "its end.",
            end="",
        )
    say("\n")
    rows = [
        (
            part.name,
            format_duration(part.seconds),
            f"{part.share:.1%}",
            "-" if part.amount is None or cost is None else f"{part.amount} {cost.currency}",
        )
        for part in parts
    ]
    print_table(("spent on", "time", "share", "cost"), rows)


def _per_hour(price: Decimal) -> str:
    """A price as in the table, or the mean of several to the fourth digit."""
    digits = price.as_tuple().exponent
    return f"{price:.4f}" if isinstance(digits, int) and digits < -9 else f"{price:f}"


def _print_attempts(journal: RunJournal) -> None:
    step_seconds = journal.summary.step_seconds or 0.0
    attempts = journal.summary.attempts
    rows = []
    for index, attempt in enumerate(attempts):
        following = attempts[index + 1].waited_seconds if index + 1 < len(attempts) else None
        grace = attempt.grace
        lost = format_duration(attempt.steps_lost * step_seconds + attempt.unrecorded_seconds)
        rows.append(
            (
                str(attempt.attempt),
                attempt.ending.value,
                format_duration(attempt.seconds),
                f"{attempt.steps_lost:,} steps, {lost}",
                format_duration(grace.used_seconds) if grace else "-",
                format_duration(grace.given_seconds) if grace else "-",
                "-" if following is None else format_duration(following),
            )
        )
    say()
    head = ("attempt", "ending", "duration", "lost", "grace used", "grace given", "next wait")
    print_table(head, rows, words=2)


def _print_change(change: SuggestedChange | None) -> None:
    if change is None:
        say("\nNo single change would have saved more than 1% of the time.")
        return
    saved = format_duration(change.seconds)
    say(f"\nSuggested change: {change.text} This would have saved about {saved}.")


def _as_json(
    journal: RunJournal,
    parts: Sequence[TimeAndCost],
    change: SuggestedChange | None,
    cost: _RunCost | None,
) -> dict[str, object]:
    is_exact = cost is not None and cost.price is not None
    return {
        "url": journal.url,
        "finished": journal.summary.finished,
        "total_seconds": journal.summary.total_seconds,
        "uncertain_seconds": journal.summary.uncertain_seconds,
        # Null if it is not exactly known; then it is between the other two.
        "cost": str(cost.low) if cost is not None and is_exact else None,
        "cost_min": None if cost is None else str(cost.low),
        "cost_max": None if cost is None or cost.high is None else str(cost.high),
        "currency": None if cost is None else cost.currency,
        "price_per_hour": None if cost is None or cost.price is None else _per_hour(cost.price),
        "lines_garbled": journal.summary.lines_garbled,
        "events_dropped": journal.summary.events_dropped,
        "parts": [
            {
                "name": part.name,
                "seconds": part.seconds,
                "share": part.share,
                "cost": None if part.amount is None else str(part.amount),
            }
            for part in parts
        ],
        "attempts": [_attempt_json(attempt) for attempt in journal.summary.attempts],
        "change": change and {"text": change.text, "seconds": change.seconds},
    }


def _attempt_json(attempt: AttemptSummary) -> dict[str, object]:
    return {
        "attempt": attempt.attempt,
        "ending": attempt.ending.value,
        "is_interruption": attempt.ending in (Ending.ANNOUNCED, Ending.KILLED),
        "seconds": attempt.seconds,
        "steps_lost": attempt.steps_lost,
        "waited_seconds": attempt.waited_seconds,
        "grace_used_seconds": attempt.grace.used_seconds if attempt.grace else None,
        "grace_given_seconds": attempt.grace.given_seconds if attempt.grace else None,
    }
