"""`outlast prices`: what machines cost by the hour, how old that is, and where it comes from."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity.catalogue import read_catalogue
from outlast.capacity.price import (
    FLEX_MULTIPLIER,
    STALE_DAYS,
    Price,
    PriceTable,
    age_days,
    built_in_prices,
    format_prices,
    parse_multiplier,
    read_prices,
)
from outlast.cli.tables import print_table
from outlast.errors import OutlastError


class PriceFormat(StrEnum):
    """How to print prices."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


def prices(
    words: list[str] | None = None,
    /,
    *,
    import_: Annotated[Path | None, Parameter(name="--import")] = None,
    date: date | None = None,
    source: str | None = None,
    prices: list[Path] | None = None,
    flex_multiplier: str = str(FLEX_MULTIPLIER),
    today: date | None = None,
    format: PriceFormat = PriceFormat.TEXT,
) -> None:
    """Show what machines cost by the hour, with date and source of every price.

    Parameters
    ----------
    words: list[str]
        Show only rows that have all these words, such as a2-highgpu-1g us-central1.
    import_: Path
        A catalogue CSV whose machines and accelerators have rows of their own; they are added up.
        Print the result with --format csv and hand it to other commands with --prices.
    date: date
        Of what day the imported prices are. Needed with --import.
    source: str
        Where the imported prices come from. Default: the name of the file.
    prices: list[Path]
        A CSV file of your own prices, which replace the built-in ones.
    flex_multiplier: str
        The estimated flex-start price, as a multiple of the on-demand price.
    today: date
        The date to count the age from, for output that can be repeated.
    format: PriceFormat
        text for people, json for programs, csv for --prices.
    """
    if import_ is not None and prices:
        raise OutlastError(
            "--import and --prices exclude each other.",
            hint="Print the import with --format csv, and name that file with --prices as well.",
        )
    if import_ is not None:
        table = _imported(import_, date, source, flex_multiplier)
    elif date is not None or source is not None:
        raise OutlastError("--date and --source go with --import.", hint="Add --import FILE.")
    else:
        table = price_table(prices or [], flex_multiplier)
    day = today or datetime.now(UTC).date()
    shown = [row for row in _all_rows(table) if _matches(row, words or [])]
    if not shown:
        raise OutlastError(
            f"No price matches {' '.join(words or [])!r}.",
            hint="`outlast prices` lists every machine and place.",
        )
    warn_if_stale(shown, today=day)
    if format is PriceFormat.CSV:
        # An estimate is computed anew where it is needed, so it is no row of a table.
        sys.stdout.write(format_prices(row for row in shown if not row.is_estimate))
    elif format is PriceFormat.JSON:
        print(json.dumps({"prices": [_as_json(row, day) for row in shown]}, indent=2))
    else:
        _print_table(shown, day)


def price_table(files: Sequence[Path], flex_multiplier: str) -> PriceTable:
    """The built-in prices with the user's own on top."""
    table = PriceTable(built_in_prices().rows, parse_multiplier(flex_multiplier))
    for file in files:
        table = table.replaced_by(read_prices(file))
    return table


def warn_if_stale(rows: Iterable[Price], *, today: date) -> None:
    """Say on stderr that prices are old, or of a day that is still to come."""
    rows = list(rows)
    if rows and (newest := max(row.date for row in rows)) > today:
        print(f"warning: A price is of {newest}, and today is {today}.", file=sys.stderr)
    if rows and (age := age_days(rows, today=today)) > STALE_DAYS:
        print(
            f"warning: The oldest of these prices is {age} days old. `outlast prices --import` "
            "takes newer ones.",
            file=sys.stderr,
        )


def _imported(
    path: Path, dated: date | None, source: str | None, flex_multiplier: str
) -> PriceTable:
    if dated is None:
        raise OutlastError(
            "A catalogue does not say of what day its prices are.",
            hint="Add the day, such as --date 2026-08-21.",
        )
    found = read_catalogue(path, dated=dated, source=source or path.name)
    if found.left_out:
        print(
            f"{len(found.left_out)} machines could not be added up and are left out, such as "
            f"{', '.join(found.left_out[:3])}.",
            file=sys.stderr,
        )
    return PriceTable(found.rows, parse_multiplier(flex_multiplier))


def _all_rows(table: PriceTable) -> list[Price]:
    rows = [*{row.key: row for row in table.rows}.values(), *table.estimates()]
    return sorted(rows, key=lambda row: row.key)


def _matches(row: Price, words: Sequence[str]) -> bool:
    cells = (row.machine, row.accelerator, row.location, row.tier)
    return all(word in cells for word in words)


def _as_json(row: Price, today: date) -> dict[str, object]:
    return {
        "machine": row.machine,
        "accelerator": row.accelerator,
        "count": row.count,
        "location": row.location,
        "tier": row.tier,
        "per_hour": str(row.amount),
        "currency": row.currency,
        "date": row.date.isoformat(),
        "age_days": _age(row, today),
        "source": row.source,
        "is_estimate": row.is_estimate,
    }


def _age(row: Price, today: date) -> int | None:
    """In days; None for a price of a day that is still to come."""
    return (today - row.date).days if row.date <= today else None


def _print_table(rows: Sequence[Price], today: date) -> None:
    head = ("machine", "accelerators", "place", "tier", "per hour", "date", "age", "source")
    cells = [
        (
            row.machine,
            f"{row.count} {row.accelerator}" if row.count else "-",
            row.location,
            row.tier,
            f"{row.amount.normalize():f} {row.currency}",
            row.date.isoformat(),
            "-" if (age := _age(row, today)) is None else f"{age} d",
            row.source,
        )
        for row in rows
    ]
    print_table(head, cells, words=len(head))
