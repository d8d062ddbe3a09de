"""Hourly machine prices, each with its date and source, and estimated flex-start prices.

Pure except for reading the built-in table and the files it is given. Money is `Decimal` with a
currency. No price is guessed silently: there is no public price list for flex-start, so unless the
user supplies a price it is estimated as a multiple of the on-demand price, and marked as such.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from outlast.capacity.errors import InputFileError
from outlast.capacity.google_cloud import REGIONS, offers_flex_start, region_of
from outlast.capacity.vocabulary import Tier

COLUMNS = (
    "machine", "accelerator", "count", "location", "tier", "price", "currency", "date", "source",
)  # fmt: skip
FLEX_MULTIPLIER = Decimal("0.5")
STALE_DAYS = 90
LIST = "list"
"""Used in place of a tier: the list price of a machine that cannot be bought on demand."""

_BUILT_IN = tuple(Path(__file__).with_name(name) for name in ("prices.csv", "prices_other.csv"))
"""Machines with built-in GPUs, and all others: common CPU machines, attached GPUs and TPUs."""

_FILE_BYTES_MAX = 32 * 1024**2
_AMOUNT = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_PRICED = (Tier.SPOT.value, Tier.FLEX_START.value, Tier.ON_DEMAND.value, LIST)


class PriceError(InputFileError):
    """A price table cannot be used, or prices cannot be compared."""


class PriceUnknown(PriceError):
    """There is no price for this machine type, location and tier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The hourly price of one machine, including its built-in accelerators.

    `tier` is the name of a tier, or `LIST`. An estimate is computed from another price.
    """

    machine: str
    accelerator: str
    count: int
    location: str
    tier: str
    amount: Decimal
    currency: str
    date: date
    source: str
    is_estimate: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.machine, self.location, self.tier


@dataclass(frozen=True)
class PriceTable:
    """Prices by machine, location and tier. Later rows replace earlier ones with the same key."""

    rows: tuple[Price, ...]
    flex_multiplier: Decimal = FLEX_MULTIPLIER
    _found: dict[tuple[str, str, str], Price] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.flex_multiplier.is_finite() and 0 < self.flex_multiplier <= 10):
            raise _bad_multiplier(str(self.flex_multiplier))
        object.__setattr__(self, "_found", {row.key: row for row in self.rows})

    @property
    def machines(self) -> list[str]:
        return sorted({machine for machine, _, _ in self._found})

    @property
    def locations(self) -> list[str]:
        return sorted({location for _, location, _ in self._found})

    def replaced_by(self, rows: Iterable[Price]) -> "PriceTable":
        """This table with `rows` added; they take precedence."""
        return PriceTable((*self._found.values(), *rows), self.flex_multiplier)

    def find(
        self, machine: str, location: str, tier: Tier, *, attached: tuple[str, int] | None = None
    ) -> Price:
        """The price of a machine. A zone has the price of its region unless it has its own row.

        `attached` are accelerators that are not a part of the machine type, with their number; the
        price includes them. Raises `PriceUnknown`, which suggests similar names or locations that
        have a price.
        """
        if attached is not None:
            return self._with_attached(machine, attached, location, tier)
        for place in dict.fromkeys((location, region_of(location))):
            found = self._found.get((machine, place, tier.value))
            if found is not None:
                return found
            if tier is Tier.FLEX_START and offers_flex_start(machine):
                basis = self._found.get((machine, place, Tier.ON_DEMAND.value))
                basis = basis or self._found.get((machine, place, LIST))
                if basis is not None:
                    return self._estimate(basis)
        raise self._unknown(machine, location, tier)

    def has(self, machine: str, location: str, tier: Tier) -> bool:
        """Whether the table has this price, not counting estimates."""
        places = (location, region_of(location))
        return any((machine, place, tier.value) in self._found for place in places)

    def estimates(self) -> Iterator[Price]:
        """Estimated flex-start prices for machines that have none in the table."""
        for row in self._found.values():
            is_basis = row.tier in (Tier.ON_DEMAND.value, LIST) and offers_flex_start(row.machine)
            if is_basis and (row.machine, row.location, Tier.FLEX_START.value) not in self._found:
                yield self._estimate(row)

    def _with_attached(
        self, machine: str, attached: tuple[str, int], location: str, tier: Tier
    ) -> Price:
        kind, count = attached
        base, extra = (self.find(one, location, tier) for one in (machine, kind))
        if base.currency != extra.currency:
            raise PriceError(f"The prices of {machine!r} and {kind!r} are in different currencies.")
        return replace(
            base,
            accelerator=kind,
            count=count,
            amount=base.amount + count * extra.amount,
            date=min(base.date, extra.date),
        )

    def _estimate(self, basis: Price) -> Price:
        word = "list price" if basis.tier == LIST else "on-demand price"
        return Price(
            machine=basis.machine,
            accelerator=basis.accelerator,
            count=basis.count,
            location=basis.location,
            tier=Tier.FLEX_START.value,
            amount=basis.amount * self.flex_multiplier,
            currency=basis.currency,
            date=basis.date,
            source=f"estimate: {self.flex_multiplier} x the {word}",
            is_estimate=True,
        )

    def _unknown(self, machine: str, location: str, tier: Tier) -> PriceUnknown:
        places = sorted({place for name, place, _ in self._found if name == machine})
        if not places:
            near = get_close_matches(machine, self.machines, n=3, cutoff=0.6)
            hint = f"Did you mean {_listed(near)}? " if near else "See `outlast prices`. "
            hint += "If it is newer than the price table, supply its prices with --prices FILE."
            return PriceUnknown(f"No price found for the machine type {machine!r}.", hint=hint)
        region = region_of(location)
        if region not in places and location not in places:
            hint = f"Prices are available in {', '.join(places[:8])}" + (
                "." if places[:8] == places else ", ..."
            )
            # The name of a region that exists is no typo, however similar another one is.
            if region not in REGIONS and region not in self.locations:
                near = get_close_matches(region, places, n=3, cutoff=0.5)
                hint = f"Did you mean {_listed(near)}?" if near else hint
            return PriceUnknown(f"No price found for {machine!r} in {location!r}.", hint=hint)
        return PriceUnknown(
            f"{machine!r} has no {tier.value} price in {location!r}.",
            hint="Supply one with --prices FILE. `outlast prices --format csv` shows the format.",
        )


@cache
def built_in_prices() -> PriceTable:
    """The price table shipped with this version."""
    return PriceTable(tuple(row for file in _BUILT_IN for row in read_prices(file)))


def read_prices(path: Path) -> list[Price]:
    """The rows of a price file. Raises `PriceError` with the line number of the problem."""
    return parse_prices(text_of(path), name=str(path))


def parse_prices(text: str, *, name: str) -> list[Price]:
    """The rows of a price table with the columns `COLUMNS`. `name` identifies it in errors."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    rows = [_price(row, name, reader.line_num) for row in checked_rows(reader, COLUMNS, name)]
    if not rows:
        raise PriceError(f"{name} contains no prices.", file=name)
    return rows


