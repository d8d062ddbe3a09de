"""Turn a catalogue of cloud prices into a table of ours.

In such a catalogue the rows of machines and the rows of accelerators stand apart, and a machine
with accelerators costs the sum of the two. What does not fit together is left out and counted, not
guessed. Pure but for reading the file.
"""

import csv
import io
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from outlast.capacity.machines import built_in
from outlast.capacity.price import LIST, Price, PriceError, checked_rows, text_of
from outlast.capacity.vocabulary import Tier

COLUMNS = (
    "InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice",
)  # fmt: skip

NOT_ON_DEMAND = frozenset({"a3-highgpu-1g", "a4-highgpu-8g"})
"""Machines with a list price, but no capacity that can be bought on demand."""

_ACCELERATORS = {
    "A100": "nvidia-tesla-a100",
    "A100-80GB": "nvidia-a100-80gb",
    "B200": "nvidia-b200",
    "H100": "nvidia-h100-80gb",
    "H100-MEGA": "nvidia-h100-mega-80gb",
    "H200": "nvidia-h200-141gb",
    "L4": "nvidia-l4",
    "RTXPRO6000": "nvidia-rtx-pro-6000",
}
K = TypeVar("K")
_AMOUNT = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_COUNT = re.compile(r"\d{1,6}(\.0{1,6})?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """The prices of a catalogue, and the machines and places that could not be added up."""

    rows: tuple[Price, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """What a row says: the price on demand and on Spot; None where it says nothing."""

    on_demand: Decimal | None
    spot: Decimal | None


def read_catalogue(path: Path, *, dated: date, source: str, currency: str = "USD") -> Imported:
    """The prices in a catalogue file. Raises `PriceError` with the line of what is wrong."""
    return parse_catalogue(
        text_of(path), name=str(path), dated=dated, source=source, currency=currency
    )


def parse_catalogue(
    text: str, *, name: str, dated: date, source: str, currency: str = "USD"
) -> Imported:
    """The prices in the text of a catalogue. Zones of one region must agree."""
    machines: dict[tuple[str, str], _Pair] = {}
    accelerators: dict[tuple[str, int, str], _Pair] = {}
    reader = csv.DictReader(io.StringIO(text), strict=True)
    for row in checked_rows(reader, COLUMNS, name):
        try:
            pair = _Pair(_amount(row, "Price"), _amount(row, "SpotPrice"))
            if row["InstanceType"]:
                _agree(machines, (row["InstanceType"], row["Region"]), pair)
            elif (kind := _ACCELERATORS.get(row["AcceleratorName"])) is not None:
                _agree(accelerators, (kind, _count(row), row["Region"]), pair)
        except ValueError as error:
            raise PriceError(
                f"{name}:{reader.line_num}: {error}", file=name, line=reader.line_num
            ) from None
    rows: list[Price] = []
    left_out = []
    for (machine, region), pair in sorted(machines.items()):
        kind, count = built_in(machine) or ("", 0)
        extra = accelerators.get((kind, count, region))
        if extra is None:
            left_out.append(f"{machine} in {region}")
            continue
        for tier, amount in _sums(machine, pair, extra):
            rows.append(
                Price(
                    machine=machine,
                    accelerator=kind,
                    count=count,
                    location=region,
                    tier=tier,
                    amount=amount,
                    currency=currency,
                    date=dated,
                    source=source,
                )
            )
    if not rows:
        raise PriceError(
            f"{name} holds no machine whose price could be added up.",
            hint="Rows with InstanceType are machines, rows without it are their accelerators.",
            file=name,
        )
    return Imported(rows=tuple(rows), left_out=tuple(left_out))


def _sums(machine: str, pair: _Pair, extra: _Pair) -> list[tuple[str, Decimal]]:
    sums = []
    for tier, one, other in (
        (Tier.ON_DEMAND.value, pair.on_demand, extra.on_demand),
        (Tier.SPOT.value, pair.spot, extra.spot),
    ):
        # Half a price would be worse than none.
        if one is None or other is None or one + other == 0:
            continue
        if tier == Tier.ON_DEMAND.value and machine in NOT_ON_DEMAND:
            tier = LIST
        sums.append((tier, one + other))
    return sums


def _amount(row: dict[str, str], column: str) -> Decimal | None:
    text = row[column].strip()
    if not text:
        return None
    if _AMOUNT.fullmatch(text) is None:
        raise ValueError(f"{column} is {text!r}; a number is expected.")
    return Decimal(text)


def _count(row: dict[str, str]) -> int:
    text = row["AcceleratorCount"].strip()
    if _COUNT.fullmatch(text) is None:
        raise ValueError(f"AcceleratorCount is {text!r}; a whole number is expected.")
    return int(Decimal(text))


def _agree(found: dict[K, _Pair], key: K, pair: _Pair) -> None:
    if found.setdefault(key, pair) != pair:
        raise ValueError(f"{key!r} has another price in an earlier line.")
