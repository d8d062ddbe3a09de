"""`outlast prices`: hourly machine prices with their date and source."""

import datetime
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from outlast.capacity.google_cloud import similar_accelerator
from outlast.capacity.pricing.billing_export import is_billing_export, parse_billing_export
from outlast.capacity.pricing.catalog import ImportedPrices, parse_catalog
from outlast.capacity.pricing.prices import (
    FLEX_MULTIPLIER,
    STALE_DAYS,
    Price,
    PriceTable,
    age_days,
    built_in_prices,
    format_prices,
    parse_multiplier,
    read_prices,
    text_of,
)
from outlast.capacity.vocabulary import Tier
from outlast.cli.option_types import Files
from outlast.cli.printing import print_table, say, say_json, write_document
from outlast.errors import OutlastError


class PriceFormat(StrEnum):
    """How to print prices."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PriceFlags:
    """Which prices to show, and as of when."""

    import_: Annotated[Path | None, Parameter(name="--import")] = None
    """Show the prices of a file: a pricing export of Cloud Billing, or the CSV of a catalog."""
    refresh: Path | None = None
    """Replace the built-in prices with those of such a file, and keep the others."""
    date: datetime.date | None = None
    """Date of the imported prices. Required for a catalog; an export contains it."""
    source: str | None = None
    """Source of the imported prices. Default: the file name."""
    prices: Files = ()
    """CSV file with prices that override the built-in ones."""
    flex_multiplier: str = str(FLEX_MULTIPLIER)
    """Estimate flex-start prices as this multiple of the on-demand price."""
    today: datetime.date | None = None
    """Date to use as today, for reproducible output."""
    format: PriceFormat = PriceFormat.TEXT
    """Output format. Use csv to create a file for --prices."""


_DEFAULTS = PriceFlags()


def prices(filters: list[str] | None = None, /, *, flags: PriceFlags = _DEFAULTS) -> None:
    """Show hourly machine prices with their date and source.

    Parameters
    ----------
    filters: list[str]
        Show only rows with all of these values, such as a2-highgpu-1g us-central1.
    """
    day = flags.today or datetime.datetime.now(datetime.UTC).date()
    shown = [row for row in _all_rows(_table(flags)) if _matches(row, filters or [])]
    if not shown:
        raise OutlastError(
            f"No price matches {' '.join(filters or [])!r}.",
            hint=_hint_for(filters or [], _table(flags)),
        )
    warn_if_stale(shown, today=day)
    if flags.format is PriceFormat.CSV:
        # Estimates are recomputed where needed, so they are not written to a table.
        write_document(format_prices(row for row in shown if not row.is_estimate))
    elif flags.format is PriceFormat.JSON:
        say_json({"prices": [_as_json(row, day) for row in shown]}, indent=2)
    else:
        _print_table(shown, day)


def _table(flags: PriceFlags) -> PriceTable:
    if flags.refresh is not None:
        if flags.import_ is not None:
            raise OutlastError(
                "--import and --refresh cannot be combined.",
                hint="Use --refresh to keep prices that the file does not have.",
            )
        rows = _imported(flags.refresh, flags.date, flags.source, flags.flex_multiplier).rows
        return price_table(flags.prices, flags.flex_multiplier).replaced_by(rows)
    if flags.import_ is not None:
        if flags.prices:
            raise OutlastError(
                "--import and --prices cannot be combined.",
                hint="Save the import with --format csv, and pass that file with --prices as well.",
            )
        return _imported(flags.import_, flags.date, flags.source, flags.flex_multiplier)
    if flags.date is not None or flags.source is not None:
        raise OutlastError(
            "--date and --source require --import or --refresh.", hint="Add --import FILE."
        )
    return price_table(flags.prices, flags.flex_multiplier)


def price_table(files: Sequence[Path], flex_multiplier: str) -> PriceTable:
    """The built-in prices, overridden by those in `files`."""
    table = PriceTable(built_in_prices().rows, parse_multiplier(flex_multiplier))
    for file in files:
        table = table.replaced_by(read_prices(file))
    return table


def warn_if_stale(rows: Iterable[Price], *, today: datetime.date) -> None:
    """Warn on stderr about prices that are old or dated in the future."""
    rows = list(rows)
    if rows and (newest := max(row.date for row in rows)) > today:
        say(f"warning: A price is dated {newest}, which is after today ({today}).", file=sys.stderr)
    if rows and (age := age_days(rows, today=today)) > STALE_DAYS:
        say(
            f"warning: The oldest of these prices is {age} days old. Supply newer ones with "
            "--prices; `outlast prices --import` converts a catalog.",
            file=sys.stderr,
        )


def _imported(
    path: Path, dated: datetime.date | None, source: str | None, flex_multiplier: str
) -> PriceTable:
    text = text_of(path)
    if is_billing_export(text):
        found = _exported(text, path, dated, source)
    elif dated is None:
        raise OutlastError(
            "--import and --refresh require --date, because a catalog does not contain the date of "
            "its prices.",
            hint="Add a date such as --date 2026-08-21.",
        )
    else:
        found = parse_catalog(text, name=str(path), dated=dated, source=source or path.name)
    for count, what, examples in (
        (len(found.skipped), "machines without prices for all their parts", found.skipped),
        (len(found.unknown_skus), "SKUs that are not known parts of machines", found.unknown_skus),
    ):
        if count:
            say(
                f"warning: Skipped {what}: {count}, such as {', '.join(examples[:3])}.",
                file=sys.stderr,
            )
    return PriceTable(found.rows, parse_multiplier(flex_multiplier))


def _exported(
    text: str, path: Path, dated: datetime.date | None, source: str | None
) -> ImportedPrices:
    if dated is not None:
        raise OutlastError(
            f"--date cannot be combined with {path}, because a pricing export contains the date of "
            "its prices.",
            hint="Remove --date.",
        )
    return parse_billing_export(text, name=str(path), source=source or path.name)


def _all_rows(table: PriceTable) -> list[Price]:
    rows = [*{row.key: row for row in table.rows}.values(), *table.estimates()]
    return sorted(rows, key=lambda row: row.key)


def _hint_for(words: Sequence[str], table: PriceTable) -> str:
    """Suggests a known value for the first unknown one."""
    known = {
        cell for row in table.rows for cell in (row.machine, row.accelerator, row.location) if cell
    }
    known |= {tier.value for tier in Tier}
    for word in words:
        if word not in known:
            similar = similar_accelerator(word)
            near = [similar] if similar in known else get_close_matches(word, known, n=1)
            if near:
                return f"Did you mean {near[0]!r}?"
            return (
                f"No price has {word!r}. Run `outlast prices` to list all machines and locations."
            )
    return "Run `outlast prices` to list all machines and locations."


def _matches(row: Price, words: Sequence[str]) -> bool:
    cells = (row.machine, row.accelerator, row.location, row.tier)
    return all(word in cells for word in words)


def _as_json(row: Price, today: datetime.date) -> dict[str, object]:
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


def _age(row: Price, today: datetime.date) -> int | None:
    """The age in days; None for a price dated in the future."""
    return (today - row.date).days if row.date <= today else None


def _print_table(rows: Sequence[Price], today: datetime.date) -> None:
    head = ("machine", "accelerators", "location", "tier", "per hour", "date", "age", "source")
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