def format_prices(rows: Iterable[Price]) -> str:
    """Rows as the text of a price file, which `parse_prices` can read."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            (
                row.machine,
                row.accelerator,
                row.count or "",
                row.location,
                row.tier,
                row.amount,
                row.currency,
                row.date.isoformat(),
                row.source,
            )
        )
    return text.getvalue()


def _check_header(found: Sequence[str], columns: Iterable[str], name: str) -> None:
    missing = [column for column in columns if column not in found]
    if missing:
        raise PriceError(
            f"{name} has no column{'s' if len(missing) > 1 else ''} {_listed(missing)}.",
            hint=f"The first line must name these columns: {','.join(columns)}.",
            file=name,
            line=1,
        )


def checked_rows(
    reader: "csv.DictReader[str]", columns: Iterable[str], name: str
) -> Iterator[dict[str, str]]:
    """The rows of a CSV file that has at least these columns, with a value for each of them."""
    try:
        _check_header(reader.fieldnames or (), columns, name)
        for row in reader:
            if None in row or None in row.values():
                raise PriceError(
                    f"{name}:{reader.line_num}: The number of values differs from the header.",
                    file=name,
                    line=reader.line_num,
                )
            yield row
    except csv.Error as error:
        raise PriceError(
            f"{name}:{reader.line_num}: Invalid CSV: {error}.", file=name, line=reader.line_num
        ) from error


def check_currency(prices: Iterable[Price]) -> None:
    """Refuse to compare prices in different currencies."""
    first: dict[str, Price] = {}
    for price in prices:
        first.setdefault(price.currency, price)
    if len(first) > 1:
        one, other = list(first.values())[:2]
        raise PriceError(
            f"The {one.tier} price of {one.machine!r} in {one.location!r} is in {one.currency}, "
            f"but the {other.tier} price of {other.machine!r} in {other.location!r} is in "
            f"{other.currency}. Currencies are not converted.",
            hint="Supply all compared prices in one currency with --prices FILE.",
        )


def parse_multiplier(text: str) -> Decimal:
    """The factor by which the on-demand price is multiplied to estimate the flex-start price."""
    if _AMOUNT.fullmatch(text.strip()) is None:
        raise _bad_multiplier(text)
    return Decimal(text.strip())


def parse_amount(text: str) -> Decimal:
    """An exact price. Zero is refused: every plan would prefer a price that is really missing."""
    if _AMOUNT.fullmatch(text.strip()) is None:
        raise ValueError(
            f"price: expected a number such as 1.8471, without a sign or currency, got {text!r}."
        )
    amount = Decimal(text.strip())
    if amount == 0:
        raise ValueError("price: zero is not accepted. If there is no price, omit it.")
    return amount


def age_days(rows: Iterable[Price], *, today: date) -> int:
    """The age of the oldest of these prices, in days."""
    return max((today - row.date).days for row in rows)


def text_of(path: Path) -> str:
    """The text of a file, up to a maximum size."""
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise PriceError(
                f"{path} is larger than 32 MiB, the limit for price tables.",
                hint="Of a pricing export, keep one day and the rows of Compute Engine.",
                file=str(path),
            )
        return content.decode("utf-8-sig")
    except OSError as error:
        raise PriceError(
            f"Could not read {path}: {error.strerror}.", hint="Pass a CSV file.", file=str(path)
        ) from error
    except UnicodeDecodeError:
        raise PriceError(f"{path} is not UTF-8 text.", file=str(path)) from None


def _price(row: dict[str, str], name: str, line: int) -> Price:
    try:
        return Price(
            machine=_word(row, "machine"),
            accelerator=row["accelerator"].strip(),
            count=_count(row["count"].strip()),
            location=_word(row, "location"),
            tier=_tier(row["tier"].strip()),
            amount=parse_amount(row["price"]),
            currency=_currency(row["currency"].strip()),
            date=_day(row["date"].strip()),
            source=row["source"].strip(),
        )
    except ValueError as error:
        raise PriceError(f"{name}:{line}: {error}", file=name, line=line) from None


def _word(row: dict[str, str], column: str) -> str:
    word = row[column].strip()
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", word):
        raise ValueError(f"{column}: expected lowercase letters, digits and '-', got {word!r}.")
    return word


def _tier(text: str) -> str:
    if text not in _PRICED:
        raise ValueError(f"tier: expected one of {', '.join(_PRICED)}, got {text!r}.")
    return text


def _currency(text: str) -> str:
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise ValueError(f"currency: expected three letters such as USD, got {text!r}.")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{0,6}", text, re.ASCII):
        raise ValueError(f"count: expected a whole number or an empty value, got {text!r}.")
    return int(text or 0)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"date: expected a date such as 2026-08-21, got {text!r}.") from None


def _bad_multiplier(text: str) -> PriceError:
    return PriceError(
        f"Expected a flex-start multiplier above 0 and at most 10, got {text!r}.",
        hint="For example: --flex-multiplier 0.5.",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
