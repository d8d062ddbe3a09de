"""What machines cost by the hour: dated prices with their sources, and estimates.

Pure but for reading the built-in table and files it is given. Money is `Decimal` with a named
currency. A price is never guessed in silence: flex-start has no public table, so without a price of
the user's own it is a multiple of the on-demand price, and says so.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from outlast.capacity.vocabulary import Tier
from outlast.errors import OutlastError

COLUMNS = (
    "machine", "accelerator", "count", "location", "tier", "price", "currency", "date", "source",
)  # fmt: skip
FLEX_MULTIPLIER = Decimal("0.5")
STALE_DAYS = 90
LIST = "list"
"""In place of a tier: a list price of a machine that cannot be bought on demand."""

_BUILT_IN = Path(__file__).with_name("prices.csv")
_FILE_BYTES_MAX = 32 * 1024**2
_AMOUNT = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+\d+)-[a-z]", re.ASCII)
_PRICED = (Tier.SPOT.value, Tier.FLEX_START.value, Tier.ON_DEMAND.value, LIST)


class PriceError(OutlastError):
    """A table of prices cannot be used. `file` and `line` say where, if it is a file's fault."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line


class PriceUnknown(PriceError):
    """No price is known for this machine, at this place, bought this way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """A price per hour of one machine with all that comes with it.

    `tier` is a tier's name or `LIST`. An estimate was computed from another price.
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
    """Prices by machine, location and tier. Later rows replace earlier ones of the same key."""

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
        """This table with the user's own prices on top."""
        return PriceTable((*self._found.values(), *rows), self.flex_multiplier)

    def find(self, machine: str, location: str, tier: Tier) -> Price:
        """The price of a machine. A zone has the price of its region unless the table names it.

        Raises `PriceUnknown`, which suggests near names, or says where the machine has a price.
        """
        for place in dict.fromkeys((location, region_of(location))):
            found = self._found.get((machine, place, tier.value))
            if found is not None:
                return found
            if tier is Tier.FLEX_START:
                basis = self._found.get((machine, place, Tier.ON_DEMAND.value))
                basis = basis or self._found.get((machine, place, LIST))
                if basis is not None:
                    return self._estimate(basis)
        raise self._unknown(machine, location, tier)

    def has(self, machine: str, location: str, tier: Tier) -> bool:
        """Whether there is a price, estimates left aside."""
        places = (location, region_of(location))
        return any((machine, place, tier.value) in self._found for place in places)

    def estimates(self) -> Iterator[Price]:
        """Flex-start prices that follow from the table, where it has none of its own."""
        for row in self._found.values():
            is_basis = row.tier in (Tier.ON_DEMAND.value, LIST)
            if is_basis and (row.machine, row.location, Tier.FLEX_START.value) not in self._found:
                yield self._estimate(row)

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
            hint = f"Did you mean {_listed(near)}?" if near else "See `outlast prices`."
            return PriceUnknown(f"No price is known for the machine {machine!r}.", hint=hint)
        region = region_of(location)
        if region not in places and location not in places:
            near = get_close_matches(region, places, n=3, cutoff=0.5)
            known = f"It has a price in {', '.join(places[:8])}" + (
                "." if places[:8] == places else ", ..."
            )
            hint = f"Did you mean {_listed(near)}?" if near else known
            return PriceUnknown(f"No price is known for {machine!r} in {location!r}.", hint=hint)
        return PriceUnknown(
            f"{machine!r} has no {tier.value} price in {location!r}.",
            hint="Give one of your own with --prices FILE; see `outlast prices --format csv`.",
        )


@cache
def built_in_prices() -> PriceTable:
    """The table that comes with this version."""
    return PriceTable(tuple(read_prices(_BUILT_IN)))


def read_prices(path: Path) -> list[Price]:
    """The rows of a file of prices. Raises `PriceError` with the line of what is wrong."""
    return parse_prices(text_of(path), name=str(path))


