"""`outlast why RUN_URL`: where the time and the money of a run went, and what to change first."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from outlast._base.durations import format_duration
from outlast.capacity.plan import plan as make_plan
from outlast.capacity.price import parse_amount
from outlast.capacity.why import Change, Part, best_change, parts_of, total_amount
from outlast.capacity.workload import Workload
from outlast.cli.format import Format
from outlast.cli.journals import Journal, open_journal, spent_in
from outlast.cli.tables import print_table
from outlast.errors import OutlastError
from outlast.journal.derive import AttemptSummary, Ending


def why(
    url: str,
    /,
    *,
    workload: Path | None = None,
    price: str | None = None,
    currency: str = "USD",
    nodes: int = 1,
    format: Format = Format.TEXT,
) -> None:
    """Say where the time and the money of a run went, eviction by eviction.

    Parameters
    ----------
    url: str
        The run: a folder, or a URL such as gs://bucket/run.
    workload: Path
        Its workload file, for the price of its tier and the number of nodes.
    price: str
        Or the price of a node for an hour, such as 2.12.
    currency: str
        Of --price.
    nodes: int
        With --price: how many nodes the run had.
    format: Format
        text for people, json for programs.
    """
    journal = open_journal(url)
    amount = None
    if workload is not None:
        amount, currency, nodes = _price_of(Workload.read(workload))
    elif price is not None:
        try:
            amount = parse_amount(price)
        except ValueError as error:
            raise OutlastError(f"--price is {price!r}. {error}") from None
    spent = spent_in(journal)
    parts = parts_of(spent, price=amount, nodes=nodes)
    change = best_change(spent)
    if format is Format.JSON:
        print(json.dumps(_as_json(journal, parts, change, currency), indent=2))
        return
    _print_parts(journal, parts, currency)
    _print_attempts(journal)
    if change is None:
        print("\nNo single change would have spared more than 1% of the time.")
    else:
        print(f"\nWorth most: {change.text} About {format_duration(change.seconds)} less.")


def _price_of(workload: Workload) -> tuple[Decimal | None, str, int]:
    chosen = make_plan(workload, runs=1).chosen
    if chosen.price is None:
        return None, "USD", workload.pods
    return chosen.price.amount, chosen.price.currency, workload.pods


def _print_parts(journal: Journal, parts: Sequence[Part], currency: str) -> None:
    total_seconds = journal.summary.total_seconds
    money = total_amount(parts)
    cost = "" if money is None else f" and {money} {currency}"
    state = "finished" if journal.summary.finished else "not finished yet"
    print(f"{journal.url}: {state}, {format_duration(total_seconds)}{cost}.\n")
    rows = [
        (
            part.name,
            format_duration(part.seconds),
            f"{part.share:.1%}",
            "-" if part.amount is None else f"{part.amount} {currency}",
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
    journal: Journal, parts: Sequence[Part], change: Change | None, currency: str
) -> dict[str, object]:
    money = total_amount(parts)
    return {
        "url": journal.url,
        "finished": journal.summary.finished,
        "total_seconds": journal.summary.total_seconds,
        "cost": None if money is None else str(money),
        "currency": None if money is None else currency,
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
