"""`outlast why RUN_URL`: where the time and the money of a run went, and what to change first."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.capacity.price import PriceUnknown, built_in_prices, parse_amount
from outlast.capacity.tier import choose_tier_by_rule
from outlast.capacity.vocabulary import Tier
from outlast.capacity.why import Change, Part, best_change, parts_of, total_amount
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.journals import Journal, node_count, open_journal, spent_in
from outlast.cli.prices import warn_if_stale
from outlast.cli.tables import print_table
from outlast.errors import OutlastError
from outlast.journal.attempt import Ending
from outlast.journal.derive import AttemptSummary


def why(
    url: str,
    /,
    *,
    workload: Path | None = None,
    tier: Tier | None = None,
    price: str | None = None,
    currency: str | None = None,
    nodes: int | None = None,
    today: date | None = None,
    format: Format = Format.TEXT,
) -> None:
    """Say where the time and the money of a run went, eviction by eviction.

    Parameters
    ----------
    url: str
        The run: a folder, or a URL such as gs://bucket/run.
    workload: Path
        Its workload file, for the price of its machine and the number of nodes.
    tier: Tier
        With --workload: how the machine was bought. Default: as the file or the rules say.
    price: str
        The price of a node for an hour, such as 2.12, in place of the workload's.
    currency: str
        Of --price. Default: USD.
    nodes: int
        How many nodes the run had. Default: what the workload file says, or 1.
    today: date
        The day from which the age of a price is counted. Default: today.
    format: Format
        text for people, json for programs.
    """
    if tier is not None and (workload is None or price is not None):
        raise OutlastError("--tier goes with --workload, and not with --price.")
    if currency is not None and price is None:
        raise OutlastError("--currency goes with --price.")
    described = None if workload is None else Workload.read(workload)
    nodes = node_count(nodes, described)
    journal = open_journal(url)
    if price is not None:
        rate = _Rate(amount=_amount(price), currency=currency or "USD")
    else:
        rate = _rate_of(described, tier, today or datetime.now(UTC).date())
    spent = spent_in(journal)
    parts = parts_of(spent, price=rate.amount, nodes=nodes)
    change = best_change(spent)
    if format is Format.JSON:
        print(json.dumps(_as_json(journal, parts, change, rate), indent=2))
        return
    _print_parts(journal, parts, rate)
    _print_attempts(journal)
    if change is None:
        print("\nNo single change would have spared more than 1% of the time.")
    else:
        print(f"\nWorth most: {change.text} About {format_duration(change.seconds)} less.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rate:
    """What an hour of a node costs; `amount` is None if nobody knows."""

    amount: Decimal | None = None
    currency: str = "USD"


def _amount(price: str) -> Decimal:
    try:
        return parse_amount(price)
    except ValueError as error:
        raise OutlastError(f"--price is {price!r}. {error}") from None


def _rate_of(workload: Workload | None, tier: Tier | None, today: date) -> _Rate:
    """The price of the workload's machine; what is doubtful about it is told on stderr."""
    if workload is None:
        return _Rate()
    if tier is None or tier is Tier.AUTO:
        tier = choose_tier_by_rule(workload).tier
    bought = workload.hybrid.order[0] if tier is Tier.HYBRID else tier
    try:
        price = built_in_prices().find(workload.machine_type, workload.cluster.location, bought)
    except PriceUnknown as error:
        _warn(f"{error} The time is shown without its cost; --price takes a price.")
        return _Rate()
    if tier is Tier.HYBRID:
        _warn(
            f"A hybrid run buys {', '.join(workload.hybrid.order)}, and the journal does not say "
            f"when it bought which: all its time is priced as {bought}. --tier or --price take "
            "another price."
        )
    if price.is_estimate:
        _warn(f"The {bought} price is an {price.source}.")
    warn_if_stale([price], today=today)
    return _Rate(amount=price.amount, currency=price.currency)


def _warn(sentence: str) -> None:
    print(f"warning: {sentence}", file=sys.stderr)


def _print_parts(journal: Journal, parts: Sequence[Part], rate: _Rate) -> None:
    total_seconds = journal.summary.total_seconds
    money = total_amount(parts)
    state = "finished" if journal.summary.finished else "not finished yet"
    print(f"{journal.url}: {state}, {format_duration(total_seconds)}", end="")
    if money is not None and rate.amount is not None:
        print(f" and {money} {rate.currency}, at {rate.amount:f} for an hour of a node", end="")
    print(".\n")
    rows = [
        (
            part.name,
            format_duration(part.seconds),
            f"{part.share:.1%}",
            "-" if part.amount is None else f"{part.amount} {rate.currency}",
        )
        for part in parts
    ]
    print_table(("went into", "time", "share", "cost"), rows)


def _print_attempts(journal: Journal) -> None:
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
    print()
    head = ("attempt", "ended", "after", "lost", "grace used", "of", "then waited")
    print_table(head, rows, words=2)


def _as_json(
    journal: Journal, parts: Sequence[Part], change: Change | None, rate: _Rate
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
