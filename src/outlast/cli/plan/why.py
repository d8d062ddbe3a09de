"""`outlast why RUN_URL`: where the time and money of a run went, and what to change first."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from cyclopts import Parameter

from outlast._base.durations import format_duration
from outlast.capacity.planning.tier_rules import choose_tier_by_rule
from outlast.capacity.planning.why import (
    SuggestedChange,
    TimeAndCost,
    best_change,
    cost_breakdown,
    total_amount,
)
from outlast.capacity.pricing.prices import PriceUnknown, built_in_prices, parse_amount
from outlast.capacity.vocabulary import Tier
from outlast.capacity.workload.file import Workload
from outlast.cli.option_types import WholeNumber
from outlast.cli.plan.journals import open_journal_with_warning
from outlast.cli.plan.prices import warn_if_stale
from outlast.cli.printing import Format, print_table, say, say_json
from outlast.errors import OutlastError
from outlast.journal.attempt import Ending
from outlast.journal.derive import AttemptSummary
from outlast.measured import RunJournal, node_count, time_breakdown


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
    described = None if flags.workload is None else Workload.read(flags.workload)
    nodes = node_count(flags.nodes, described)
    journal = open_journal_with_warning(url)
    rate = _rate(flags, described)
    spent = time_breakdown(journal)
    parts = cost_breakdown(spent, price=rate.amount, nodes=nodes)
    change = best_change(spent)
    if flags.format is Format.JSON:
        say_json(_as_json(journal, parts, change, rate), indent=2)
        return
    _print_parts(journal, parts, rate)
    _print_attempts(journal)
    _print_change(change)


def _check(flags: WhyFlags) -> None:
    if flags.tier is not None and (flags.workload is None or flags.price is not None):
        raise OutlastError("--tier requires --workload, and cannot be combined with --price.")
    if flags.currency is not None and flags.price is None:
        raise OutlastError("--currency requires --price.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _NodePrice:
    """The price of one node for an hour; `amount` is None if unknown."""

    amount: Decimal | None = None
    currency: str = "USD"


def _amount(price: str) -> Decimal:
    try:
        return parse_amount(price)
    except ValueError as error:
        raise OutlastError(f"--{error}") from None


def _rate(flags: WhyFlags, workload: Workload | None) -> _NodePrice:
    """The given price or that of the workload's machine, with warnings if it is uncertain."""
    if flags.price is not None:
        return _NodePrice(amount=_amount(flags.price), currency=flags.currency or "USD")
    if workload is None:
        return _NodePrice()
    tier = flags.tier
    if tier is None or tier is Tier.AUTO:
        tier = choose_tier_by_rule(workload).tier
    bought = workload.hybrid.order[0] if tier is Tier.HYBRID else tier
    try:
        price = built_in_prices().find(workload.machine_type, workload.cluster.location, bought)
    except PriceUnknown as error:
        _warn(f"{error} Costs are not shown. Supply a price with --price.")
        return _NodePrice()
    if tier is Tier.HYBRID:
        _warn(
            f"A hybrid run may use {', '.join(workload.hybrid.order)}, and the journal does not "
            f"record which. All time is priced as {bought}. Use --tier or --price to change this."
        )
    if price.is_estimate:
        _warn(f"The {bought} price is an {price.source}.")
    warn_if_stale([price], today=flags.today or datetime.now(UTC).date())
    return _NodePrice(amount=price.amount, currency=price.currency)


def _warn(sentence: str) -> None:
    say(f"warning: {sentence}", file=sys.stderr)


def _print_parts(journal: RunJournal, parts: Sequence[TimeAndCost], rate: _NodePrice) -> None:
    total_seconds = journal.summary.total_seconds
    money = total_amount(parts)
    state = "finished" if journal.summary.finished else "not finished"
    say(f"{journal.url}: {state}. Total time: {format_duration(total_seconds)}.", end="")
    if money is not None and rate.amount is not None:
        say(f" Cost: {money} {rate.currency} ({rate.amount:f} per node-hour).", end="")
    say("\n")
    rows = [
        (
            part.name,
            format_duration(part.seconds),
            f"{part.share:.1%}",
            "-" if part.amount is None else f"{part.amount} {rate.currency}",
        )
        for part in parts
    ]
    print_table(("spent on", "time", "share", "cost"), rows)


def _print_attempts(journal: RunJournal) -> None:
    step_seconds = journal.summary.step_seconds or 0.0
    attempts = journal.summary.attempts
    rows = []
    for index, attempt in enumerate(attempts):
        following = attempts[index + 1].waited_seconds if index + 1 < len(attempts) else None
        grace = attempt.grace
        lost = format_duration(attempt.steps_lost * step_seconds)
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
    rate: _NodePrice,
) -> dict[str, object]:
    money = total_amount(parts)
    return {
        "url": journal.url,
        "finished": journal.summary.finished,
        "total_seconds": journal.summary.total_seconds,
        "cost": None if money is None else str(money),
        "currency": None if money is None else rate.currency,
        "price_per_hour": None if rate.amount is None else f"{rate.amount:f}",
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