def parse_prices(text: str, *, name: str) -> list[Price]:
    """The rows of a table of prices, in the columns of `COLUMNS`. `name` is what errors call it."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    rows = [_price(row, name, reader.line_num) for row in checked_rows(reader, COLUMNS, name)]
    if not rows:
        raise PriceError(f"{name} holds no price.", file=name)
    return rows


def format_prices(rows: Iterable[Price]) -> str:
    """Rows as a file of prices, as `parse_prices` takes it."""
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


def checked_rows(
    reader: "csv.DictReader[str]", columns: Iterable[str], name: str
) -> Iterator[dict[str, str]]:
    """The rows of a CSV file that has at least these columns, all of them filled with text."""
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise PriceError(
                f"{name} lacks the column{'s' if len(missing) > 1 else ''} {_listed(missing)}.",
                hint=f"The first line names the columns: {','.join(columns)}.",
                file=name,
                line=1,
            )
        for row in reader:
            if None in row or None in row.values():
                raise PriceError(
                    f"{name}:{reader.line_num}: The line has not as many values as the first.",
                    file=name,
                    line=reader.line_num,
                )
            yield row
    except csv.Error as error:
        raise PriceError(
            f"{name}:{reader.line_num}: This is not CSV: {error}.", file=name, line=reader.line_num
        ) from error


def check_currency(prices: Iterable[Price]) -> None:
    """Refuse to hold prices in two currencies against each other."""
    first: dict[str, Price] = {}
    for price in prices:
        first.setdefault(price.currency, price)
    if len(first) > 1:
        one, other = list(first.values())[:2]
        raise PriceError(
            f"The {one.tier} price of {one.machine!r} in {one.location!r} is in {one.currency}, "
            f"the {other.tier} price of {other.machine!r} in {other.location!r} in "
            f"{other.currency}, and nothing converts them.",
            hint="Give all prices that are compared in one currency, with --prices FILE.",
        )


def parse_multiplier(text: str) -> Decimal:
    """What the on-demand price is multiplied with to estimate that of flex-start."""
    if _AMOUNT.fullmatch(text.strip()) is None:
        raise _bad_multiplier(text)
    return Decimal(text.strip())


def parse_amount(text: str) -> Decimal:
    """An exact price. Zero is refused: it would make every plan prefer what is missing."""
    if _AMOUNT.fullmatch(text.strip()) is None:
        raise ValueError("A price is a number such as 1.8471, without a sign or a currency.")
    amount = Decimal(text.strip())
    if amount == 0:
        raise ValueError("A price of zero is not believed; leave the row out if there is none.")
    return amount


def region_of(location: str) -> str:
    """The region of a zone; a region stays itself."""
    match = _ZONE.fullmatch(location)
    return match["region"] if match else location


def age_days(rows: Iterable[Price], *, today: date) -> int:
    """How old the oldest of these prices is."""
    return max((today - row.date).days for row in rows)


def text_of(path: Path) -> str:
    """The text of a file of bounded size."""
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise PriceError(f"{path} is far too large for a table.", file=str(path))
        return content.decode("utf-8-sig")
    except OSError as error:
        raise PriceError(
            f"{path} cannot be read: {error.strerror}.", hint="Name a CSV file.", file=str(path)
        ) from error
    except UnicodeDecodeError:
        raise PriceError(f"{path} is not text in UTF-8.", file=str(path)) from None


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
        raise ValueError(f"{column} is {word!r}; small letters, digits and '-' are expected.")
    return word


def _tier(text: str) -> str:
    if text not in _PRICED:
        raise ValueError(f"tier is {text!r}; one of {', '.join(_PRICED)} is expected.")
    return text


def _currency(text: str) -> str:
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise ValueError(f"currency is {text!r}; three letters such as USD are expected.")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{0,6}", text, re.ASCII):
        raise ValueError(f"count is {text!r}; a whole number from 0, or nothing, is expected.")
    return int(text or 0)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"date is {text!r}; a day such as 2026-08-21 is expected.") from None


def _bad_multiplier(text: str) -> PriceError:
    return PriceError(
        f"The multiplier for flex-start is {text!r}; a number above 0 and up to 10 is expected.",
        hint="For example: --flex-multiplier 0.5.",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
